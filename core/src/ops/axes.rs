//! Axes as users write them: negative ones count from the last.

use crate::tensor::failure::Refusal;
use crate::tensor::shape::{Axes, Shape};
use smallvec::SmallVec;
use std::ops::RangeFull;

/// What can be given where axes are asked for: one number, arrays, slices and vectors of numbers, `..` for all.
/// Negative numbers count from the last axis.
pub trait IntoAxes {
    /// The axes of a tensor of `rank` axes, in the order given.
    ///
    /// # Errors
    /// An axis that the tensor has not, or one named twice.
    fn into_axes(self, rank: usize) -> Result<SmallVec<[usize; 8]>, Refusal>;
}

impl IntoAxes for &[i32] {
    fn into_axes(self, rank: usize) -> Result<SmallVec<[usize; 8]>, Refusal> {
        let mut seen = Axes::NONE;
        let mut axes = SmallVec::new();
        for &axis in self {
            let found = axis_of(axis, rank)?;
            if seen.has(found) {
                return Err(Refusal::new(format!("axis {found} is named twice in {self:?}")));
            }
            seen = seen.with(found);
            axes.push(found);
        }
        Ok(axes)
    }
}

impl IntoAxes for i32 {
    fn into_axes(self, rank: usize) -> Result<SmallVec<[usize; 8]>, Refusal> {
        [self].as_slice().into_axes(rank)
    }
}

impl IntoAxes for isize {
    fn into_axes(self, rank: usize) -> Result<SmallVec<[usize; 8]>, Refusal> {
        i32::try_from(self).unwrap_or(i32::MAX).into_axes(rank)
    }
}

impl<const N: usize> IntoAxes for [i32; N] {
    fn into_axes(self, rank: usize) -> Result<SmallVec<[usize; 8]>, Refusal> {
        self.as_slice().into_axes(rank)
    }
}

impl<const N: usize> IntoAxes for &[i32; N] {
    fn into_axes(self, rank: usize) -> Result<SmallVec<[usize; 8]>, Refusal> {
        self.as_slice().into_axes(rank)
    }
}

impl IntoAxes for Vec<i32> {
    fn into_axes(self, rank: usize) -> Result<SmallVec<[usize; 8]>, Refusal> {
        self.as_slice().into_axes(rank)
    }
}

impl IntoAxes for &Vec<i32> {
    fn into_axes(self, rank: usize) -> Result<SmallVec<[usize; 8]>, Refusal> {
        self.as_slice().into_axes(rank)
    }
}

impl IntoAxes for RangeFull {
    fn into_axes(self, rank: usize) -> Result<SmallVec<[usize; 8]>, Refusal> {
        Ok((0..rank).collect())
    }
}

/// The axis that `axis` means in a tensor of `rank` axes.
pub(crate) fn axis_of(axis: i32, rank: usize) -> Result<usize, Refusal> {
    let found = if axis < 0 {
        i64::from(axis) + rank as i64
    } else {
        axis.into()
    };
    if (0..rank as i64).contains(&found) {
        return Ok(found as usize);
    }
    Err(match rank {
        0 => Refusal::new(format!("axis {axis} of a scalar, which has no axes")),
        _ => Refusal::new(format!(
            "axis {axis} of a tensor of {rank}, valid are -{rank} to {}",
            rank - 1
        )),
    })
}

/// [`axis_of`] in a tensor of `shape`; the message names the shape.
pub(crate) fn axis_in(axis: i32, shape: &Shape) -> Result<usize, Refusal> {
    axis_of(axis, shape.len()).map_err(|refusal| Refusal {
        message: format!("{}; its shape is {shape}", refusal.message),
        ..refusal
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_axes_count_from_the_last() {
        assert_eq!([-1, 0].into_axes(3).ok().as_deref(), Some([2, 0].as_slice()));
        assert_eq!((..).into_axes(2).ok().as_deref(), Some([0, 1].as_slice()));
        assert!([0, -3].into_axes(3).is_err());
        assert!(3.into_axes(3).is_err());
        assert!((-4).into_axes(3).is_err());
        assert!(i32::MIN.into_axes(3).is_err());
    }
}
