//! Sums, products and extremes along axes.

use super::axes::IntoAxes;
use super::formula::widened;
use super::promotion::{cast, float_of};
use crate::composite::composite;
use crate::graph::Op;
use crate::hal::DType;
use crate::hal::ir::{ReduceOp, Returns, ScalarOp};
use crate::ops::precision::{self, Class};
use crate::tensor::failure::Refusal;
use crate::tensor::shape::{Axes, Shape};
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};

/// The dtype that sums and products of `dtype` are accumulated in. Dtypes for storage stay: reductions refuse them.
pub(crate) const fn accumulator(dtype: DType) -> DType {
    match dtype {
        _ if dtype.is_float() => dtype.facts().summed,
        DType::U64 => DType::U64,
        _ => DType::I64,
    }
}

/// The axes that are reduced, for a tensor without error.
pub(crate) fn resolved(x: &Tensor, axes: impl IntoAxes, tag: OpTag) -> Result<Axes, Box<Tensor>> {
    let ty = x.ty().map_err(|_| Box::new(x.clone()))?;
    match axes.into_axes(ty.shape.len()) {
        Ok(axes) => Ok(axes.into_iter().collect()),
        Err(refusal) => Err(Box::new(Tensor::refused(tag, refusal, &[x]))),
    }
}

/// `op` along `axes` of elements of a dtype that it takes; no axes leave the tensor as it is.
pub(crate) fn reduce(x: &Tensor, op: ReduceOp, axes: Axes, keep: bool, tag: OpTag) -> Tensor {
    let reduced = match axes.is_empty() {
        true => x.clone(),
        false => apply(Op::Reduce { op, axes }, &[x], tag),
    };
    if keep {
        kept(&reduced, x, axes, tag)
    } else {
        reduced
    }
}

/// `reduced` with extents of 1 where `axes` of `x` were.
pub(crate) fn kept(reduced: &Tensor, x: &Tensor, axes: Axes, tag: OpTag) -> Tensor {
    match x.ty() {
        Ok(ty) => apply(Op::Reshape(ty.shape.ones_at(axes)), &[reduced], tag),
        Err(_) => x.clone(),
    }
}

/// A sum or product: accumulated in [`accumulator`], given in it for integers and in the tensor's dtype for floats.
pub(crate) fn accumulate(x: &Tensor, op: ReduceOp, axes: Axes, keep: bool, tag: OpTag) -> Tensor {
    let held = precision::adjusted(Class::Full, tag, [x]);
    let [x] = held.operands([x]);
    let Ok(dtype) = x.dtype() else { return x.clone() };
    let wide = accumulator(dtype);
    if wide == dtype {
        return reduce(x, op, axes, keep, tag);
    }
    let result = if dtype.is_float() { dtype } else { wide };
    composite("accumulate", &(op, axes, keep), [x], tag, |[x]| {
        cast(&reduce(&cast(x, wide, tag), op, axes, keep, tag), result, tag)
    })
}

/// A float tensor with 0 in place of -0, as -0 + 0 is 0: for places of extremes, whose primitives tell the zeros apart.
pub(crate) fn one_zero(x: &Tensor, tag: OpTag) -> Tensor {
    let Ok(ty) = x.ty() else { return x.clone() };
    let zero = Tensor::constant(ty.shape, ty.dtype, 0);
    apply(Op::Map(ScalarOp::Add), &[x, &zero], tag)
}

/// An extreme or its place, of at least one element.
fn extreme(x: &Tensor, op: ReduceOp, axes: Axes, keep: bool, tag: OpTag) -> Tensor {
    match x.ty() {
        Ok(ty) if axes.iter().any(|axis| ty.shape[axis] == 0) => {
            let message = format!("nothing to choose from along {axes:?} of {}", ty.shape);
            Tensor::refused(tag, Refusal::new(message), &[x])
        }
        Ok(ty) if op.returns() == Returns::Index => {
            if axes.is_empty() {
                return Tensor::constant(ty.shape, DType::I64, 0);
            }
            if !ty.dtype.is_float() || !op.takes(ty.dtype) {
                return reduce(x, op, axes, keep, tag);
            }
            composite("place", &(op, axes, keep), [x], tag, |[x]| {
                reduce(&one_zero(x, tag), op, axes, keep, tag)
            })
        }
        _ => reduce(x, op, axes, keep, tag),
    }
}

/// Whether any or all elements are not zero.
fn truth(x: &Tensor, op: ReduceOp, axes: Axes, keep: bool, tag: OpTag) -> Tensor {
    match x.dtype() {
        Ok(DType::Bool) => reduce(x, op, axes, keep, tag),
        _ => composite("truth", &(op, axes, keep), [x], tag, |[x]| {
            reduce(&x.ne(0), op, axes, keep, tag)
        }),
    }
}

fn count(x: &Tensor, op: ReduceOp, axes: Axes, keep: bool, tag: OpTag) -> Tensor {
    composite("count", &(axes, keep), [x], tag, |[x]| {
        reduce(&x.ne(0).cast(DType::I64), op, axes, keep, tag)
    })
}

