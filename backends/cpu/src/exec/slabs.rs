//! Launches that are cut along their first axes.

use super::program::Arg;
use smallvec::SmallVec;

/// How a launch is cut: `width` points of one axis, one of each axis before it, all of those behind it.
pub(super) struct Slabs {
    pub(super) axis: usize,
    pub(super) width: u64,
    pub(super) count: u64,
    /// Of them along the axis.
    pub(super) across: u64,
}

pub(super) type Extents = SmallVec<[u64; 16]>;

impl Slabs {
    /// Slabs of `width` points along an axis.
    pub(super) fn new(extents: &[u64], axis: usize, width: u64) -> Slabs {
        let before: u64 = extents[..axis].iter().product();
        let across = extents[axis].div_ceil(width);
        Slabs {
            axis,
            width,
            count: before * across,
            across,
        }
    }

    /// First index and extents of a slab.
    pub(super) fn slab(&self, number: u64, extents: &[u64]) -> (Extents, Extents) {
        let mut start: Extents = SmallVec::from_elem(0, extents.len());
        let mut own: Extents = extents.into();
        own[..self.axis].fill(1);
        start[self.axis] = number % self.across * self.width;
        own[self.axis] = self.width.min(extents[self.axis] - start[self.axis]);
        let mut before = number / self.across;
        for axis in (0..self.axis).rev() {
            start[axis] = before % extents[axis];
            before /= extents[axis];
        }
        (start, own)
    }
}

/// The arguments from an index on; `strides` are those of all parameters over all axes, `sizes` the bytes of their elements.
pub(super) fn moved<'a>(
    args: &[Arg<'a>],
    start: &[u64],
    strides: &[i64],
    sizes: &[u8],
) -> SmallVec<[Arg<'a>; 8]> {
    let mut moved: SmallVec<[Arg<'a>; 8]> = args.into();
    for ((arg, along), &size) in moved.iter_mut().zip(strides.chunks(start.len())).zip(sizes) {
        let elements: i64 = start
            .iter()
            .zip(along)
            .map(|(&start, &stride)| start as i64 * stride)
            .sum();
        arg.ptr = arg.ptr.wrapping_offset(elements as isize * size as isize);
    }
    moved
}
