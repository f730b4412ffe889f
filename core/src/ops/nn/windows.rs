//! Padding and windows along one axis.

use crate::graph::Op;
use crate::ops::expanded;
use crate::ops::float_bits;
use crate::tensor::shape::Shape;
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply, apply_in};

/// Surrounds a float tensor along one axis.
pub(super) fn padded(x: &Tensor, axis: usize, low: usize, high: usize, value: f64, tag: OpTag) -> Tensor {
    let Ok(ty) = x.ty() else { return x.clone() };
    let bits = float_bits(value, ty.dtype);
    let mut lows = [0; 8];
    lows[axis] = low;
    padded_bits(
        x,
        &lows[..ty.shape.len()],
        &ty.shape.with(axis, ty.shape[axis] + low + high),
        bits,
        tag,
    )
}

/// Surrounds a tensor by an element given as bits; the tensor itself where nothing is added.
pub(super) fn padded_bits(x: &Tensor, low: &[usize], shape: &[usize], bits: u64, tag: OpTag) -> Tensor {
    if x.ty().is_ok_and(|ty| *ty.shape == *shape) {
        return x.clone();
    }
    let op = Op::Pad {
        low: Shape::of(low),
        shape: Shape::of(shape),
        bits,
    };
    apply(op, &[x], tag)
}

/// The view of windows along `axis`; the places in a window become a new last axis.
pub(super) fn windows(
    x: &Tensor,
    axis: usize,
    size: usize,
    step: usize,
    dilation: usize,
    tag: OpTag,
) -> Tensor {
    let op = Op::Window {
        axis: axis as u8,
        size,
        step,
        dilation,
    };
    apply(op, &[x], tag)
}

/// The numbers `0..extent` as i64 along `axis` of a tensor of `rank` axes that is 1 wide elsewhere, on the device of `like`.
pub(super) fn along(like: &Tensor, rank: usize, axis: usize, extent: usize, tag: OpTag) -> Tensor {
    let op = Op::Index {
        axis: axis as u8,
        shape: Shape::of(&[1; 8][..rank]).with(axis, extent),
    };
    apply_in(like.context(), op, &[], tag)
}

/// The elements of `x` at the places `index` (i64) along `axis`, where `index` broadcasts along the other axes; 0 where an
/// index is outside.
pub(super) fn taken(x: &Tensor, axis: usize, index: &Tensor, tag: OpTag) -> Tensor {
    let (Ok(x_ty), Ok(index_ty)) = (x.ty(), index.ty()) else {
        return if x.ty().is_err() { x.clone() } else { index.clone() };
    };
    let shape = x_ty.shape.with(axis, index_ty.shape[axis]);
    let op = Op::Gather { axis: axis as u8 };
    apply(op, &[x, &expanded(index, shape, tag)], tag)
}
