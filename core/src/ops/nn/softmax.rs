//! Softmax and its relatives.

use crate::composite::{composite, composite_with_gradient};
use crate::ops::axis_in;
use crate::ops::checked::{checked, wide};
use crate::ops::precision::{self, Class};
use crate::ops::{cast, float_of};
use crate::tensor::Tensor;
use crate::tensor::tag::OpTag;

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
        row(
            self,
            "softmax",
            axis,
            OpTag::new("softmax"),
            softmax_of,
            softmax_slope,
        )
    }

    /// Softmax of `-x` along an axis.
    #[must_use]
    #[track_caller]
    pub fn softmin(&self, axis: i32) -> Tensor {
        let tag = OpTag::new("softmin");
        row(
            self,
            "softmin",
            axis,
            tag,
            |x, axis| softmax_of(&-x, axis),
            |y, g, axis| -softmax_slope(y, g, axis),
        )
    }

    /// `x - m - ln Σ exp(x - m)` along an axis, `m` the maximum there: the logarithm of the softmax without its underflow.
    /// Shape and dtype as [`Tensor::softmax`].
    #[must_use]
    #[track_caller]
    pub fn log_softmax(&self, axis: i32) -> Tensor {
        let slope = |y: &Tensor, g: &Tensor, axis| g - y.exp() * g.sum_keepdims(axis);
        row(
            self,
            "log_softmax",
            axis,
            OpTag::new("log_softmax"),
            log_softmax_of,
            slope,
        )
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

/// The gradient by x where y is its softmax.
fn softmax_slope(y: &Tensor, gradient: &Tensor, axis: i32) -> Tensor {
    y * (gradient - (gradient * y).sum_keepdims(axis))
}

fn log_softmax_of(x: &Tensor, axis: i32) -> Tensor {
    let below = x - peak(x, axis);
    &below - below.exp().sum_keepdims(axis).log()
}

/// A function of the rows along an axis; `slope` makes the gradient by x of the result and its gradient.
fn row(
    x: &Tensor,
    name: &'static str,
    axis: i32,
    tag: OpTag,
    body: impl Fn(&Tensor, i32) -> Tensor,
    slope: impl Fn(&Tensor, &Tensor, i32) -> Tensor + Send + Sync + 'static,
) -> Tensor {
    let held = precision::adjusted(Class::Full, tag, [x]);
    let [x] = held.operands([x]);
    checked(tag, [x], [], |[ty], []| {
        let at = axis_in(axis, &ty.shape)?;
        let dtype = float_of(ty.dtype);
        if ty.shape[at] == 0 {
            return Ok(cast(x, dtype, tag));
        }
        let axis = at as i32;
        let body = |[x]: &[Tensor; 1]| cast(&body(&cast(x, wide(dtype), tag), axis), dtype, tag);
        let rule = move |_: &[Tensor; 1], y: &Tensor, gradient: &Tensor| {
            let key = (name, at);
            [Some(composite(
                "softmax_gradient",
                &key,
                [y, gradient],
                tag,
                |[y, gradient]| {
                    let (y, gradient) = (cast(y, wide(dtype), tag), cast(gradient, wide(dtype), tag));
                    cast(&slope(&y, &gradient, axis), dtype, tag)
                },
            ))]
        };
        Ok(composite_with_gradient(name, &at, [x], tag, body, rule))
    })
}
