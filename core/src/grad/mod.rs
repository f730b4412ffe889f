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
