//! Running sums, products and extremes.

use super::axes::axis_in;
use super::promotion::cast;
use super::reduce::accumulator;
use crate::composite::composite;
use crate::graph::Op;
use crate::hal::ir::ReduceOp;
use crate::ops::precision::{self, Class};
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};

/// A running reduction; sums and products in [`accumulator`], given in it for integers.
fn scan(x: &Tensor, op: ReduceOp, axis: i32, tag: OpTag) -> Tensor {
    let held = precision::adjusted(Class::of(op.mixed()), tag, [x]);
    let [x] = held.operands([x]);
    let Ok(ty) = x.ty() else { return x.clone() };
    if ty.shape.is_empty() && matches!(axis, 0 | -1) {
        return tag.scope(|| scan(&x.flatten(), op, 0, tag).reshape(()));
    }
    let axis = match axis_in(axis, &ty.shape) {
        Ok(axis) => axis as u8,
        Err(refusal) => return Tensor::refused(tag, refusal, &[x]),
    };
    let wide = if op.rounds() {
        accumulator(ty.dtype)
    } else {
        ty.dtype
    };
    let result = if ty.dtype.is_float() { ty.dtype } else { wide };
    let op = Op::Scan {
        op,
        axis,
        reverse: false,
    };
    if wide == ty.dtype {
        return apply(op, &[x], tag);
    }
    composite("scan", &op, [x], tag, |[x]| {
        cast(&apply(op.clone(), &[&cast(x, wide, tag)], tag), result, tag)
    })
}

impl Tensor {
    /// The sum of the elements up to each one along `axis`. Dtypes as [`sum`](Tensor::sum).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.cumsum(1);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0, 3.0, 7.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn cumsum(&self, axis: i32) -> Tensor {
        scan(self, ReduceOp::Sum, axis, OpTag::new("cumsum"))
    }

    /// The product of the elements up to each one along `axis`. Dtypes as [`sum`](Tensor::sum).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.cumprod(1);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 12.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn cumprod(&self, axis: i32) -> Tensor {
        scan(self, ReduceOp::Prod, axis, OpTag::new("cumprod"))
    }

    /// The greatest of the elements up to each one along `axis`; NaN from the first NaN on. Without indices.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.cummax(1);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn cummax(&self, axis: i32) -> Tensor {
        scan(self, ReduceOp::Max, axis, OpTag::new("cummax"))
    }

    /// The least of the elements up to each one along `axis`; NaN from the first NaN on. Without indices.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.cummin(1);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0, 3.0, 3.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn cummin(&self, axis: i32) -> Tensor {
        scan(self, ReduceOp::Min, axis, OpTag::new("cummin"))
    }
}
