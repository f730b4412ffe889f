//! Rules of running sums, products and extremes, and of products.

use super::math::{
    add, expand_back, index, like, map2, mul, narrow, op, pad_axis, permute, reshape, select, zeros,
};
use super::rule::Passed;
use crate::graph::{Op, ScatterMode};
use crate::hal::ir::{ReduceOp, ScalarOp};
use crate::tensor::Tensor;
use crate::tensor::shape::{Axes, Shape};

/// The rule of a running `of`; of equal extremes the latest takes the gradient.
pub(super) fn rule(
    of: ReduceOp,
    axis: usize,
    reverse: bool,
    passed: &Passed<'_>,
    g: &Tensor,
) -> Option<Tensor> {
    match of {
        ReduceOp::Sum => Some(scan(ReduceOp::Sum, g, axis, !reverse)),
        ReduceOp::Prod => Some(cumulative_product(axis, reverse, passed, g)),
        ReduceOp::Max | ReduceOp::Min => Some(extremes(axis, reverse, passed, g)),
        ReduceOp::ArgMax | ReduceOp::ArgMin => None,
    }
}

fn scan(of: ReduceOp, x: &Tensor, axis: usize, reverse: bool) -> Tensor {
    let scan = Op::Scan {
        op: of,
        axis: axis as u8,
        reverse,
    };
    op(scan, &[x])
}

/// `x` moved by `by` places along an axis, `back` towards the front; what comes in is `fill`.
fn shift(x: &Tensor, axis: usize, by: usize, back: bool, fill: f64) -> Tensor {
    let Ok(ty) = x.ty() else { return x.clone() };
    let extent = ty.shape[axis];
    if by >= extent {
        return like(x, fill);
    }
    if back {
        pad_axis(&narrow(x, axis, by, extent - by), axis, 0, by, fill)
    } else {
        pad_axis(&narrow(x, axis, 0, extent - by), axis, by, 0, fill)
    }
}

/// Gradient of a product: each element's is the product of all others. No division, so zeros are no exception.
pub(super) fn product(axes: Axes, passed: &Passed<'_>, g: &Tensor) -> Tensor {
    let shape = passed.ty(0).shape;
    let order: Vec<usize> = (0..shape.len())
        .filter(|&axis| !axes.has(axis))
        .chain(axes.iter())
        .collect();
    let moved = permute(&passed.input(0), &order);
    let kept = shape.without(axes);
    let count: usize = axes.iter().map(|axis| shape[axis]).product();
    let rows = Shape::of(&[kept.elements(), count]);
    let flat = reshape(&moved, &rows);
    let before = shift(&scan(ReduceOp::Prod, &flat, 1, false), 1, 1, false, 1.0);
    let after = shift(&scan(ReduceOp::Prod, &flat, 1, true), 1, 1, true, 1.0);
    let g = expand_back(&reshape(g, &[kept.elements()]), Axes::one(1), rows);
    let gradient = mul(&g, &mul(&before, &after));
    let extents: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
    let mut back = vec![0; order.len()];
    for (at, &axis) in order.iter().enumerate() {
        back[axis] = at;
    }
    permute(&reshape(&gradient, &extents), &back)
}

/// With y the running product of x, the gradient of x[j] is y[j-1] · s[j], where s[j] = g[j] + x[j+1] · s[j+1]. That
/// recurrence takes a logarithmic number of steps by doubling. No division, so zeros are no exception.
fn cumulative_product(axis: usize, reverse: bool, passed: &Passed<'_>, g: &Tensor) -> Tensor {
    let before = shift(&passed.output(), axis, 1, reverse, 1.0);
    let mut factor = shift(&passed.input(0), axis, 1, !reverse, 0.0);
    let mut total = g.clone();
    let extent = passed.ty(0).shape[axis];
    let mut by = 1;
    while by < extent {
        total = add(&total, &mul(&factor, &shift(&total, axis, by, !reverse, 0.0)));
        factor = mul(&factor, &shift(&factor, axis, by, !reverse, 0.0));
        by *= 2;
    }
    mul(&before, &total)
}

fn extremes(axis: usize, reverse: bool, passed: &Passed<'_>, g: &Tensor) -> Tensor {
    let (x, y) = (passed.input(0), passed.output());
    let shape = passed.ty(0).shape;
    let place = index(&x, shape, axis);
    // A NaN is an extreme too.
    let taken = map2(
        ScalarOp::Or,
        &map2(ScalarOp::Eq, &x, &y),
        &map2(ScalarOp::Ne, &x, &x),
    );
    // Every place looks back to the latest one that was taken; the first always is.
    let (of, first) = if reverse {
        (ReduceOp::Min, shape[axis].saturating_sub(1))
    } else {
        (ReduceOp::Max, 0)
    };
    let marked = select(&taken, &place, &like(&place, first as f64));
    let latest = scan(of, &marked, axis, reverse);
    let add = Op::Scatter {
        axis: axis as u8,
        mode: ScatterMode::Add,
    };
    op(add, &[&zeros(passed.ty(0)), &latest, g])
}
