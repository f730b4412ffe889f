//! Several rows of A, and columns of B that are contiguous: squares of B are transposed in registers, where every row meets them. Sums run
//! in the order of products of many rows.

mod code;

use super::{RESULTS, ThinKernel};
use crate::library::gemm::{Element, KC, Operands, Scratch, piece};
use code::GROUP;
pub(super) use code::{Kernel, Squared, kernel};
use std::ops::Range;

/// Rows of A and a group of columns of B.
#[repr(C)]
pub(super) struct Squares<S> {
    /// Of each row, [`GROUP`] bytes.
    sums: *mut S,
    /// Bytes from row to row.
    pitch: usize,
    rows: usize,
    /// Lanes as the kernel multiplies them.
    a: *const u8,
    /// Bytes from row to row.
    a_row: isize,
    b: *const u8,
    /// Bytes from column to column.
    b_col: isize,
    /// Of as many terms as the kernel takes; at least one.
    steps: usize,
}

/// Columns of a group.
pub(super) const fn group<S>() -> usize {
    GROUP / size_of::<S>()
}

/// Blocks of terms, each with the bytes before it in a row of A as the kernel reads it.
struct Blocks {
    k: usize,
    lane: usize,
    count: usize,
    /// Terms of a step.
    step: usize,
}

impl Blocks {
    fn at(&self, block: usize) -> Range<usize> {
        let lanes = piece(self.k.div_ceil(self.lane), self.count, block);
        lanes.start * self.lane..(lanes.end * self.lane).min(self.k)
    }

    /// Terms of a block with those that fill its last step.
    fn padded(&self, block: usize) -> usize {
        self.at(block).len().next_multiple_of(self.step)
    }
}

impl<T: Element> ThinKernel<T> {
    /// # Safety
    /// That of [`ThinKernel::run`]; B has a group of columns.
    pub(super) unsafe fn by_squares(
        &self,
        kernel: &Kernel<T::Acc>,
        x: &Operands<T>,
        [m, n, k]: [usize; 3],
        cols: Range<usize>,
    ) {
        let lanes = k.div_ceil(kernel.lane);
        let blocks = Blocks {
            k,
            lane: kernel.lane,
            count: lanes.div_ceil(KC),
            step: kernel.terms,
        };
        let group = group::<T::Acc>();
        let factor = if kernel.stored {
            size_of::<T>()
        } else {
            size_of::<T::Acc>()
        };
        let row: usize = (0..blocks.count).map(|block| blocks.padded(block)).sum();
        // The last group may begin before the results that are at hand.
        let (pitch, sums_len) = (group + RESULTS, m * group);
        let rest = (group * kernel.terms * size_of::<T>()).next_multiple_of(64);
        let size = size_of::<T::Acc>();
        let scratch = Scratch::take((m * pitch + sums_len) * size + rest + m * row * factor);
        let results: *mut T::Acc = scratch.start().cast();
        // SAFETY: the scratch memory has the length asked for; the operands' extents are the caller's contract, and the kernel's instruction set exists.
        unsafe {
            let sums = results.add(m * pitch);
            let rest_at: *mut T = sums.add(sums_len).cast();
            let a: *mut u8 = rest_at.byte_add(rest).cast();
            let a_row = (row * factor) as isize;
            for i in 0..m {
                let mut to = a.offset(i as isize * a_row);
                for block in 0..blocks.count {
                    to = self.lay_out(kernel, x, i, (blocks.at(block), blocks.padded(block)), to);
                }
            }
            for start in cols.clone().step_by(RESULTS) {
                let end = cols.end.min(start + RESULTS);
                for first in (start..end).step_by(group) {
                    // The last group overlaps the one before: the sums of a column are the same in each.
                    let at = first.min(n - group);
                    let b = x.b.offset(at as isize * x.b_col);
                    let here = results.add(group + at - start);
                    let mut factors = a.cast_const();
                    for block in 0..blocks.count {
                        let terms = blocks.at(block);
                        let (to, to_row) = if block == 0 { (here, pitch) } else { (sums, group) };
                        for i in 0..m {
                            to.add(i * to_row).cast::<[u8; GROUP]>().write([0; GROUP]);
                        }
                        let add = |a: *const u8, b: *const T, b_col: isize, steps: usize| {
                            if steps > 0 {
                                (kernel.run)(&Squares {
                                    sums: to,
                                    pitch: to_row * size,
                                    rows: m,
                                    a,
                                    a_row,
                                    b: b.cast(),
                                    b_col: b_col * size_of::<T>() as isize,
                                    steps,
                                });
                            }
                        };
                        let steps = terms.len() / kernel.terms;
                        add(factors, b.add(terms.start), x.b_col, steps);
                        let left = terms.start + steps * kernel.terms..terms.end;
                        if !left.is_empty() {
                            rest_at.write_bytes(0, group * kernel.terms);
                            for column in 0..group {
                                let from = b.offset(column as isize * x.b_col).add(left.start);
                                let to = rest_at.add(column * kernel.terms);
                                to.copy_from_nonoverlapping(from, left.len());
                            }
                            let done = factors.add(steps * kernel.terms * factor);
                            add(done, rest_at, kernel.terms as isize, 1);
                        }
                        let added = if block > 0 { m } else { 0 };
                        for (i, j) in (0..added).flat_map(|i| (0..group).map(move |j| (i, j))) {
                            let to = here.add(i * pitch + j);
                            to.write(T::add(*to, *sums.add(i * group + j)));
                        }
                        factors = factors.add(blocks.padded(block) * factor);
                    }
                }
                self.write(x, m, start, (results.add(group), pitch), end - start);
            }
        }
    }

    /// Writes a block of terms of a row of A as the kernel reads them, and what fills its last step: -0, which times a zero of B changes no sum,
    /// behind +0 as the second of a pair, which is what products of many rows have there. Returns the end.
    unsafe fn lay_out(
        &self,
        kernel: &Kernel<T::Acc>,
        x: &Operands<T>,
        row: usize,
        (terms, padded): (Range<usize>, usize),
        to: *mut u8,
    ) -> *mut u8 {
        let pairs = terms.len().next_multiple_of(kernel.lane);
        // SAFETY: A has the terms, and there is room for as many as `padded`. Elements that are given as they are stored have 16 bits.
        unsafe {
            let from = x.a.wrapping_offset(row as isize * x.a_row);
            let given = |l: usize| *from.wrapping_offset((terms.start + l) as isize * x.a_col);
            if kernel.stored {
                debug_assert_eq!(size_of::<T>(), size_of::<u16>());
                for l in 0..terms.len() {
                    to.cast::<T>().add(l).write(given(l));
                }
                for l in terms.len()..padded {
                    to.cast::<u16>().add(l).write(if l < pairs { 0 } else { 1 << 15 });
                }
                return to.add(padded * size_of::<T>());
            }
            let to: *mut T::Acc = to.cast();
            for l in 0..terms.len() {
                to.add(l).write(given(l).widen());
            }
            for l in terms.len()..padded {
                to.add(l).write(if l < pairs { T::ZERO } else { self.minus_zero });
            }
            to.add(padded).cast()
        }
    }
}
