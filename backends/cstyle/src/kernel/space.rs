//! Index spaces of a launch with axes dropped, ordered and merged as the strides allow, so that few variants of a kernel
//! serve many launches.

use crate::operands::{Axes, Full, points};
use crate::variant::DROPPED;
use smallvec::SmallVec;

/// A space whose axes were dropped, ordered and merged.
#[derive(Clone, Debug)]
pub(super) struct Space {
    pub(super) extents: SmallVec<[u64; 4]>,
    /// `[param * rank + axis]`.
    pub(super) strides: SmallVec<[i64; 16]>,
    /// The axis that each axis of the kernel is part of.
    pub(super) parts: SmallVec<[u8; 8]>,
    pub(super) total: u64,
}

impl Space {
    /// The space of `axes`. When `leader` is given, the walk may take any order, and the leader's shortest stride comes last.
    pub(super) fn new(full: &Full<'_>, axes: std::ops::Range<usize>, leader: Option<usize>) -> Space {
        let (body, all) = (full.body, full.launch.extents);
        let stride = |param: usize, axis: usize| full.stride(param, axis);
        let mut kept: SmallVec<[usize; 8]> = axes.clone().filter(|&a| all[a] != 1).collect();
        if let Some(leader) = leader {
            kept.sort_by_key(|&axis| std::cmp::Reverse(stride(leader, axis).unsigned_abs()));
        }
        // Axes whose index the kernel reads are not merged.
        let pinned = |axis: usize| body.indexed >> axis & 1 == 1;
        let params = body.touched.len();
        let mut ends: SmallVec<[usize; 8]> = SmallVec::new();
        let mut extents: SmallVec<[u64; 4]> = SmallVec::new();
        let mut parts = SmallVec::from_elem(DROPPED, axes.len());
        for &axis in &kept {
            let follows = |last: usize, p: usize| {
                !body.touched[p] || stride(p, last) == stride(p, axis).wrapping_mul(all[axis] as i64)
            };
            match ends.last().copied() {
                Some(last) if !pinned(last) && !pinned(axis) && (0..params).all(|p| follows(last, p)) => {
                    let at = ends.len() - 1;
                    ends[at] = axis;
                    extents[at] *= all[axis];
                }
                _ => {
                    ends.push(axis);
                    extents.push(all[axis]);
                }
            }
            parts[axis - axes.start] = ends.len() as u8 - 1;
        }
        let rank = ends.len();
        let mut strides = SmallVec::with_capacity(params * rank);
        for p in 0..params {
            strides.extend(ends.iter().map(|&axis| stride(p, axis)));
        }
        Space {
            total: points(&all[axes]),
            extents,
            strides,
            parts,
        }
    }

    pub(super) fn rank(&self) -> usize {
        self.extents.len()
    }

    pub(super) fn stride(&self, param: usize, axis: usize) -> i64 {
        self.strides[param * self.rank() + axis]
    }

    /// A space of rank 0 becomes one of rank 1 with one index, so that walks have an axis.
    pub(super) fn with_axis(mut self, params: usize) -> Space {
        if self.extents.is_empty() {
            self.extents.push(1);
            self.strides = SmallVec::from_elem(1, params);
        }
        self
    }
    pub(super) fn axes(&self) -> Axes<'_> {
        Axes {
            extents: &self.extents,
            strides: &self.strides,
            rank: self.rank(),
            first: 0,
        }
    }
}
