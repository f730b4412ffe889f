//! One row of A and columns of B that are contiguous: dot products.

use super::kernels::{Columns, Kernels};
use super::{Place, RESULTS, ThinKernel, lanes};
use crate::library::gemm::{Element, Panel};
use std::ops::Range;

/// Most terms of columns that are packed.
pub(super) const TERMS: usize = 2048;

impl<T: Element> ThinKernel<T> {
    /// Columns of B are contiguous, and there is one row of A: dot products.
    pub(super) unsafe fn by_columns(&self, p: &Place<'_, T>, cols: Range<usize>) {
        let (step, size) = (lanes::<T::Acc>(), size_of::<T::Acc>());
        let whole = p.k - p.k % step;
        let terms = match self.direct {
            Some(_) => whole.max(1),
            None => TERMS,
        };
        // SAFETY: as the caller's; there are `RESULTS` sums and lanes of `MOST_COLUMNS`, and memory for as many columns of `TERMS`.
        unsafe {
            let under_way = p.sums.add(RESULTS);
            let (rest, _) = self.rest(p, whole..p.k, step);
            for start in cols.clone().step_by(RESULTS) {
                let end = cols.end.min(start + RESULTS);
                for first in (start..end).step_by(self.packed.group) {
                    let columns = self.packed.group.min(end - first);
                    let b = p.x.b.offset(first as isize * p.x.b_col);
                    for i in 0..columns * step {
                        under_way.add(i).write(T::ZERO);
                    }
                    let pack = |l: usize, terms: usize, pitch: usize| {
                        (self.pack)(&Panel {
                            dst: p.packed,
                            pitch,
                            src: b.add(l),
                            width: terms,
                            w_step: 1,
                            k_step: p.x.b_col,
                            kc: columns,
                        });
                        (p.packed.cast_const().cast(), (pitch * size) as isize)
                    };
                    for l in (0..whole).step_by(terms) {
                        let count = terms.min(whole - l);
                        let (kernels, b) = match &self.direct {
                            Some(direct) => {
                                let col = p.x.b_col * size_of::<T>() as isize;
                                (direct, (b.add(l).cast(), col))
                            }
                            None => (&self.packed, pack(l, count, count)),
                        };
                        dots(kernels, p.a.0.add(l), b, count / step, columns, under_way);
                    }
                    if whole < p.k {
                        let b = pack(whole, p.k - whole, step);
                        dots(&self.packed, rest, b, 1, columns, under_way);
                    }
                    (self.totals)(under_way, p.sums.add(first - start), columns);
                }
                self.write(p.x, 1, start, (p.sums, RESULTS), end - start);
            }
        }
    }
}

/// Adds dot products with `columns` columns of B to the lanes of their sums.
unsafe fn dots<S>(
    kernels: &Kernels<S>,
    a: *const S,
    (b, b_col): (*const u8, isize),
    steps: usize,
    columns: usize,
    to: *mut S,
) {
    let mut column = 0;
    while column < columns {
        let (taken, kernel) = match column + kernels.columns <= columns {
            true => (kernels.columns, kernels.whole),
            false => (1, kernels.single),
        };
        // SAFETY: the caller has the terms of these columns, and lanes for their sums.
        unsafe {
            kernel(&Columns {
                a,
                b: b.offset(column as isize * b_col),
                b_col,
                steps,
                lanes: to.add(column * lanes::<S>()),
            });
        }
        column += taken;
    }
}
