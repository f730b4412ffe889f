//! Products of operands that are packed before: strips of A, of as many rows as tiles have, and one panel of B.

use super::tile::{Lines, TileArgs};
use super::{Element, Kernels, Panel, Pieces, Stored};

/// Elements that packing may write behind what is packed.
pub(crate) const OVERRUN: usize = 16;

/// All of A as [`Strips::pack`] packs it.
#[derive(Clone, Copy)]
pub(crate) struct Strips<S> {
    pub(crate) start: *mut S,
    pub(crate) rows: usize,
    /// Terms of each row.
    pub(crate) steps: usize,
}

impl<S: Copy> Strips<S> {
    /// Elements of the memory of so many rows.
    pub(crate) fn len(rows: usize, steps: usize) -> usize {
        rows * steps + OVERRUN
    }

    /// Packs A, which is its first element with the steps to its next row and column.
    ///
    /// # Safety
    /// A has the rows and terms, memory is as long as [`Strips::len`] says, the kernels' instruction set exists.
    pub(crate) unsafe fn pack<T: Element<Acc = S>>(
        &self,
        kernels: &Kernels<T>,
        (a, a_row, a_col): (*const T, isize, isize),
    ) {
        let strips = self.strips(kernels);
        for i in 0..strips.count {
            let (first, rows) = (strips.at(i).start, strips.at(i).len());
            // SAFETY: the caller vouches for A and for the memory.
            unsafe {
                (kernels.pack[0])(&Panel {
                    dst: self.start.add(first * self.steps),
                    pitch: rows,
                    src: a.offset(first as isize * a_row),
                    width: rows,
                    w_step: a_row,
                    k_step: a_col,
                    kc: self.steps,
                });
            }
        }
    }

    /// Computes C, without gaps and as wide as the panel `b`, from the first `steps` terms: the strips that have any of the first `rows`
    /// rows. Products are added to C where it `accumulates`.
    ///
    /// # Safety
    /// The strips are packed, the panel has `steps` rows, C has room for all rows of the strips, the kernels' instruction set exists.
    pub(crate) unsafe fn times<T: Element<Acc = S>>(
        &self,
        kernels: &Kernels<T>,
        (rows, steps): (usize, usize),
        b: *const S,
        c: *mut S,
        accumulate: bool,
    ) {
        let (nr, strips) = (kernels.tiles.nr, self.strips(kernels));
        let mut i = 0;
        while i < strips.count && strips.at(i).start < rows {
            let strip = strips.at(i);
            let (first, height) = (strip.start, strip.len());
            let tiles = strips.alike(i).min((rows - first).div_ceil(height));
            // SAFETY: the caller vouches for the operands.
            unsafe {
                kernels.tiles.packed[height - 1](&TileArgs {
                    tiles,
                    rows: height,
                    kc: steps,
                    a: self.start.add(first * self.steps),
                    a_tile: height * self.steps,
                    a_row: 1,
                    a_k: height as isize,
                    b,
                    b_k: nr as isize,
                    c: c.add(first * nr),
                    c_row: nr as isize,
                    start: std::ptr::null(),
                    accumulate,
                    beside: 0,
                    copy: std::ptr::null_mut(),
                    next: [Lines::NONE; 2],
                });
            }
            i += tiles;
        }
    }

    /// The rows of each strip, of which none is empty.
    fn strips<T: Element<Acc = S>>(&self, kernels: &Kernels<T>) -> Pieces {
        Pieces::new(self.rows, self.rows.div_ceil(kernels.tiles.packed.len()))
    }
}

/// Packs a panel of B, which is its first element with the steps to its next row and column.
///
/// # Safety
/// B has `k` rows of `width` columns, which are at most a panel's; `dst` has room for a panel and [`OVERRUN`] behind it; the kernels'
/// instruction set exists.
pub(crate) unsafe fn pack_panel<T: Element>(
    kernels: &Kernels<T>,
    (b, b_row, b_col): (*const T, isize, isize),
    (k, width): (usize, usize),
    dst: *mut <T as Stored>::Acc,
) {
    // SAFETY: same contract.
    unsafe {
        (kernels.pack[1])(&Panel {
            dst,
            pitch: kernels.tiles.nr,
            src: b,
            width,
            w_step: b_col,
            k_step: b_row,
            kc: k,
        });
    }
}
