//! What a function does beside computing: it prints, and calls closures of the program.

use crate::exec;
use crate::graph::{Control, Op, Type};
use crate::hal::DType;
use crate::tensor::shape::Shape;
use crate::tensor::tag::OpTag;
use crate::tensor::{Repr, Tensor, common_context, lazy};
use std::sync::Arc;

/// Records an op of the host with effects, which is a part of the traced function even if nobody uses its results.
pub(super) fn record(op: Op, operands: &[&Tensor], tag: OpTag) -> Tensor {
    if let Some(&failed) = operands
        .iter()
        .find(|operand| matches!(operand.repr, Repr::Failed(_)))
    {
        return failed.clone();
    }
    let token = Type::new(Shape::SCALAR, DType::Bool);
    match common_context(None, operands) {
        Ok(context) => lazy::record_effect(op, operands, token, tag.within(), context.cloned()),
        Err(refusal) => Tensor::refused(tag, refusal, operands),
    }
}

/// Prints or calls a closure: now, or whenever the function runs that is traced.
///
/// # Errors
/// A tensor with the first error, of an operand, of reading it, or of the closure.
pub(crate) fn run(control: &Arc<Control>, operands: &[Tensor], tag: OpTag) -> Result<(), Tensor> {
    if exec::tracing() {
        let operands: Vec<&Tensor> = operands.iter().collect();
        let token = record(Op::Control(Arc::clone(control)), &operands, tag);
        return match token.repr {
            Repr::Failed(_) => Err(token),
            Repr::Lazy(_) | Repr::Value(_) | Repr::Constant(_) => Ok(()),
        };
    }
    let context = operands.iter().find_map(Tensor::context);
    let evaluated: Vec<Tensor> = operands
        .iter()
        .map(|operand| exec::evaluated(operand, tag))
        .collect();
    if let Some(failed) = super::failed(&evaluated) {
        return Err(failed);
    }
    exec::effects::run(control, &evaluated, tag).map_err(|error| Tensor::of_error(tag, error, context))
}