pub(crate) fn mean(x: &Tensor, op: ReduceOp, axes: Axes, keep: bool, tag: OpTag) -> Tensor {
    let held = precision::adjusted(Class::Full, tag, [x]);
    let [x] = held.operands([x]);
    let Ok(ty) = x.ty() else { return x.clone() };
    composite("mean", &(axes, keep), [x], tag, |[x]| {
        let sum = reduce(&cast(x, widened(ty.dtype), tag), op, axes, keep, tag);
        cast(&(sum / counted(&ty.shape, axes) as f64), float_of(ty.dtype), tag)
    })
}

/// The number of elements of `shape` along `axes`.
pub(crate) fn counted(shape: &Shape, axes: Axes) -> usize {
    axes.iter().map(|axis| shape[axis]).product()
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident, $axes:ident, $keep:ident = $how:ident $op:ident;)*) => {
        impl Tensor { $(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                along(self, .., false, OpTag::new(stringify!($name)), $how, ReduceOp::$op)
            }

            #[doc = concat!("As [`", stringify!($name), "`](Tensor::", stringify!($name), ") along `axes`, which disappear; no axes leave the tensor as it is.")]
            #[track_caller]
            pub fn $axes(&self, axes: impl IntoAxes) -> Tensor {
                along(self, axes, false, OpTag::new(stringify!($name)), $how, ReduceOp::$op)
            }

            #[doc = concat!("As [`", stringify!($axes), "`](Tensor::", stringify!($axes), "), with extents of 1 in place of the axes.")]
            #[track_caller]
            pub fn $keep(&self, axes: impl IntoAxes) -> Tensor {
                along(self, axes, true, OpTag::new(stringify!($name)), $how, ReduceOp::$op)
            }
        )* }
    };
}

fn along(
    x: &Tensor,
    axes: impl IntoAxes,
    keep: bool,
    tag: OpTag,
    how: impl Fn(&Tensor, ReduceOp, Axes, bool, OpTag) -> Tensor,
    op: ReduceOp,
) -> Tensor {
    match resolved(x, axes, tag) {
        Ok(axes) => how(x, op, axes, keep, tag),
        Err(failed) => *failed,
    }
}

reductions! {
    /// The sum of all elements; 0 of none. Integers and bool give i64 (u64 stays), f16 and bf16 are summed in f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.sum();
    /// assert_eq!(y.to_vec::<f32>()?, [10.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    sum, sum_axes, sum_keepdims = accumulate Sum;
    /// The product of all elements; 1 of none. Dtypes as [`sum`](Tensor::sum).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.prod();
    /// assert_eq!(y.to_vec::<f32>()?, [24.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    prod, prod_axes, prod_keepdims = accumulate Prod;
    /// The greatest element; NaN if there is one. Without indices (PyTorch gives both for an axis): see
    /// [`argmax`](Tensor::argmax). Nothing to choose from is an error.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.max_axes(0);
    /// assert_eq!(y.to_vec::<f32>()?, [3.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    max, max_axes, max_keepdims = extreme Max;
    /// The least element; NaN if there is one. Nothing to choose from is an error.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.min_axes(1);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    min, min_axes, min_keepdims = extreme Min;
    /// The row-major index of the first greatest element, as i64; that of the first NaN if there is one. -0 is as great as 0.
    /// Along several axes it counts through these axes. Nothing to choose from is an error.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.argmax();
    /// assert_eq!(y.to_vec::<i64>()?, [3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    argmax, argmax_axes, argmax_keepdims = extreme ArgMax;
    /// The row-major index of the first least element, as i64; that of the first NaN if there is one. -0 is as great as 0. Along
    /// several axes it counts through these axes. Nothing to choose from is an error.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.argmin_axes(1);
    /// assert_eq!(y.to_vec::<i64>()?, [0, 0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    argmin, argmin_axes, argmin_keepdims = extreme ArgMin;
    /// Whether an element is not zero, as bool; NaN is not zero. False of none.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.gt(3).any_axes(1);
    /// assert_eq!(y.to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    any, any_axes, any_keepdims = truth Max;
    /// Whether no element is zero, as bool. True of none.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.gt(0).all();
    /// assert_eq!(y.to_vec::<bool>()?, [true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    all, all_axes, all_keepdims = truth Min;
    /// The number of elements that are not zero, as i64; NaN counts.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = (x - 1).count_nonzero();
    /// assert_eq!(y.to_vec::<i64>()?, [3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    count_nonzero, count_nonzero_axes, count_nonzero_keepdims = count Sum;
    /// The mean; NaN of none. Computed in f64 for f64, else in f32; integers and bool give f32 (PyTorch refuses them, NumPy
    /// gives f64).
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
    /// let y = x.mean_axes([-1]);
    /// assert_eq!(y.to_vec::<f32>()?, [1.5, 3.5]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    mean, mean_axes, mean_keepdims = mean Sum;
}
