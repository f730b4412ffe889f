//! The rule of attention: weights are computed again, so that no matrix of them is kept. Dao et al., FlashAttention (2022).

use super::math::{cast, expand_back, mul, op, permute, sub, sum, sum_dtype, times};
use super::rule::{Gradients, Passed};
use crate::graph::Op;
use crate::hal::DType;
use crate::ops::attention_weights;
use crate::tensor::Tensor;
use crate::tensor::shape::Axes;
use crate::tensor::tag::OpTag;

/// Gradients by queries, keys, values and the mask.
pub(super) fn rule(causal: bool, scale: f64, passed: &Passed<'_>, g: &Tensor) -> Gradients {
    let (dtype, shape) = (passed.ty(0).dtype, passed.ty(0).shape);
    let wide = sum_dtype(dtype);
    let rows = shape.len() - 1;
    let product = |a: &Tensor, b: &Tensor, output: DType| {
        let product = Op::Matmul {
            accumulate: wide,
            output,
        };
        op(product, &[a, b])
    };
    let turned = |x: &Tensor| {
        let mut axes: Vec<usize> = (0..=rows).collect();
        axes.swap(rows - 1, rows);
        permute(x, &axes)
    };
    let [q, k, v] = [0, 1, 2].map(|at| passed.input(at));
    let mask = (passed.inputs.len() > 3).then(|| passed.input(3));
    let tag = OpTag::new("gradient");
    let weights = tag.scope(|| attention_weights(&q, &k, mask.as_ref(), causal, scale, tag));
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
