//! What happens to a sum before it is stored.

use super::{cast, output, refuse};
use crate::dtype::DType;
use crate::ir::{Kernel, Node, NodeId, ReduceOp, Role};
use crate::status::{Error, Result};

/// Whether `op` combines values of `dtype`.
pub(super) fn accumulates(name: &str, op: ReduceOp, dtype: DType) -> Result<()> {
    if op.takes(dtype) {
        Ok(())
    } else {
        refuse(
            name,
            format!("{dtype} does not accumulate; use a 32- or 64-bit dtype"),
        )
    }
}

/// Stores `value` of dtype `accumulate`: as `dtype`, or through the epilogue.
pub(super) fn finish(
    kernel: &mut Kernel,
    epilogue: Option<&Kernel>,
    value: NodeId,
    accumulate: DType,
    dtype: DType,
) -> Result<()> {
    match epilogue {
        None => {
            let value = cast(kernel, accumulate, dtype, value);
            output(kernel, dtype, value);
            Ok(())
        }
        Some(epilogue) => inline(kernel, epilogue, value, accumulate),
    }
}

/// Appends the body of `epilogue` to `kernel`, with `value` in place of its first input.
fn inline(kernel: &mut Kernel, epilogue: &Kernel, value: NodeId, dtype: DType) -> Result<()> {
    let refuse = |what: &str| {
        Err(Error::invalid_argument(format!(
            "epilogue {}: {what}",
            epilogue.name
        )))
    };
    epilogue
        .verify()
        .map_err(|e| Error::invalid_argument(format!("epilogue {}: {e}", epilogue.name)))?;
    let outputs = epilogue.params.iter().filter(|p| p.role == Role::Out).count();
    if epilogue.inner != 0 || epilogue.outer != kernel.outer {
        return refuse("it must be a map over the outer axes of the op");
    }
    if epilogue
        .params
        .first()
        .is_none_or(|p| p.role != Role::In || p.dtype != dtype)
    {
        return refuse("its first parameter must be an input of the accumulator's dtype");
    }
    if outputs != 1 || epilogue.params.last().is_none_or(|p| p.role != Role::Out) {
        return refuse("it must have one output, its last parameter");
    }
    let base = kernel.params.len() as u32;
    kernel.params.extend(&epilogue.params[1..]);
    let scalars = kernel.scalars.len() as u32;
    kernel.scalars.extend(&epilogue.scalars);
    let mut ids = Vec::with_capacity(epilogue.nodes.len());
    for node in &epilogue.nodes {
        let of = |id: NodeId| -> NodeId { ids[id.index()] };
        let id = match *node {
            Node::Load { param: 0 } => value,
            Node::LoadAt { param: 0, .. } => return refuse("it must not gather from its first parameter"),
            Node::Const { .. } | Node::Index { .. } => kernel.push(*node),
            Node::Scalar { index } => kernel.push(Node::Scalar {
                index: index + scalars,
            }),
            Node::Load { param } => kernel.push(Node::Load {
                param: param - 1 + base,
            }),
            Node::LoadAt { param, index } => kernel.push(Node::LoadAt {
                param: param - 1 + base,
                index: of(index),
            }),
            Node::Op { op, args } => kernel.push(Node::Op {
                op,
                args: args.map(of),
            }),
            Node::Cast { dtype, arg } => kernel.push(Node::Cast { dtype, arg: of(arg) }),
            Node::Rand { key, counter } => kernel.push(Node::Rand {
                key: of(key),
                counter: of(counter),
            }),
            Node::Reduce { .. } => return refuse("it must be a map"),
            Node::Store { param, value } => kernel.push(Node::Store {
                param: param - 1 + base,
                value: of(value),
            }),
        };
        ids.push(id);
    }
    Ok(())
}
