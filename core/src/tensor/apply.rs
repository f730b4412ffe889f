//! From a call to a value: the one way that every op takes.

use crate::context::{Context, Mode};
use crate::error::failure::Refusal;
use crate::error::tag::OpTag;
use crate::exec;
use crate::graph::{Op, Type, infer, view_layout};
use crate::value::lazy::{self, Lazy};
use crate::value::{Repr, Tensor, Value, record_op};
use smallvec::SmallVec;

/// The result of `op` on operands that have the dtypes and shapes it asks for.
#[inline]
pub(crate) fn apply(op: Op, inputs: &[&Tensor], tag: OpTag) -> Tensor {
    exec::again(&op, inputs, tag, &|| apply_new(None, &op, inputs, tag))
}

/// As [`apply`], on the device of `context`: for ops without operands.
pub(crate) fn apply_in(context: Option<&Context>, op: Op, inputs: &[&Tensor], tag: OpTag) -> Tensor {
    apply_new(context, &op, inputs, tag)
}

/// Most operands of one op that joins: each of them is looked for among all of them when the op is compiled.
const WIDEST: usize = 256;

/// Tensors of one dtype, one after the other along an axis; there is at least one.
pub(crate) fn join(mut tensors: Vec<Tensor>, axis: usize, tag: OpTag) -> Tensor {
    let joined = |tensors: &[Tensor]| match tensors {
        [only] => only.clone(),
        _ => {
            let axis = axis as u8;
            apply(
                Op::Concat { axis },
                &tensors.iter().collect::<Vec<&Tensor>>(),
                tag,
            )
        }
    };
    while tensors.len() > WIDEST {
        tensors = tensors.chunks(WIDEST).map(joined).collect();
    }
    joined(&tensors)
}

/// [`apply_in`] of an op that may never have run.
fn apply_new(context: Option<&Context>, op: &Op, inputs: &[&Tensor], tag: OpTag) -> Tensor {
    let tag = tag.within().of_primitive(op.name());
    let mut types = SmallVec::<[Type; 4]>::new();
    for input in inputs {
        match input.ty() {
            Ok(ty) => types.push(ty),
            Err(_) => return (*input).clone(),
        }
    }
    let ty = match infer(op, &types) {
        Ok(ty) => ty,
        Err(refusal) => return Tensor::refused(tag, refusal, inputs),
    };
    let context = match common_context(context, inputs) {
        Ok(context) => context,
        Err(refusal) => return Tensor::refused(tag, refusal, inputs),
    };
    let recorded = lazy::tracing() != 0
        || inputs.iter().any(|input| matches!(input.repr, Repr::Lazy(_)))
        || matches!(op, Op::Control(_))
        || context.is_some_and(|context| context.mode() == Mode::Graph);
    let mut result = if recorded {
        record(op.clone(), inputs, ty, tag, context.cloned())
    } else if let Some(view) = view(op, inputs, ty) {
        view
    } else {
        match exec::eager(op, inputs, ty, context, tag) {
            Ok(result) => result,
            Err(error) => return Tensor::of_error(tag, error, context),
        }
    };
    if inputs.iter().any(|input| input.history.is_some()) {
        result.history = record_op(op, inputs, &result, tag);
    }
    result
}

/// The context of the operands that have one.
pub(crate) fn common_context<'a>(
    given: Option<&'a Context>,
    inputs: &[&'a Tensor],
) -> Result<Option<&'a Context>, Refusal> {
    let mut found = given;
    for context in inputs.iter().filter_map(|input| input.context()) {
        match found {
            None => found = Some(context),
            Some(first) if first.device() == context.device() => {}
            Some(first) => {
                return Err(Refusal::new(format!(
                    "operands lie on two devices, {} and {}",
                    first.device().target(),
                    context.device().target()
                ))
                .help("copy one of them with `to`"));
            }
        }
    }
    Ok(found)
}

fn record(op: Op, inputs: &[&Tensor], ty: Type, tag: OpTag, context: Option<Context>) -> Tensor {
    let trace = inputs
        .iter()
        .map(|input| match &input.repr {
            Repr::Lazy(lazy) => lazy.trace,
            _ => 0,
        })
        .max()
        .unwrap_or(0);
    let inputs = lazy::operands(inputs);
    Tensor::from_lazy(Lazy::new(op, inputs, ty, tag, context, trace))
}

/// The result of an op that moves no element.
fn view(op: &Op, inputs: &[&Tensor], ty: Type) -> Option<Tensor> {
    let [input] = inputs else { return None };
    let value = match &input.repr {
        Repr::Value(value) => value,
        Repr::Constant(constant) if op.is_view() => {
            return Some(Tensor::constant(ty.shape, ty.dtype, constant.bits));
        }
        _ => return None,
    };
    let layout = view_layout(op, &value.layout, ty)?;
    Some(Tensor::from_value(Value {
        storage: value.storage.clone(),
        layout,
        dtype: value.dtype,
    }))
}

/// The index along `axis` of each element of `x`.
pub(crate) fn index_like(x: &Tensor, axis: usize, tag: OpTag) -> Tensor {
    match x.ty() {
        Ok(ty) => apply_in(
            x.context(),
            Op::Index {
                axis: axis as u8,
                shape: ty.shape,
            },
            &[],
            tag,
        ),
        Err(_) => x.clone(),
    }
}
