//! A B that is packed once for all of its products.

use super::{Element, Kernels, Panel};
use std::ops::Range;

/// All of B as [`pack_whole`] packs it.
#[derive(Clone, Copy)]
pub(crate) struct Whole<S> {
    /// Panel after panel, or null where B is not packed.
    pub(super) panels: *mut S,
    /// Steps of k.
    pub(super) steps: usize,
    /// What the sums of each column begin with, where kernels have that.
    pub(super) start: *mut S,
    /// Whether a block packs its columns before others read them.
    pub(super) fills: bool,
}

impl<S> Whole<S> {
    /// Whether there is a form that is packed.
    pub(crate) fn is_packed(&self) -> bool {
        !self.panels.is_null()
    }

    /// What [`pack_whole`] wrote to `panels` for `k` rows and `n` columns; null where it wrote nothing.
    pub(crate) fn new<T: Element<Acc = S>>(kernels: &Kernels<T>, panels: *mut S, k: usize, n: usize) -> Self {
        let start = panels.wrapping_add(panels_len(kernels, k, n));
        Self {
            panels,
            steps: kernels.lanes(k),
            start,
            fills: false,
        }
    }

    /// The same before anything is packed, or after that.
    pub(crate) fn filling(self, fills: bool) -> Self {
        Self { fills, ..self }
    }

    /// Whether B is not packed yet.
    pub(crate) fn fills(&self) -> bool {
        self.fills
    }

    /// Where [`pack_panels`] packs B.
    pub(crate) fn memory(&self) -> *mut S {
        self.panels
    }
}

/// Accumulators of the panels of a whole B that is packed, with the 16 that packing may write behind the last one.
fn panels_len<T: Element>(kernels: &Kernels<T>, k: usize, n: usize) -> usize {
    let nr = kernels.tiles.nr;
    n.div_ceil(nr) * nr * kernels.lanes(k) + 16
}

/// Accumulators of a whole B that is packed: its panels, then what the sums of its columns begin with.
pub(crate) fn packed_len<T: Element>(kernels: &Kernels<T>, k: usize, n: usize) -> usize {
    let nr = kernels.tiles.nr;
    let start = if kernels.excess.is_some() {
        n.div_ceil(nr) * nr
    } else {
        0
    };
    panels_len(kernels, k, n) + start
}

/// Whether blocks may pack a whole B: what sums of bytes begin with is a sum over all blocks of k.
pub(crate) fn may_fill<T: Element>(kernels: &Kernels<T>, k: usize) -> bool {
    kernels.block.is_none() && (kernels.excess.is_none() || kernels.lanes(k) <= super::KC)
}

/// Packs all of B, which is its first element with the steps to its next row and column: panel after panel, each with all its
/// steps of k.
///
/// # Safety
/// B has `k` rows of `n` columns, `dst` has [`packed_len`] accumulators, the kernels' instruction set exists.
pub(crate) unsafe fn pack_whole<T: Element>(
    kernels: &Kernels<T>,
    b: (*const T, isize, isize),
    k: usize,
    n: usize,
    dst: *mut T::Acc,
) {
    // SAFETY: same contract.
    unsafe { pack_panels(kernels, b, k, n, dst, 0..n.div_ceil(kernels.tiles.nr)) }
}

/// Packs some panels as [`pack_whole`] packs all. Panels are whole vectors wide, so nothing is written beside them, and several threads
/// may pack others.
///
/// # Safety
/// That of [`pack_whole`].
pub(crate) unsafe fn pack_panels<T: Element>(
    kernels: &Kernels<T>,
    (b, b_row, b_col): (*const T, isize, isize),
    k: usize,
    n: usize,
    dst: *mut T::Acc,
    panels: Range<usize>,
) {
    let nr = kernels.tiles.nr;
    let steps = kernels.lanes(k);
    for col in panels.map(|panel| panel * nr) {
        // SAFETY: the panel lies in B, and the panels and the row of starts behind them in `dst`.
        unsafe {
            let panel = dst.add(col * steps);
            (kernels.pack[1])(&Panel {
                dst: panel,
                pitch: nr,
                src: b.offset(col as isize * b_col),
                width: nr.min(n - col),
                w_step: b_col,
                k_step: b_row,
                kc: k,
            });
            if let Some(excess) = kernels.excess {
                let start = dst.add(panels_len(kernels, k, n) + col);
                excess(panel.cast_const().cast(), steps, start.cast());
            }
        }
    }
}
