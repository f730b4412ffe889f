//! The rule of every op: from the gradient of its result to those of its operands. Written with ops, so that rules run as
//! eagerly as they are recorded, and have gradients themselves.

use super::math::{cast, expand_back, flip, narrow, neg, op, permute, reshape, sum, zeros};
use super::{attention, indexed, running, scalar, window};
use crate::graph::{Op, Type};
use crate::hal::ir::ReduceOp;
use crate::tensor::Tensor;
use crate::tensor::shape::{Axes, Shape};
pub(super) use crate::value::Gradients;
use crate::value::Level;
use crate::value::{Edge, History, Saved};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Whether the rule of `op` leaves a constant gradient a constant, or combines it with other tensors element by element.
pub(super) fn takes_constants(op: &Op) -> bool {
    match op {
        Op::Map(_)
        | Op::Cast(_)
        | Op::Permute(_)
        | Op::Reshape(_)
        | Op::Pad { .. }
        | Op::Concat { .. }
        | Op::Reduce {
            op: ReduceOp::Sum, ..
        } => true,
        Op::Input(_)
        | Op::Full { .. }
        | Op::Index { .. }
        | Op::Rand
        | Op::Reduce { .. }
        | Op::Expand(_)
        | Op::Slice { .. }
        | Op::Window { .. }
        | Op::Gather { .. }
        | Op::Scatter { .. }
        | Op::Matmul { .. }
        | Op::Attention { .. }
        | Op::Conv(_)
        | Op::ConvGradInput(..)
        | Op::ConvGradWeight(..)
        | Op::Scan { .. }
        | Op::Sort { .. }
        | Op::ArgSort { .. }
        | Op::Indices { .. }
        | Op::Control(_)
        | Op::Result { .. } => false,
    }
}

/// An op that a gradient passes.
pub(super) struct Passed<'a> {
    pub(super) history: &'a Arc<History>,
    pub(super) inputs: &'a [Edge],
    pub(super) output: &'a Saved,
    /// The level that gradients are taken of.
    pub(super) level: Level,
}

impl Passed<'_> {
    /// Whether a gradient of operand `at` is wanted.
    pub(super) fn wants(&self, at: usize) -> bool {
        self.inputs[at].wants(self.level)
    }

    /// Type of operand `at`.
    pub(super) fn ty(&self, at: usize) -> Type {
        self.inputs[at].saved.ty
    }

    /// Operand `at`.
    pub(super) fn input(&self, at: usize) -> Tensor {
        self.inputs[at].tensor(self.level)
    }

    /// The result.
    pub(super) fn output(&self) -> Tensor {
        let history = (self.level.others_hold(self.history)).then(|| Arc::clone(self.history));
        self.output.tensor(history)
    }
}

