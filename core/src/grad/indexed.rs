//! Rules of gathers, scatters and extremes.

use super::math::{self, cast, div, expand_back, like, map2, masked, mul, op, sum, sum_dtype, zeros};
use super::rule::{Gradients, Passed};
use crate::graph::{Op, ScatterMode, Type};
use crate::hal::DType;
use crate::hal::ir::ScalarOp;
use crate::tensor::Tensor;
use crate::tensor::shape::Axes;
use smallvec::smallvec;

/// Elements that share the extreme share the gradient evenly.
pub(super) fn extreme(axes: Axes, passed: &Passed<'_>, g: &Tensor) -> Tensor {
    let ty = passed.ty(0);
    let extreme = expand_back(&passed.output(), axes, ty.shape);
    let mask = cast(
        &map2(ScalarOp::Eq, &passed.input(0), &extreme),
        sum_dtype(ty.dtype),
    );
    let count = cast(&sum(&mask, axes), ty.dtype);
    mul(
        &expand_back(&div(g, &count), axes, ty.shape),
        &cast(&mask, ty.dtype),
    )
}

/// `update` added at `index` to zeros of the type `ty`; 16-bit floats are added in f32.
fn scatter_add(axis: u8, ty: Type, index: &Tensor, update: &Tensor) -> Tensor {
    let wide = sum_dtype(ty.dtype);
    let mode = ScatterMode::Add;
    let base = zeros(Type::new(ty.shape, wide));
    let sums = op(Op::Scatter { axis, mode }, &[&base, index, &cast(update, wide)]);
    cast(&sums, ty.dtype)
}

fn take(axis: u8, x: &Tensor, index: &Tensor) -> Tensor {
    op(Op::Gather { axis }, &[x, index])
}

/// An element that was taken several times gets the sum.
pub(super) fn gather(axis: u8, passed: &Passed<'_>, g: &Tensor) -> Tensor {
    scatter_add(axis, passed.ty(0), &passed.input(1), g)
}

/// Each gradient to where its element was.
pub(super) fn sort(axis: u8, descending: bool, passed: &Passed<'_>, g: &Tensor) -> Tensor {
    let order = Op::ArgSort {
        axis,
        descending,
        count: passed.ty(0).shape[usize::from(axis)],
    };
    let order = op(order, &[&passed.input(0)]);
    scatter_add(axis, passed.ty(0), &order, g)
}

/// Of several updates of a place, the one that was kept takes the gradient; equal extremes share it evenly.
pub(super) fn scatter(axis: u8, mode: ScatterMode, passed: &Passed<'_>, g: &Tensor) -> Gradients {
    let index = passed.input(1);
    let set = Op::Scatter {
        axis,
        mode: ScatterMode::Set,
    };
    match mode {
        ScatterMode::Add => smallvec![
            Some(g.clone()),
            None,
            passed.wants(2).then(|| take(axis, g, &index))
        ],
        ScatterMode::Set => {
            let cover = || op(set.clone(), &[g, &index, &zeros(passed.ty(2))]);
            let by_update = || {
                let place = math::index(&index, passed.ty(2).shape, usize::from(axis));
                let owner = Type::new(passed.ty(0).shape, DType::I64);
                let owner = op(set.clone(), &[&zeros(owner), &index, &place]);
                let kept = map2(ScalarOp::Eq, &take(axis, &owner, &index), &place);
                masked(&kept, &take(axis, g, &index))
            };
            smallvec![passed.wants(0).then(cover), None, passed.wants(2).then(by_update)]
        }
        ScatterMode::Max | ScatterMode::Min => {
            let ty = passed.ty(0);
            let (base, update, extreme) = (passed.input(0), passed.input(2), passed.output());
            let at_base = map2(ScalarOp::Eq, &base, &extreme);
            let at_update = map2(ScalarOp::Eq, &update, &take(axis, &extreme, &index));
            let add = Op::Scatter {
                axis,
                mode: ScatterMode::Add,
            };
            let wide = sum_dtype(ty.dtype);
            let count = op(add, &[&cast(&at_base, wide), &index, &cast(&at_update, wide)]);
            // Nothing is shared where nothing equals the extreme: it is NaN.
            let none = map2(ScalarOp::Eq, &count, &like(&count, 0.0));
            let count = math::select(&none, &like(&count, 1.0), &count);
            let part = div(g, &cast(&count, ty.dtype));
            smallvec![
                passed.wants(0).then(|| masked(&at_base, &part)),
                None,
                passed
                    .wants(2)
                    .then(|| masked(&at_update, &take(axis, &part, &index))),
            ]
        }
    }
}
