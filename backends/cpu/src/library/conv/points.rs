//! Micro-kernels on places at equal distances, which meet one tap, of an operand whose channels are neighbours.

use super::code::points as code;
use crate::isa::Isa;
use crate::library::gemm::code::Sum;

/// Machine code for sums of a kind on an instruction set, if there is any.
#[derive(Clone, Copy)]
pub(super) struct Points(pub(super) Option<(Sum, Isa)>);

/// Rows of a place.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    /// Bytes of those that are summed: all of one panel or of two, or the first of one panel, a multiple of [`PART`].
    pub(super) bytes: usize,
    /// Registers of a panel.
    pub(super) panel: usize,
}

impl Points {
    /// The kernels for `index + 1` places of a tile, if there are any for the rows.
    pub(super) fn kernels<S>(self, rows: Rows) -> Option<&'static [PointFn<S>]> {
        code::kernels(self.0?, rows)
    }
}

/// `out[p, j] (+)= sum over channels of weights[channel, j] * x[p, channel]` for the places p of tiles. Distances are in bytes.
#[repr(C)]
pub(super) struct PointArgs<S> {
    /// Goes on with the sums in `out`.
    pub(super) accumulate: bool,
    /// Tiles of as many places as the kernel takes, at least one.
    pub(super) tiles: usize,
    /// Channels, at least one, and their bytes.
    pub(super) terms: usize,
    pub(super) bytes: usize,
    pub(super) x: *const S,
    /// From a place to the next one.
    pub(super) step: isize,
    pub(super) weights: *const S,
    /// From the weights of one panel of rows to those of the next one. Kernels of one panel do not read it.
    pub(super) next_panel: isize,
    /// The kernel leaves here what comes behind its places.
    pub(super) out: *mut S,
    pub(super) out_step: isize,
    /// Weights that are asked for while sums are computed, [`LATER`](super::steps::LATER) bytes for each channel of each tile, or null.
    pub(super) later: *const u8,
}

/// Bytes of rows of which a part of a panel is a multiple.
pub(super) const PART: usize = 32;

/// There is machine code alone.
pub(super) type PointFn<S> = unsafe extern "C" fn(&mut PointArgs<S>);
