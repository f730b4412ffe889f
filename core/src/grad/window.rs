//! Gradients of windows and of steps.

use super::math::{fit, narrow, op, pad_axis, permute, reshape, sum, zeros};
use crate::graph::{Op, Type};
use crate::tensor::Tensor;
use crate::tensor::shape::{Axes, Shape};

/// `x` with `step - 1` zeros between neighbours along an axis.
pub(super) fn dilate(x: &Tensor, axis: usize, step: usize) -> Tensor {
    let Ok(ty) = x.ty() else { return x.clone() };
    let extent = ty.shape[axis];
    if step == 1 || extent < 2 {
        return x.clone();
    }
    let (before, after) = around(&ty.shape, axis);
    let apart = reshape(x, &[before, extent, 1, after]);
    let apart = pad_axis(&apart, 2, 0, step - 1, 0.0);
    let spread = reshape(&apart, &[before, extent * step, after]);
    let spread = narrow(&spread, 1, 0, (extent - 1) * step + 1);
    reshape(&spread, &ty.shape.with(axis, (extent - 1) * step + 1))
}

fn around(shape: &Shape, axis: usize) -> (usize, usize) {
    (shape[..axis].iter().product(), shape[axis + 1..].iter().product())
}

/// The gradient of windows along `axis` of a tensor of shape `to`: every element of `g`, whose last axis is the place in
/// the window, is added where it came from.
pub(super) fn overlap_add(g: &Tensor, axis: usize, step: usize, dilation: usize, to: Shape) -> Tensor {
    let Ok(ty) = g.ty() else { return g.clone() };
    if ty.shape.elements() == 0 {
        return zeros(Type::new(to, ty.dtype));
    }
    let (before, after) = around(&to, axis);
    let (windows, size) = (ty.shape[axis], ty.shape[to.len()]);
    let rows = reshape(g, &[before, windows, after, size]);
    let rows = reshape(&permute(&rows, &[0, 2, 1, 3]), &[before * after, windows, size]);
    let line = fit(&lines(&rows, step, dilation), 1, to[axis]);
    let line = permute(&reshape(&line, &[before, after, to[axis]]), &[0, 2, 1]);
    reshape(&line, &to)
}

/// `[rows, windows, size]` to `[rows, length]`, perhaps with zeros at the end.
fn lines(g: &Tensor, step: usize, dilation: usize) -> Tensor {
    let Ok(ty) = g.ty() else { return g.clone() };
    let (rows, windows, size) = (ty.shape[0], ty.shape[1], ty.shape[2]);
    if step > (size - 1) * dilation {
        // No two windows meet.
        let apart = fit(&dilate(g, 2, dilation), 2, step);
        return reshape(&apart, &[rows, windows * step]);
    }
    if step == 1 {
        return diagonals(g, dilation);
    }
    if dilation > 1 {
        return lines(&dilate(g, 2, dilation), step, 1);
    }
    // Place q * step + r of window w meets place r of window w + q: one problem with step 1 for each r.
    let turns = size.div_ceil(step);
    let parts = reshape(&fit(g, 2, turns * step), &[rows, windows, turns, step]);
    let parts = reshape(&permute(&parts, &[0, 3, 1, 2]), &[rows * step, windows, turns]);
    let sums = reshape(&diagonals(&parts, 1), &[rows, step, windows + turns - 1]);
    reshape(&permute(&sums, &[0, 2, 1]), &[rows, (windows + turns - 1) * step])
}

/// As [`lines`] for step 1: element `i` is the sum of `g[i - k * dilation, k]`. Those lie in a line of constant stride once
/// `g` is padded along its windows, so the sum is one reduction over a view.
fn diagonals(g: &Tensor, dilation: usize) -> Tensor {
    let Ok(ty) = g.ty() else { return g.clone() };
    let (rows, windows, size) = (ty.shape[0], ty.shape[1], ty.shape[2]);
    if size == 1 {
        return reshape(g, &[rows, windows]);
    }
    let reach = (size - 1) * dilation;
    let padded = pad_axis(g, 1, reach, reach, 0.0);
    let length = (windows + 2 * reach) * size;
    let flat = narrow(
        &reshape(&padded, &[rows, length]),
        1,
        size - 1,
        length - (size - 1),
    );
    let window = Op::Window {
        axis: 1,
        size,
        step: size,
        dilation: dilation * size - 1,
    };
    sum(&op(window, &[&flat]), Axes::one(2))
}