/// The gradients of the operands of `passed`, an op, when `g` is that of its result.
pub(super) fn rule(of: &Op, passed: &Passed<'_>, g: &Tensor) -> Gradients {
    match of {
        Op::Input(_)
        | Op::Full { .. }
        | Op::Index { .. }
        | Op::Rand
        | Op::ArgSort { .. }
        | Op::Indices { .. }
        | Op::Control(_)
        | Op::Result { .. } => smallvec![],
        Op::Map(op) => scalar::rule(*op, passed, g),
        Op::Cast(_) => smallvec![Some(cast(g, passed.ty(0).dtype))],
        Op::Reduce { op, axes } => reduce(*op, *axes, passed, g),
        Op::Permute(axes) => {
            let mut back = vec![0; axes.len()];
            for (at, &axis) in axes.iter().enumerate() {
                back[usize::from(axis)] = at;
            }
            smallvec![Some(permute(g, &back))]
        }
        Op::Expand(shape) => {
            let from = passed.ty(0).shape;
            let new = shape.len() - from.len();
            let repeated: Axes = (0..shape.len())
                .filter(|&axis| axis < new || from[axis - new] != shape[axis])
                .collect();
            smallvec![Some(reshape(&sum(g, repeated), &from))]
        }
        Op::Reshape(_) => smallvec![Some(reshape(g, &passed.ty(0).shape))],
        Op::Slice { start, step, shape } => {
            smallvec![Some(unslice(g, start, step, *shape, passed.ty(0).shape))]
        }
        Op::Window {
            axis,
            size: _,
            step,
            dilation,
        } => {
            let to = passed.ty(0).shape;
            smallvec![Some(window::overlap_add(
                g,
                usize::from(*axis),
                *step,
                *dilation,
                to
            ))]
        }
        Op::Pad { low, .. } => {
            let mut inner = g.clone();
            for (axis, &extent) in passed.ty(0).shape.iter().enumerate() {
                inner = narrow(&inner, axis, low[axis], extent);
            }
            smallvec![Some(inner)]
        }
        Op::Concat { axis } => {
            let axis = usize::from(*axis);
            let mut at = 0;
            (0..passed.inputs.len())
                .map(|input| {
                    let extent = passed.ty(input).shape[axis];
                    at += extent;
                    passed.wants(input).then(|| narrow(g, axis, at - extent, extent))
                })
                .collect()
        }
        Op::Sort { axis, descending } => smallvec![Some(indexed::sort(*axis, *descending, passed, g))],
        Op::Gather { axis } => smallvec![Some(indexed::gather(*axis, passed, g)), None],
        Op::Scatter { axis, mode } => indexed::scatter(*axis, *mode, passed, g),
        Op::Matmul { accumulate, .. } => {
            let dtype = passed.ty(0).dtype;
            // A gradient does not fit a dtype for storage before it is summed.
            let factor = if dtype.is_storage() { *accumulate } else { dtype };
            let product = Op::Matmul {
                accumulate: *accumulate,
                output: factor,
            };
            let g = cast(g, factor);
            let input = |at: usize| cast(&transposed(&passed.input(at)), factor);
            let left = || cast(&op(product.clone(), &[&g, &input(1)]), dtype);
            let right = || cast(&op(product.clone(), &[&input(0), &g]), passed.ty(1).dtype);
            smallvec![passed.wants(0).then(left), passed.wants(1).then(right)]
        }
        Op::Attention { causal, scale } => attention::rule(*causal, f64::from_bits(*scale), passed, g),
        Op::Conv(attributes) => {
            let by_input = Op::ConvGradInput(*attributes, passed.ty(0).shape);
            let by_weight = Op::ConvGradWeight(*attributes, passed.ty(1).shape);
            smallvec![
                passed.wants(0).then(|| op(by_input, &[g, &passed.input(1)])),
                passed.wants(1).then(|| op(by_weight, &[&passed.input(0), g])),
            ]
        }
        Op::ConvGradInput(attributes, _) => {
            let by_weight = Op::ConvGradWeight(*attributes, passed.ty(1).shape);
            smallvec![
                passed
                    .wants(0)
                    .then(|| op(Op::Conv(*attributes), &[g, &passed.input(1)])),
                passed.wants(1).then(|| op(by_weight, &[g, &passed.input(0)])),
            ]
        }
        Op::ConvGradWeight(attributes, _) => {
            let by_input = Op::ConvGradInput(*attributes, passed.ty(0).shape);
            smallvec![
                passed.wants(0).then(|| op(by_input, &[&passed.input(1), g])),
                passed
                    .wants(1)
                    .then(|| op(Op::Conv(*attributes), &[&passed.input(0), g])),
            ]
        }
        Op::Scan { op, axis, reverse } => {
            smallvec![running::rule(*op, usize::from(*axis), *reverse, passed, g)]
        }
    }
}

fn reduce(of: ReduceOp, axes: Axes, passed: &Passed<'_>, g: &Tensor) -> Gradients {
    let shape = passed.ty(0).shape;
    match of {
        ReduceOp::Sum => smallvec![Some(expand_back(g, axes, shape))],
        ReduceOp::Prod => smallvec![Some(running::product(axes, passed, g))],
        // Elements that share the extreme share the gradient.
        ReduceOp::Max | ReduceOp::Min => smallvec![Some(indexed::extreme(axes, passed, g))],
        ReduceOp::ArgMax | ReduceOp::ArgMin => smallvec![None],
    }
}

/// A matrix, or a batch of such, with rows and columns exchanged.
fn transposed(x: &Tensor) -> Tensor {
    let rank = x.ty().map_or(0, |ty| ty.shape.len());
    let mut axes: SmallVec<[usize; 8]> = (0..rank).collect();
    if rank >= 2 {
        axes.swap(rank - 2, rank - 1);
    }
    permute(x, &axes)
}

/// `g` at the places of `to` that a slice took, 0 elsewhere.
fn unslice(g: &Tensor, start: &Shape, step: &[i64], shape: Shape, to: Shape) -> Tensor {
    let Ok(ty) = g.ty() else { return g.clone() };
    if shape.elements() == 0 {
        return zeros(Type::new(to, ty.dtype));
    }
    let mut low = *start;
    let mut spread = g.clone();
    for axis in 0..shape.len() {
        if step[axis] < 0 {
            let last = start[axis] as i64 + (shape[axis] as i64 - 1) * step[axis];
            low = low.with(axis, last as usize);
            spread = flip(&spread, axis);
        }
        spread = window::dilate(&spread, axis, step[axis].unsigned_abs() as usize);
    }
    super::math::pad(&spread, low, to, 0.0)
}

/// `-g`, if wanted.
pub(super) fn negative(wanted: bool, g: &Tensor) -> Option<Tensor> {
    wanted.then(|| neg(g))
}
