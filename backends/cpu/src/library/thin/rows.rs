//! Rows of B that are contiguous: multiples of them are added to runs of sums.

use super::kernels::{Kernels, ROWS, Rows};
use super::{Place, Read, ThinKernel, lanes};
use crate::library::gemm::{Element, KC, Panel, piece};
use std::ops::Range;

/// Columns whose sums stay in L1 while rows of B go by.
pub(super) const CHUNK: usize = 2048;
/// From the sums of a row of A to those of the next: on other sets of L1.
pub(super) const PITCH: usize = CHUNK + 32;

impl<T: Element> ThinKernel<T> {
    /// Rows of B are contiguous: adds multiples of them to runs of sums. Terms are summed in the order of the kernels for many rows: the
    /// sum of a block of them is added to that of the blocks before.
    pub(super) unsafe fn by_rows(&self, p: &Place<'_, T>, cols: Range<usize>) {
        let pairs = p.k.div_ceil(self.lane);
        let blocks = pairs.div_ceil(KC);
        let chunk = if p.m > 2 { CHUNK / 2 } else { CHUNK };
        for start in cols.clone().step_by(chunk) {
            let width = chunk.min(cols.end - start);
            // SAFETY: as the caller's; there are `PITCH` sums of each row, and as many of the blocks before.
            unsafe {
                let before = p.sums.add(p.m * PITCH);
                for block in 0..blocks {
                    let terms = piece(pairs, blocks, block);
                    let terms = terms.start * self.lane..p.k.min(terms.end * self.lane);
                    self.block(p, start..start + width, terms);
                    for i in (0..p.m).filter(|_| blocks > 1) {
                        for j in i * PITCH..i * PITCH + width {
                            let (sum, to) = (*p.sums.add(j), before.add(j));
                            to.write(if block == 0 { sum } else { T::add(*to, sum) });
                        }
                    }
                }
                let sums = if blocks > 1 { before } else { p.sums };
                self.write(p.x, p.m, start, (sums, PITCH), width);
            }
        }
    }

    /// The sums of some terms of some columns.
    unsafe fn block(&self, p: &Place<'_, T>, cols: Range<usize>, terms: Range<usize>) {
        let (lanes, width) = (lanes::<T::Acc>(), cols.len());
        let whole = terms.end - terms.len() % ROWS;
        let direct = self.direct.as_ref().filter(|_| whole > terms.start);
        let inner = if direct.is_some() {
            width - width % lanes
        } else {
            0
        };
        // SAFETY: as the caller's; there is memory for as many columns of a block of rows.
        unsafe {
            for i in 0..p.m {
                for j in 0..width.next_multiple_of(lanes) {
                    p.sums.add(i * PITCH + j).write(T::ZERO);
                }
            }
            let row = |l: usize| p.x.b.add(cols.start).offset(l as isize * p.x.b_row);
            if let Some(kernels) = direct.filter(|_| inner > 0) {
                let b = (row(terms.start).cast(), p.x.b_row * size_of::<T>() as isize);
                let a = (p.a.0.add(terms.start), p.a.1);
                p.add(kernels, a, b, (whole - terms.start) / ROWS, 0..inner, self.far);
            }
            for l in terms.clone().step_by(ROWS) {
                let (a, from) = match l < whole {
                    true => ((p.a.0.add(l), p.a.1), inner),
                    false => (self.rest(p, whole..terms.end, ROWS), 0),
                };
                if from == width {
                    continue;
                }
                let (count, pitch) = (ROWS.min(terms.end - l), (width - from).next_multiple_of(lanes));
                (self.pack)(&Panel {
                    dst: p.packed,
                    pitch,
                    src: row(l).add(from),
                    width: width - from,
                    w_step: 1,
                    k_step: p.x.b_row,
                    kc: count,
                });
                for i in count * pitch..ROWS * pitch {
                    p.packed.add(i).write(T::ZERO);
                }
                let b = (
                    p.packed.cast_const().cast(),
                    (pitch * size_of::<T::Acc>()) as isize,
                );
                p.add(&self.packed, a, b, 1, from..from + pitch, false);
            }
        }
    }
}

impl<T: Element> Place<'_, T> {
    /// Adds blocks of rows of B to the sums of some columns.
    unsafe fn add(
        &self,
        kernels: &Kernels<T::Acc>,
        (a, a_row): Read<T::Acc>,
        (b, b_row): (*const u8, isize),
        blocks: usize,
        columns: Range<usize>,
        asks: bool,
    ) {
        let kernel = kernels.rows[usize::from(self.m > 1)][usize::from(asks)];
        // SAFETY: the caller has the rows, the columns and their sums.
        unsafe {
            kernel(&mut Rows {
                sums: self.sums.add(columns.start),
                pitch: PITCH * size_of::<T::Acc>(),
                rows: self.m,
                a,
                a_row,
                b,
                b_row,
                blocks,
                width: columns.len(),
            });
        }
    }
}
