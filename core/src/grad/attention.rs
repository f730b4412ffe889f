//! The rule of attention: weights are computed again, so that no matrix of them is kept. Dao et al., FlashAttention (2022).

use super::math::{
    add, cast, div, expand_back, index, like, map1, map2, mul, op, permute, select, sub, sum, sum_dtype,
    times,
};
use super::rule::{Gradients, Passed};
use crate::graph::Op;
use crate::hal::DType;
use crate::hal::ir::{ReduceOp, ScalarOp};
use crate::tensor::Tensor;
use crate::tensor::shape::Axes;

/// Gradients by queries, keys, values and the mask.
pub(super) fn rule(causal: bool, scale: f64, passed: &Passed<'_>, g: &Tensor) -> Gradients {
    let (dtype, shape) = (passed.ty(0).dtype, passed.ty(0).shape);
    let wide = sum_dtype(dtype);
    let rows = shape.len() - 1;
    let product = |a: &Tensor, b: &Tensor, output: DType| product(a, b, wide, output);
    let [q, k, v] = [0, 1, 2].map(|at| passed.input(at));
    let mask = (passed.inputs.len() > 3).then(|| passed.input(3));
    let weights = attention_weights(&q, &k, mask.as_ref(), causal, scale);
    let by_values = || product(&turned(&cast(&weights, dtype)), g, dtype);
    let by_values = passed.wants(2).then(by_values);
    let by_mask = mask.is_some() && passed.ty(3).dtype != DType::Bool && passed.wants(3);
    if !(passed.wants(0) || passed.wants(1) || by_mask) {
        return [None, None, by_values].into_iter().collect();
    }
    let along = Axes::one(rows);
    let by_weights = product(g, &turned(&v), wide);
    let Ok(ty) = by_weights.ty() else {
        return [Some(by_weights.clone()), Some(by_weights), by_values]
            .into_iter()
            .collect();
    };
    // The sum of out g is the same number, but out is rounded.
    let common = sum(&mul(&weights, &by_weights), along);
    let slope = mul(
        &weights,
        &sub(&by_weights, &expand_back(&common, along, ty.shape)),
    );
    let narrow = cast(&times(&slope, scale), dtype);
    [
        passed.wants(0).then(|| product(&narrow, &k, dtype)),
        passed.wants(1).then(|| product(&turned(&narrow), &q, dtype)),
        by_values,
        by_mask.then(|| slope.clone()),
    ]
    .into_iter()
    .take(passed.inputs.len())
    .collect()
}

fn product(a: &Tensor, b: &Tensor, accumulate: DType, output: DType) -> Tensor {
    op(Op::Matmul { accumulate, output }, &[a, b])
}

/// The last two axes, swapped.
fn turned(x: &Tensor) -> Tensor {
    let Ok(rank) = x.rank() else { return x.clone() };
    let mut axes: Vec<usize> = (0..rank).collect();
    axes.swap(rank - 2, rank - 1);
    permute(x, &axes)
}

/// The weights of queries `[.., i, d]` for keys `[.., j, d]`, `[.., i, j]` in the dtype of sums: the softmax of the scores along the
/// last axis, 0 where all scores are -inf. The mask has the extents of the scores, and is of bool or of the dtype of sums.
pub(crate) fn attention_weights(
    q: &Tensor,
    k: &Tensor,
    mask: Option<&Tensor>,
    causal: bool,
    scale: f64,
) -> Tensor {
    let Ok(ty) = q.ty() else { return q.clone() };
    let wide = sum_dtype(ty.dtype);
    let mut scores = times(&product(q, &turned(k), wide, wide), scale);
    let Ok(ty) = scores.ty() else { return scores };
    let nowhere = like(&scores, f64::NEG_INFINITY);
    if let Some(mask) = mask {
        scores = match mask.dtype() {
            Ok(DType::Bool) => select(mask, &scores, &nowhere),
            _ => add(&scores, mask),
        };
    }
    let (rows, columns) = (ty.shape.len() - 2, ty.shape.len() - 1);
    if causal {
        let [row, column] = [rows, columns].map(|axis| index(q, ty.shape, axis));
        scores = select(&map2(ScalarOp::Le, &column, &row), &scores, &nowhere);
    }
    let along = Axes::one(columns);
    let reduced = |x: &Tensor, of| op(Op::Reduce { op: of, axes: along }, &[x]);
    let spread = |x: &Tensor| expand_back(x, along, ty.shape);
    // The weights are the same whatever is subtracted, so no gradient flows through the peak.
    let peak = reduced(&scores, ReduceOp::Max).detach();
    let nothing = map2(ScalarOp::Eq, &peak, &like(&peak, f64::NEG_INFINITY));
    let shift = select(&nothing, &like(&peak, 0.0), &peak);
    let powers = map1(ScalarOp::Exp, &sub(&scores, &spread(&shift)));
    let sums = reduced(&powers, ReduceOp::Sum);
    let sums = select(&nothing, &like(&sums, 1.0), &sums);
    div(&powers, &spread(&sums))
}
