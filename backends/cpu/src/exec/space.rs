//! Index spaces of a launch: axes are dropped, ordered and merged as the strides allow.

use smallvec::SmallVec;
use thalweg_hal::ir::{Access, Kernel, Level, MAX_RANK};

use super::Args;

/// Most axes of a merged space.
pub(super) const MAX_AXES: usize = 2 * MAX_RANK;

/// Strides of every parameter, in elements.
pub(super) type Strides = SmallVec<[i64; 32]>;

/// An index space and every parameter's strides in it.
#[derive(Clone, Debug)]
pub(super) struct Space {
    pub(super) rank: usize,
    pub(super) extents: [u64; MAX_AXES],
    /// Axis of the kernel that stands here; of a merged axis, its last one.
    pub(super) axes: [u8; MAX_AXES],
    pub(super) total: u64,
    /// `[param * rank + axis]`.
    pub(super) strides: Strides,
}

/// Strides of every parameter over all axes of a kernel: `[param * rank + axis]`.
pub(super) fn full_strides(kernel: &Kernel, args: &Args<'_>) -> Strides {
    let (outer, rank) = (kernel.outer as usize, (kernel.outer + kernel.inner) as usize);
    let mut strides: Strides = SmallVec::from_elem(0, kernel.params.len() * rank);
    for (p, (param, arg)) in kernel.params.iter().zip(args.args).enumerate() {
        let own = &mut strides[p * rank..(p + 1) * rank];
        let axes = match param.level {
            Level::Row => outer,
            Level::Element => rank,
        };
        match param.access {
            Access::Broadcast => {}
            Access::Strided => own[..axes].copy_from_slice(&arg.strides[..axes]),
            Access::Contiguous => {
                let mut step = 1i64;
                for axis in (0..axes).rev() {
                    own[axis] = step;
                    step = step.wrapping_mul(args.extents[axis] as i64);
                }
            }
        }
    }
    strides
}

impl Space {
    /// The space of `axes` of a kernel whose `params` parameters have the strides `full`. Axes in `pinned` are not merged; `order`: the walk may
    /// take any order, so the axes are sorted by stride, the first of `priority` deciding first.
    pub(super) fn new(
        extents: &[u64],
        axes: std::ops::Range<usize>,
        (full, params): (&[i64], usize),
        pinned: u32,
        priority: Option<&[usize]>,
    ) -> Space {
        let all = extents.len();
        let mut kept: SmallVec<[usize; MAX_AXES]> = axes.clone().filter(|&a| extents[a] != 1).collect();
        if let Some(priority) = priority {
            let before = |a: usize, b: usize| {
                let decides = |&&p: &&usize| {
                    let (x, y) = (full[p * all + a], full[p * all + b]);
                    x != 0 && y != 0 && x.unsigned_abs() != y.unsigned_abs()
                };
                let decider = priority.iter().find(decides);
                decider.is_some_and(|&p| full[p * all + a].unsigned_abs() > full[p * all + b].unsigned_abs())
            };
            for i in 1..kept.len() {
                let mut j = i;
                while j > 0 && before(kept[j], kept[j - 1]) {
                    kept.swap(j, j - 1);
                    j -= 1;
                }
            }
        }
        let is_pinned = |a: usize| pinned >> a & 1 == 1;
        let mut space = Space {
            rank: 0,
            extents: [1; MAX_AXES],
            axes: [u8::MAX; MAX_AXES],
            total: axes.map(|a| extents[a]).product(),
            strides: Strides::new(),
        };
        let mut groups: SmallVec<[usize; MAX_AXES]> = SmallVec::new();
        for &axis in &kept {
            let merges = groups.last().is_some_and(|&last| {
                let follows = |p: usize| {
                    full[p * all + last] == full[p * all + axis].wrapping_mul(extents[axis] as i64)
                };
                !is_pinned(last) && !is_pinned(axis) && (0..params).all(follows)
            });
            if merges {
                let at = groups.len() - 1;
                groups[at] = axis;
                space.extents[at] *= extents[axis];
            } else {
                space.extents[groups.len()] = extents[axis];
                groups.push(axis);
            }
            space.axes[groups.len() - 1] = axis as u8;
        }
        space.rank = groups.len().max(1);
        space.strides = SmallVec::from_elem(0, params * space.rank);
        for p in 0..params {
            for (k, &axis) in groups.iter().enumerate() {
                space.strides[p * space.rank + k] = full[p * all + axis];
            }
        }
        space
    }

