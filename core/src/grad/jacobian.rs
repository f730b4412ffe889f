//! All first and second derivatives of a function.

use super::function::grad;
use super::vjp::vjp;
use crate::graph::Op;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::Shape;
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply, index_like};

/// The derivatives of every element of `function(x)` by every element of x: the result's extents, then those of x. It takes a step
/// back for each element of the result, so a gradient is cheaper where that is all that is needed.
///
/// ```
/// use thalweg::{Context, Tensor, jacobian};
/// let cx = Context::auto()?;
/// let x = Tensor::from_slice(&[2.0_f32, 3.0], 2, &cx);
/// let derivatives = jacobian(|x: &Tensor| x * x.sum(), &x);
/// assert_eq!(derivatives.to_vec::<f32>()?, [7.0, 2.0, 3.0, 8.0]);
/// # Ok::<(), thalweg::Error>(())
/// ```
///
/// # Errors
/// The tensor carries the first error of the function, or one where x or the result is no float or the derivatives have more than
/// 8 axes.
#[track_caller]
pub fn jacobian(function: impl Fn(&Tensor) -> Tensor, x: &Tensor) -> Tensor {
    let tag = OpTag::uncounted("jacobian");
    let (y, pullback) = vjp(function, x);
    let (from, to) = match (x.ty(), y.ty()) {
        (Ok(from), Ok(to)) => (from, to),
        (Err(_), _) => return x.clone(),
        (_, Err(_)) => return y,
    };
    if !to.dtype.is_float() {
        let refusal = Refusal::new(format!("the result is {}, derivatives are of floats", to.dtype));
        return Tensor::refused(tag, refusal, &[&y]);
    }
    let shape = match Shape::checked(&[&*to.shape, &*from.shape].concat()) {
        Ok(shape) => shape,
        Err(refusal) => return Tensor::refused(tag, refusal, &[&y]),
    };
    let count = to.shape.elements();
    if shape.elements() == 0 {
        return Tensor::constant(shape, from.dtype, 0);
    }
    let line = tag.scope(|| index_like(&y.detach().flatten(), 0, tag));
    let row = |at: usize| {
        let seed = tag.scope(|| line.eq(at as i64).cast(to.dtype).reshape(to.shape));
        let row = pullback.call(&seed);
        apply(Op::Reshape(from.shape.inserted(0, 1)), &[&row], tag)
    };
    if from.shape.len() == crate::tensor::shape::MAX_RANK {
        // The result is a scalar then.
        return pullback.call(&y.ones_like());
    }
    let rows: Vec<Tensor> = (0..count).map(row).collect();
    if let Some(failed) = rows.iter().find(|row| row.ty().is_err()) {
        return failed.clone();
    }
    let rows: Vec<&Tensor> = rows.iter().collect();
    let all = apply(Op::Concat { axis: 0 }, &rows, tag);
    apply(Op::Reshape(shape), &[&all], tag)
}

/// The second derivatives of `function(x)`, a number, by every pair of elements of x: the extents of x twice.
///
/// ```
/// use thalweg::{Context, Tensor, hessian};
/// let cx = Context::auto()?;
/// let x = Tensor::from_slice(&[2.0_f32, 3.0], 2, &cx);
/// let second = hessian(|x: &Tensor| (x * x * x).sum() + x.prod(), &x);
/// assert_eq!(second.to_vec::<f32>()?, [12.0, 1.0, 1.0, 18.0]);
/// # Ok::<(), thalweg::Error>(())
/// ```
///
/// # Errors
/// As [`grad`] and [`jacobian`].
#[track_caller]
pub fn hessian(function: impl Fn(&Tensor) -> Tensor, x: &Tensor) -> Tensor {
    let slope = grad(|x: &Tensor| function(x));
    jacobian(|x| slope.call(x), x)
}
