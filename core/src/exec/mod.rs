//! Running programs on a device.

use crate::context::Context;
use crate::error::Result;
use crate::graph::{Op, Type};
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, Value};

/// Runs one op on values and constants now. The plan of an op is kept per thread under the op and the operands' dtypes, shapes
/// and strides; the bits of constants are arguments of the plan.
pub(crate) fn eager(
    op: &Op,
    inputs: &[&Tensor],
    ty: Type,
    context: Option<&Context>,
    tag: OpTag,
) -> Result<Value> {
    let _ = (op, inputs, ty, context, tag);
    unimplemented!("eager")
}

/// Runs an op that is written with others now; `body` is traced once for each name, attributes and operands' types.
pub(crate) fn eager_composite<const N: usize, A>(
    name: &'static str,
    attributes: &A,
    inputs: [&Tensor; N],
    tag: OpTag,
    body: impl Fn([&Tensor; N]) -> Tensor,
) -> Result<Tensor>
where
    A: std::hash::Hash + Eq + Clone + Send + 'static,
{
    let _ = (name, attributes, inputs, tag, body);
    unimplemented!("eager composite")
}

/// The tensor with its elements in a buffer: runs what was recorded, and makes a buffer for a constant.
pub(crate) fn evaluate(tensor: &Tensor) -> Result<Value> {
    let _ = tensor;
    unimplemented!("evaluate")
}
