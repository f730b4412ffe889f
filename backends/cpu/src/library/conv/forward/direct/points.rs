//! Places at equal distances: a kernel walks through their tiles by itself.

use super::Direct;
use super::walk::{Chunk, Walk};
use crate::library::conv::forward::Task;
use crate::library::conv::geometry::AXES;
use crate::library::conv::points::{PointArgs, PointFn};
use crate::library::conv::product::follow;
use crate::library::conv::steps::LATER;
use crate::library::gemm::Stored;
use std::ops::Range;

/// Positions of a block, in their order.
pub(super) struct Points<S: 'static> {
    /// What the first of them meets, and bytes from each to the next one.
    pub(super) at: *const u8,
    pub(super) apart: isize,
    pub(super) places: Range<usize>,
    pub(super) kernels: &'static [PointFn<S>],
}

/// The stride of the last axis with several places.
pub(super) fn nearest(size: [usize; AXES], strides: [isize; AXES]) -> isize {
    let last = (0..AXES).rev().find(|&axis| size[axis] > 1);
    last.map_or(0, |axis| strides[axis])
}

impl Direct {
    /// Bytes from a place to what its tap meets, and from what a position of the task's block meets to what the next one meets, if there is
    /// one tap, which all meet, and one such distance.
    pub(super) fn apart<T: Stored>(&self, task: &Task<'_, T>) -> Option<[isize; 2]> {
        let (pass, block) = (task.job.pass, &task.block);
        let all_meet = (0..AXES).all(|axis| {
            let of = &self.meets[axis][block.at[axis]..][..block.size[axis]];
            of.iter().all(|&meets| meets != 0)
        });
        if task.plan.of_places(task.plan.width).is_none() || pass.taps() != 1 || !all_meet {
            return None;
        }
        let strides =
            [0, 1, 2].map(|axis| pass.axes[axis].step as isize * self.strides[axis] * self.element as isize);
        let next = nearest(block.size, strides);
        let first = self.steps.first()?;
        follow(block.size, strides, next).then_some([first.end + first.back, next])
    }
}

impl<T: Stored> Walk<'_, T> {
    /// Sums where the result lies, from each to the next one so many elements apart, or beside it, from where they are copied.
    ///
    /// # Safety
    /// The places are positions of the block whose elements exist, and no one else writes the result's rows.
    pub(super) unsafe fn points(&self, points: &Points<T::Acc>, in_place: Option<isize>) {
        let size = size_of::<T::Acc>() as isize;
        match in_place {
            Some(apart) => {
                let first = self.row().wrapping_offset(points.places.start as isize * apart);
                // SAFETY: the caller's contract; elements are sums.
                unsafe { self.sums_of(points, first.cast(), apart * size) };
            }
            None => {
                let held = self.held(points.places.clone());
                // SAFETY: the caller's contract; there is room for the sums of so many places.
                unsafe {
                    self.sums_of(points, self.task.sums, self.pitch() as isize * size);
                    self.store(&held);
                }
            }
        }
    }

    /// Computes the sums, `out_step` bytes apart.
    unsafe fn sums_of(&self, points: &Points<T::Acc>, out: *mut T::Acc, out_step: isize) {
        let (plan, places, kernels) = (self.task.plan, points.places.len(), points.kernels);
        let tiles = places.div_ceil(kernels.len());
        let (few, more) = (places / tiles, places % tiles);
        let each = |chunk: &Chunk<'_, T::Acc>| {
            let mut args = PointArgs {
                accumulate: !chunk.first,
                tiles: 1,
                terms: chunk.terms,
                bytes: chunk.terms * size_of::<T::Acc>(),
                x: points.at.cast::<T::Acc>().wrapping_add(chunk.before),
                step: points.apart,
                weights: chunk.weights,
                next_panel: (plan.packed * size_of::<T::Acc>()) as isize,
                out,
                out_step,
                later: std::ptr::null(),
            };
            let (mut left, mut asked_for) = (tiles, 0);
            while left > 0 {
                let later = self.later(chunk, asked_for);
                let (taken, len) = match left > tiles - more {
                    true => (left - (tiles - more), few + 1),
                    false => (left, few),
                };
                // Each tile asks for weights of one panel.
                args.tiles = if later.is_some() { 1 } else { taken };
                args.later = later.unwrap_or(std::ptr::null());
                asked_for += chunk.terms * LATER;
                // SAFETY: the places are positions of the block, whose elements exist. There are weights for each channel and room for the
                // sums.
                unsafe { kernels[len - 1](&mut args) };
                let gone = points.apart * (args.tiles * len).cast_signed();
                args.x = args.x.wrapping_byte_offset(gone);
                left -= args.tiles;
            }
        };
        // SAFETY: the caller's contract.
        unsafe { self.chunks(each) };
    }
}
