//! Softmax and its relatives.

use crate::ops::axis_in;
use crate::ops::checked::{checked, wide};
use crate::ops::{cast, float_of};
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, composite};

impl Tensor {
    /// `exp(x - m) / Σ exp(x - m)` along an axis, `m` the maximum there: positive numbers that sum to 1. A row of -inf alone is
    /// NaN. Keeps shape and dtype (integers become f32); f16 and bf16 are computed in f32.
    ///
    /// ```no_run
    /// # fn f(x: &thalweg::Tensor) -> thalweg::Tensor {
    /// x.softmax(-1)
    /// # }
    /// ```
    #[must_use]
    #[track_caller]
    pub fn softmax(&self, axis: i32) -> Tensor {
        row(self, "softmax", axis, OpTag::new("softmax"), softmax_of)
    }

    /// Softmax of `-x` along an axis.
    #[must_use]
    #[track_caller]
    pub fn softmin(&self, axis: i32) -> Tensor {
        row(self, "softmin", axis, OpTag::new("softmin"), |x, axis| {
            softmax_of(&-x, axis)
        })
    }

    /// `x - m - ln Σ exp(x - m)` along an axis, `m` the maximum there: the logarithm of the softmax without its underflow.
    /// Shape and dtype as [`Tensor::softmax`].
    #[must_use]
    #[track_caller]
    pub fn log_softmax(&self, axis: i32) -> Tensor {
        row(self, "log_softmax", axis, OpTag::new("log_softmax"), |x, axis| {
            let below = x - peak(x, axis);
            &below - below.exp().sum_keepdims(axis).log()
        })
    }
}

/// The maximum along an axis, as a number that is subtracted and added again: gradients need not go through it.
pub(super) fn peak(x: &Tensor, axis: i32) -> Tensor {
    x.max_keepdims(axis).detach()
}

fn softmax_of(x: &Tensor, axis: i32) -> Tensor {
    let powers = (x - peak(x, axis)).exp();
    &powers / powers.sum_keepdims(axis)
}

/// A function of the rows along an axis.
fn row(
    x: &Tensor,
    name: &'static str,
    axis: i32,
    tag: OpTag,
    body: impl Fn(&Tensor, i32) -> Tensor,
) -> Tensor {
    checked(tag, [x], [], |[ty], []| {
        let at = axis_in(axis, &ty.shape)?;
        let dtype = float_of(ty.dtype);
        if ty.shape[at] == 0 {
            return Ok(cast(x, dtype, tag));
        }
        Ok(composite(name, &at, [x], tag, |[x]| {
            let rows = body(&cast(x, wide(dtype), tag), at as i32);
            cast(&rows, dtype, tag)
        }))
    })
}
