//! Sums across rows, a chunk at a time.

use super::{Fold, LANES};
use crate::isa::{Isa, versions};

versions!(
    /// Sets the lanes of `n` columns to the folds of `rows` rows that lie `step` bytes apart, up to 256; each lane to that of every
    /// 16th row. Lanes that have no row stay.
    ColumnFold, pick_column_fold, ColumnFoldFn(n: usize, lanes: *mut u8, x: *const u8, step: isize, rows: usize)
);

/// # Safety
/// `x` has an element for each sum.
#[inline(always)]
unsafe fn add_row<F: Fold>(sums: &mut [F::T], x: *const F::T) {
    for (i, sum) in sums.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *sum = F::fold(*sum, unsafe { *x.add(i) });
    }
}

impl<F: Fold> ColumnFold for F {
    const WIDEST: Isa = F::WIDEST;

    #[inline(always)]
    unsafe fn run(n: usize, lanes: *mut u8, x: *const u8, step: isize, rows: usize) {
        // Up to 16 rows are read at once, and their sums stay in registers.
        const STRIP: usize = 64;
        for l in 0..LANES.min(rows) {
            let to = lanes.cast::<F::T>().wrapping_add(l * n);
            let from = x.wrapping_offset(l as isize * step);
            for first in (0..n).step_by(STRIP) {
                let mut sums = [F::START; STRIP];
                let mut row = from.cast::<F::T>().wrapping_add(first);
                let width = STRIP.min(n - first);
                for _ in (l..rows).step_by(LANES) {
                    // SAFETY: the caller vouches for n elements of each row.
                    unsafe {
                        match width {
                            // Of a length that the compiler knows.
                            STRIP => add_row::<F>(&mut sums, row),
                            _ => add_row::<F>(&mut sums[..width], row),
                        }
                    }
                    row = row.wrapping_byte_offset(LANES as isize * step);
                }
                // SAFETY: a lane has n elements.
                unsafe {
                    to.add(first).copy_from_nonoverlapping(sums.as_ptr(), width);
                }
            }
        }
    }
}
