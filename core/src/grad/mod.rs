//! Gradients: reverse mode over the ops of graphs.

use crate::graph::Op;
use crate::tensor::Tensor;
use crate::tensor::tag::OpTag;
use std::sync::Arc;

/// How a tensor was computed from others that gradients are wanted for.
pub(crate) struct History {}

/// The history of `output = op(inputs)`, of which at least one has a history; `None` where nothing differentiable leads on.
pub(crate) fn record(op: &Op, inputs: &[&Tensor], output: &Tensor, tag: OpTag) -> Option<Arc<History>> {
    let _ = (op, inputs, output, tag);
    unimplemented!("history")
}

/// The gradients of an op's operands from the operands, the result and its gradient; `None` for an operand that has none.
pub(crate) type Rule<const N: usize> =
    dyn Fn(&[Tensor; N], &Tensor, &Tensor) -> [Option<Tensor>; N] + Send + Sync;

/// The history of an output that has a rule of its own; at least one of `inputs` has a history.
pub(crate) fn record_with<const N: usize>(
    inputs: [&Tensor; N],
    output: &Tensor,
    tag: OpTag,
    rule: Arc<Rule<N>>,
) -> Option<Arc<History>> {
    let _ = (inputs, output, tag, rule);
    unimplemented!("history of a rule")
}
