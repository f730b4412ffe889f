//! Ops as the rules write them: operands have one shape and one dtype, as primitives want it.

use crate::context::Context;
use crate::graph::{Op, Type};
use crate::hal::DType;
use crate::hal::ir::{ReduceOp, ScalarOp};
use crate::tensor::shape::{Axes, Shape};
use crate::tensor::tag::OpTag;
use crate::tensor::{Constant, Repr, Tensor, apply, apply_in};
use crate::types::Scalar;

pub(super) fn op(op: Op, inputs: &[&Tensor]) -> Tensor {
    apply(op, inputs, OpTag::new("gradient"))
}

fn bits(dtype: DType, value: f64) -> u64 {
    Scalar::Float(value).cast_bits(dtype)
}

/// One number everywhere.
pub(super) fn full(ty: Type, value: f64) -> Tensor {
    Tensor::constant(ty.shape, ty.dtype, bits(ty.dtype, value))
}

pub(super) fn zeros(ty: Type) -> Tensor {
    full(ty, 0.0)
}

fn is_full(x: &Tensor, value: f64) -> bool {
    matches!(&x.repr, Repr::Constant(c) if c.bits == bits(c.ty.dtype, value)) && x.history.is_none()
}

/// One number of the type of `x`; the first error where `x` carries one.
pub(super) fn like(x: &Tensor, value: f64) -> Tensor {
    match x.ty() {
        Ok(ty) => full(ty, value),
        Err(_) => x.clone(),
    }
}

pub(super) fn map1(scalar: ScalarOp, x: &Tensor) -> Tensor {
    op(Op::Map(scalar), &[x])
}

pub(super) fn map2(scalar: ScalarOp, a: &Tensor, b: &Tensor) -> Tensor {
    op(Op::Map(scalar), &[a, b])
}

/// The bits and dtype of a constant that has no history.
fn number(x: &Tensor) -> Option<(f64, Type)> {
    match &x.repr {
        Repr::Constant(Constant { ty, bits }) if x.history.is_none() && ty.dtype.is_float() => {
            Some((Scalar::from_bits(ty.dtype, *bits).to_f64(), *ty))
        }
        _ => None,
    }
}

/// `op`, at once where both are constants: in f64 the four basic operations on narrower floats round as their own do.
fn basic(scalar: ScalarOp, a: &Tensor, b: &Tensor, of: impl Fn(f64, f64) -> f64) -> Tensor {
    match (number(a), number(b)) {
        (Some((a, ty)), Some((b, other))) if ty == other => full(ty, of(a, b)),
        _ => map2(scalar, a, b),
    }
}

pub(super) fn neg(x: &Tensor) -> Tensor {
    match number(x) {
        Some((value, ty)) => full(ty, -value),
        None => map1(ScalarOp::Neg, x),
    }
}

/// The sum; of gradients that have a dtype for storage in f32.
pub(crate) fn add(a: &Tensor, b: &Tensor) -> Tensor {
    let sum = |a: &Tensor, b: &Tensor| basic(ScalarOp::Add, a, b, |a, b| a + b);
    match a.dtype() {
        Ok(dtype) if dtype.is_storage() => {
            let [a, b] = [a, b].map(|x| cast(x, sum_dtype(dtype)));
            cast(&sum(&a, &b), dtype)
        }
        _ => sum(a, b),
    }
}

pub(super) fn sub(a: &Tensor, b: &Tensor) -> Tensor {
    basic(ScalarOp::Sub, a, b, |a, b| a - b)
}

/// The product; of a one and another, the other itself.
pub(super) fn mul(a: &Tensor, b: &Tensor) -> Tensor {
    if is_full(a, 1.0) {
        return b.clone();
    }
    if is_full(b, 1.0) {
        return a.clone();
    }
    basic(ScalarOp::Mul, a, b, |a, b| a * b)
}

pub(super) fn div(a: &Tensor, b: &Tensor) -> Tensor {
    basic(ScalarOp::Div, a, b, |a, b| a / b)
}

/// `x` times a number.
pub(super) fn times(x: &Tensor, value: f64) -> Tensor {
    mul(x, &like(x, value))
}

/// `x` plus a number.
pub(super) fn plus(x: &Tensor, value: f64) -> Tensor {
    add(x, &like(x, value))
}

pub(super) fn select(condition: &Tensor, then: &Tensor, or: &Tensor) -> Tensor {
    op(Op::Map(ScalarOp::Select), &[condition, then, or])
}

/// `x` where `condition`, else 0.
pub(super) fn masked(condition: &Tensor, x: &Tensor) -> Tensor {
    select(condition, x, &like(x, 0.0))
}

/// `x` where not `condition`, else 0.
pub(super) fn unless(condition: &Tensor, x: &Tensor) -> Tensor {
    select(condition, &like(x, 0.0), x)
}

pub(super) fn cast(x: &Tensor, dtype: DType) -> Tensor {
    match x.ty() {
        Ok(ty) if ty.dtype != dtype => op(Op::Cast(dtype), &[x]),
        _ => x.clone(),
    }
}

/// The dtype that sums of `dtype` are taken in.
pub(super) fn sum_dtype(dtype: DType) -> DType {
    dtype.facts().computed
}