    /// The space without its last axis.
    pub(super) fn without_last(&self) -> Space {
        let rank = self.rank - 1;
        let mut space = Space {
            rank: rank.max(1),
            total: self.extents[..rank].iter().product(),
            strides: Strides::new(),
            ..self.clone()
        };
        (space.extents[rank], space.axes[rank]) = (1, u8::MAX);
        for strides in self.strides.chunks_exact(self.rank) {
            space.strides.extend_from_slice(&strides[..rank]);
        }
        space
    }

    /// The last axis alone.
    pub(super) fn only_last(&self) -> Space {
        let last = self.rank - 1;
        let mut space = Space {
            rank: 1,
            extents: [1; MAX_AXES],
            axes: [u8::MAX; MAX_AXES],
            total: self.extents[last],
            strides: self
                .strides
                .chunks_exact(self.rank)
                .map(|strides| strides[last])
                .collect(),
        };
        (space.extents[0], space.axes[0]) = (self.extents[last], self.axes[last]);
        space
    }

    /// Strides of one parameter.
    pub(super) fn of(&self, param: usize) -> &[i64] {
        &self.strides[param * self.rank..(param + 1) * self.rank]
    }

    /// Whether the parameter's elements stand one after the other in the order of the walk.
    pub(super) fn is_flat(&self, param: usize) -> bool {
        let mut step = 1i64;
        let strides = self.of(param);
        for axis in (0..self.rank).rev() {
            if strides[axis] != step && self.extents[axis] != 1 {
                return false;
            }
            step = step.wrapping_mul(self.extents[axis] as i64);
        }
        true
    }

    /// The multi-index of a position.
    pub(super) fn index(&self, position: u64) -> [u64; MAX_AXES] {
        let mut index = [0; MAX_AXES];
        self.place(position, &mut index);
        index
    }

    /// Writes the multi-index of a position, on the axes that there are.
    #[inline]
    pub(super) fn place(&self, position: u64, index: &mut [u64; MAX_AXES]) {
        // An extent may be 0.
        if position == 0 {
            return index[..self.rank].fill(0);
        }
        let mut rest = position;
        for axis in (1..self.rank).rev() {
            index[axis] = rest % self.extents[axis];
            rest /= self.extents[axis];
        }
        index[0] = rest;
    }

    /// Copies a multi-index, on the axes that there are.
    #[inline]
    pub(super) fn copy(&self, from: &[u64; MAX_AXES], to: &mut [u64; MAX_AXES]) {
        to[0] = from[0];
        if self.rank > 1 {
            to[1..self.rank].copy_from_slice(&from[1..self.rank]);
        }
    }

    /// Moves a multi-index on by one.
    #[inline]
    pub(super) fn advance(&self, index: &mut [u64; MAX_AXES]) {
        for axis in (0..self.rank).rev() {
            index[axis] += 1;
            if index[axis] < self.extents[axis] || axis == 0 {
                return;
            }
            index[axis] = 0;
        }
    }

    /// Offset of a parameter's element at a multi-index, in elements.
    #[inline]
    pub(super) fn offset(&self, param: usize, index: &[u64; MAX_AXES]) -> i64 {
        self.of(param)
            .iter()
            .zip(index)
            .fold(0i64, |sum, (&s, &i)| sum.wrapping_add(s.wrapping_mul(i as i64)))
    }

    /// Where a kernel's axis stands, if its extent is not 1.
    pub(super) fn find(&self, axis: u32) -> Option<usize> {
        self.axes[..self.rank].iter().position(|&a| u32::from(a) == axis)
    }
}
