//! The operands of a convolution: addresses and strides in elements.

use super::geometry::{AXES, Pass, Tap};

/// The operand that taps gather from: x, or dy for the gradient with respect to the input.
#[derive(Clone, Copy)]
pub(super) struct Gathered<T> {
    pub(super) ptr: *const T,
    pub(super) sample: isize,
    pub(super) group: isize,
    pub(super) channel: isize,
    /// Channels of a group.
    pub(super) channels: usize,
    pub(super) spatial: [isize; AXES],
}

impl<T> Gathered<T> {
    /// The first element of a sample's channel.
    pub(super) fn at(&self, sample: usize, channel: usize) -> *const T {
        self.ptr
            .wrapping_offset(sample as isize * self.sample + channel as isize * self.channel)
    }

    /// The same with another type of elements; strides are counted in elements already.
    pub(super) fn cast<U>(&self) -> Gathered<U> {
        Gathered {
            ptr: self.ptr.cast(),
            sample: self.sample,
            group: self.group,
            channel: self.channel,
            channels: self.channels,
            spatial: self.spatial,
        }
    }

    /// The operand of one group.
    pub(super) fn of_group(&self, group: usize) -> Gathered<T> {
        Gathered {
            ptr: self.ptr.wrapping_offset(group as isize * self.group),
            ..*self
        }
    }
}

/// The kernel: rows are channels of the result, channels those of the gathered operand.
#[derive(Clone, Copy)]
pub(super) struct Weights<T> {
    pub(super) ptr: *const T,
    pub(super) group: isize,
    pub(super) row: isize,
    pub(super) channel: isize,
    /// Channels of a group.
    pub(super) channels: usize,
    pub(super) taps: [isize; AXES],
    pub(super) extents: [usize; AXES],
}

impl<T> Weights<T> {
    /// From the first tap's weight to that of another one.
    pub(super) fn tap(&self, of: [Tap; AXES]) -> isize {
        let at = of.iter().zip(self.taps);
        at.map(|(tap, step)| tap.index as isize * step).sum()
    }

    /// The same with another type of elements; strides are counted in elements already.
    pub(super) fn cast<U>(&self) -> Weights<U> {
        Weights {
            ptr: self.ptr.cast(),
            group: self.group,
            row: self.row,
            channel: self.channel,
            channels: self.channels,
            taps: self.taps,
            extents: self.extents,
        }
    }
}

/// The result, or dy for the gradient with respect to the weight.
#[derive(Clone, Copy)]
pub(super) struct Rows<P> {
    pub(super) ptr: P,
    pub(super) sample: isize,
    pub(super) group: isize,
    pub(super) row: isize,
    pub(super) spatial: [isize; AXES],
}

impl<T> Rows<*mut T> {
    /// Those that a pass over a phase of the result writes.
    pub(super) fn of_phase(&self, pass: &Pass) -> Self {
        let places = pass.axes.iter().zip(self.spatial);
        let first = places.map(|(axis, stride)| axis.first as isize * stride).sum();
        Rows {
            ptr: self.ptr.wrapping_offset(first),
            spatial: std::array::from_fn(|i| pass.axes[i].every as isize * self.spatial[i]),
            ..*self
        }
    }
}

/// How many of each there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) samples: usize,
    pub(super) groups: usize,
    /// Channels of the result in a group.
    pub(super) rows: usize,
    /// Channels of the gathered operand in a group, or lanes of several of them.
    pub(super) channels: usize,
}

/// Lets several threads use a value that holds pointers.
#[derive(Clone, Copy)]
pub(super) struct Shared<T>(pub(super) T);
// SAFETY: pointers are only addresses; the launch's contract makes the accesses behind them disjoint or read-only.
unsafe impl<T> Sync for Shared<T> {}