/// The sum along `axes`, which disappear; in f32 for narrower floats.
pub(super) fn sum(x: &Tensor, axes: Axes) -> Tensor {
    let Ok(ty) = x.ty() else { return x.clone() };
    if axes.is_empty() {
        return x.clone();
    }
    let reduce = Op::Reduce {
        op: ReduceOp::Sum,
        axes,
    };
    let wide = cast(x, sum_dtype(ty.dtype));
    cast(&op(reduce, &[&wide]), ty.dtype)
}

pub(super) fn reshape(x: &Tensor, extents: &[usize]) -> Tensor {
    match x.ty() {
        Ok(ty) if *ty.shape != *extents => op(Op::Reshape(Shape::of(extents)), &[x]),
        _ => x.clone(),
    }
}

pub(super) fn permute(x: &Tensor, axes: &[usize]) -> Tensor {
    if axes.iter().enumerate().all(|(at, &axis)| at == axis) {
        return x.clone();
    }
    op(Op::Permute(axes.iter().map(|&axis| axis as u8).collect()), &[x])
}

/// `x` repeated along `axes`, which it lacks, to `shape`.
pub(super) fn expand_back(x: &Tensor, axes: Axes, shape: Shape) -> Tensor {
    expand(&reshape(x, &shape.ones_at(axes)), shape)
}

pub(super) fn expand(x: &Tensor, shape: Shape) -> Tensor {
    match x.ty() {
        Ok(ty) if ty.shape != shape => op(Op::Expand(shape), &[x]),
        _ => x.clone(),
    }
}

/// Elements `start..start + length` along one axis.
pub(super) fn narrow(x: &Tensor, axis: usize, start: usize, length: usize) -> Tensor {
    let Ok(ty) = x.ty() else { return x.clone() };
    if start == 0 && length == ty.shape[axis] {
        return x.clone();
    }
    let zeros = [0; crate::tensor::shape::MAX_RANK];
    let slice = Op::Slice {
        start: Shape::of(&zeros[..ty.shape.len()]).with(axis, start),
        step: ty.shape.iter().map(|_| 1).collect(),
        shape: ty.shape.with(axis, length),
    };
    op(slice, &[x])
}

/// `x` from last to first along an axis.
pub(super) fn flip(x: &Tensor, axis: usize) -> Tensor {
    let Ok(ty) = x.ty() else { return x.clone() };
    if ty.shape[axis] < 2 {
        return x.clone();
    }
    let zeros = [0; crate::tensor::shape::MAX_RANK];
    let slice = Op::Slice {
        start: Shape::of(&zeros[..ty.shape.len()]).with(axis, ty.shape[axis] - 1),
        step: (0..ty.shape.len())
            .map(|at| if at == axis { -1 } else { 1 })
            .collect(),
        shape: ty.shape,
    };
    op(slice, &[x])
}

/// `x` placed at `low` in `shape`, surrounded by `value`.
pub(super) fn pad(x: &Tensor, low: Shape, shape: Shape, value: f64) -> Tensor {
    match x.ty() {
        Ok(ty) if ty.shape != shape => {
            let bits = bits(ty.dtype, value);
            op(Op::Pad { low, shape, bits }, &[x])
        }
        _ => x.clone(),
    }
}

/// `x` between `low` and `high` zeros along one axis.
pub(super) fn pad_axis(x: &Tensor, axis: usize, low: usize, high: usize, value: f64) -> Tensor {
    let Ok(ty) = x.ty() else { return x.clone() };
    let zeros = [0; crate::tensor::shape::MAX_RANK];
    let starts = Shape::of(&zeros[..ty.shape.len()]).with(axis, low);
    let extent = ty.shape[axis] + low + high;
    pad(x, starts, ty.shape.with(axis, extent), value)
}

/// Cut or padded with zeros at the end of an axis to `extent`.
pub(super) fn fit(x: &Tensor, axis: usize, extent: usize) -> Tensor {
    let Ok(ty) = x.ty() else { return x.clone() };
    match ty.shape[axis] {
        longer if longer > extent => narrow(x, axis, 0, extent),
        shorter => pad_axis(x, axis, 0, extent - shorter, 0.0),
    }
}

/// The i64 index along an axis, on the device of `near`.
pub(super) fn index(near: &Tensor, shape: Shape, axis: usize) -> Tensor {
    let axis = axis as u8;
    apply_in(
        near.context(),
        Op::Index { axis, shape },
        &[],
        OpTag::new("gradient"),
    )
}

/// A constant as a tensor on the device of `context`; other tensors as they are.
pub(super) fn placed(x: Tensor, context: Option<&Context>) -> Tensor {
    match (&x.repr, context) {
        (Repr::Constant(constant), Some(_)) if x.history.is_none() => {
            let full = Op::Full {
                dtype: constant.ty.dtype,
                bits: constant.bits,
                shape: constant.ty.shape,
            };
            apply_in(context, full, &[], OpTag::new("gradient"))
        }
        _ => x,
    }
}

/// As [`placed`], of one element that is repeated.
pub(super) fn placed_once(x: &Tensor, context: Option<&Context>) -> Tensor {
    match (&x.repr, context) {
        (Repr::Constant(constant), Some(_)) if x.history.is_none() => {
            let Type { shape, dtype } = constant.ty;
            let one = Tensor::constant(Shape::SCALAR, dtype, constant.bits);
            expand(&placed(one, context), shape)
        }
        _ => x.clone(),
    }
}
