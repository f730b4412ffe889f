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
        self.each(kernels, self.rows, |first, rows| {
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
        });
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
        let nr = kernels.tiles.nr;
        self.each(kernels, rows, |first, rows| {
            // SAFETY: the caller vouches for the operands.
            unsafe {
                kernels.tiles.packed[rows - 1](&TileArgs {
                    rows,
                    kc: steps,
                    a: self.start.add(first * self.steps),
                    a_row: 1,
                    a_k: rows as isize,
                    b,
                    b_k: nr as isize,
                    c: c.add(first * nr),
                    c_row: nr as isize,
                    start: std::ptr::null(),
                    accumulate,
                    copy: std::ptr::null_mut(),
                    next: [Lines::NONE; 2],
                });
            }
        });
    }

    /// Each strip that has any of the first `rows` rows: its first row, and how many it has.
    fn each<T: Element<Acc = S>>(
        &self,
        kernels: &Kernels<T>,
        rows: usize,
        mut strip: impl FnMut(usize, usize),
    ) {
        let strips = self.rows.div_ceil(kernels.tiles.packed.len()).max(1);
        let mut pieces = Pieces::new(self.rows, strips);
        loop {
            let piece = pieces.next();
            if piece.is_empty() || piece.start >= rows {
                return;
            }
            strip(piece.start, piece.len());
        }
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
