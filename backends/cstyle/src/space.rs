//! Index spaces of a launch with axes dropped, ordered and merged as the strides allow, so that few variants of a kernel
//! serve many launches.

use smallvec::SmallVec;

/// Where an axis went that has one index only.
pub(crate) const GONE: u8 = u8::MAX;

/// The points of a space; one without any may have other extents of any size.
pub(crate) fn points(extents: &[u64]) -> u64 {
    match extents.contains(&0) {
        true => 0,
        false => extents.iter().product(),
    }
}

/// Axes of the kernel, and every parameter's strides in them.
pub(crate) struct Full<'a> {
    pub(crate) extents: &'a [u64],
    /// `[param * rank + axis]`.
    pub(crate) strides: &'a [i64],
    /// Whether the kernel touches each parameter.
    pub(crate) touched: &'a [bool],
    /// Axes whose index the kernel reads; they are not merged.
    pub(crate) pinned: u32,
}

/// A space after that.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    pub(crate) extents: SmallVec<[u64; 4]>,
    /// `[param * rank + axis]`.
    pub(crate) strides: SmallVec<[i64; 16]>,
    /// Where each axis of the kernel went.
    pub(crate) homes: SmallVec<[u8; 8]>,
    pub(crate) total: u64,
}

impl Space {
    /// The space of `axes`. When `leader` is given, the walk may take any order, and the leader's shortest stride comes last.
    pub(crate) fn new(full: &Full<'_>, axes: std::ops::Range<usize>, leader: Option<usize>) -> Space {
        let all = full.extents.len();
        let stride = |param: usize, axis: usize| full.strides[param * all + axis];
        let mut kept: SmallVec<[usize; 8]> = axes.clone().filter(|&a| full.extents[a] != 1).collect();
        if let Some(leader) = leader {
            kept.sort_by_key(|&axis| std::cmp::Reverse(stride(leader, axis).unsigned_abs()));
        }
        let pinned = |axis: usize| full.pinned >> axis & 1 == 1;
        let params = full.touched.len();
        let mut ends: SmallVec<[usize; 8]> = SmallVec::new();
        let mut extents: SmallVec<[u64; 4]> = SmallVec::new();
        let mut homes = SmallVec::from_elem(GONE, axes.len());
        for &axis in &kept {
            let follows = |last: usize, p: usize| {
                !full.touched[p] || stride(p, last) == stride(p, axis).wrapping_mul(full.extents[axis] as i64)
            };
            match ends.last().copied() {
                Some(last) if !pinned(last) && !pinned(axis) && (0..params).all(|p| follows(last, p)) => {
                    let at = ends.len() - 1;
                    ends[at] = axis;
                    extents[at] *= full.extents[axis];
                }
                _ => {
                    ends.push(axis);
                    extents.push(full.extents[axis]);
                }
            }
            homes[axis - axes.start] = ends.len() as u8 - 1;
        }
        let rank = ends.len();
        let mut strides = SmallVec::with_capacity(params * rank);
        for p in 0..params {
            strides.extend(ends.iter().map(|&axis| stride(p, axis)));
        }
        Space {
            total: points(&full.extents[axes]),
            extents,
            strides,
            homes,
        }
    }

    pub(crate) fn rank(&self) -> usize {
        self.extents.len()
    }

    pub(crate) fn stride(&self, param: usize, axis: usize) -> i64 {
        self.strides[param * self.rank() + axis]
    }

    /// A space of rank 0 becomes one of rank 1 with one index, so that walks have an axis.
    pub(crate) fn with_axis(mut self, params: usize) -> Space {
        if self.extents.is_empty() {
            self.extents.push(1);
            self.strides = SmallVec::from_elem(1, params);
        }
        self
    }
}
