//! Where a launch's operands lie: extents of its axes, and every parameter's strides along them.

use crate::Launch;
use crate::body::Body;
use crate::variant::MOST_ITEMS;
use smallvec::SmallVec;

/// Indices up to this leave room for a step beyond the end in 32 bits.
pub(crate) const NARROW: u64 = (1 << 31) - MOST_ITEMS;

/// The points of a space; one without any may have other extents of any size.
pub(crate) fn points(extents: &[u64]) -> u64 {
    match extents.contains(&0) {
        true => 0,
        false => extents.iter().product(),
    }
}

/// Axes of a space, and every parameter's strides along them.
#[derive(Clone, Copy)]
pub(crate) struct Axes<'a> {
    pub(crate) extents: &'a [u64],
    /// `[param * rank + first + axis]`.
    pub(crate) strides: &'a [i64],
    pub(crate) rank: usize,
    pub(crate) first: usize,
}

impl Axes<'_> {
    pub(crate) fn stride(&self, param: usize, axis: usize) -> i64 {
        self.strides[param * self.rank + self.first + axis]
    }

    /// Most elements that a parameter moves along the axes.
    fn reach(&self, param: usize) -> u128 {
        let axis = |(axis, &extent): (usize, &u64)| {
            u128::from(self.stride(param, axis).unsigned_abs()) * u128::from(extent.saturating_sub(1))
        };
        self.extents.iter().enumerate().map(axis).sum()
    }
}

/// The operands of a launch, in the axes that its program walks.
#[derive(Clone, Copy)]
pub(crate) struct Operands<'a> {
    pub(crate) body: &'a Body,
    pub(crate) launch: &'a Launch<'a>,
    /// Axes of rows.
    pub(crate) outer: Axes<'a>,
    /// Axes of the space that is walked.
    pub(crate) inner: Axes<'a>,
}

impl Operands<'_> {
    /// Most elements from the first to the last that the kernel touches of a parameter.
    pub(crate) fn reach(&self) -> u128 {
        let reach = |p: usize| {
            let place = &self.launch.places[p];
            let gather = if self.body.gathered[p] {
                u128::from(place.gather_stride.unsigned_abs())
                    * u128::from(place.gather_extent.saturating_sub(1))
            } else {
                0
            };
            self.outer.reach(p) + self.inner.reach(p) + gather
        };
        self.body.touched().map(reach).max().unwrap_or(0)
    }
}

/// A launch in the axes of its kernel.
pub(crate) struct Full<'a> {
    pub(crate) body: &'a Body,
    pub(crate) launch: &'a Launch<'a>,
    /// `[param * rank + axis]`.
    pub(crate) strides: SmallVec<[i64; 64]>,
}

impl<'a> Full<'a> {
    pub(crate) fn new(body: &'a Body, launch: &'a Launch<'a>) -> Full<'a> {
        Full {
            body,
            launch,
            strides: body.strides(launch),
        }
    }

    pub(crate) fn stride(&self, param: usize, axis: usize) -> i64 {
        self.strides[param * self.launch.extents.len() + axis]
    }

    pub(crate) fn operands(&self) -> Operands<'_> {
        let (outer, all) = (self.body.outer(), self.launch.extents);
        let axes = |extents, first| Axes {
            extents,
            strides: &self.strides,
            rank: all.len(),
            first,
        };
        Operands {
            body: self.body,
            launch: self.launch,
            outer: axes(&all[..outer], 0),
            inner: axes(&all[outer..], outer),
        }
    }
}
