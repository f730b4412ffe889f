//! From a call to a value: the one way that every op takes.

use super::failure::{Failure, Refusal};
use super::lazy::{self, Lazy};
use super::tag::OpTag;
use super::{Repr, Tensor, Value};
use crate::context::{Context, Mode};
use crate::error::Error;
use crate::exec;
use crate::grad;
use crate::graph::{Op, Type, infer};
use crate::hal;
use crate::tensor::layout::Layout;
use smallvec::SmallVec;
use std::sync::Arc;

/// The result of `op` on operands that have the dtypes and shapes it asks for.
#[inline]
pub(crate) fn apply(op: Op, inputs: &[&Tensor], tag: OpTag) -> Tensor {
    exec::again(&op, inputs, tag, &|| apply_new(None, &op, inputs, tag))
}

/// As [`apply`], on the device of `context`: for ops without operands.
pub(crate) fn apply_in(context: Option<&Context>, op: Op, inputs: &[&Tensor], tag: OpTag) -> Tensor {
    apply_new(context, &op, inputs, tag)
}

/// [`apply_in`] of an op that may never have run.
fn apply_new(context: Option<&Context>, op: &Op, inputs: &[&Tensor], tag: OpTag) -> Tensor {
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
        result.history = grad::record(op, inputs, &result, tag);
    }
    result
}

/// The result of an op that is written with others, for operands that are checked by those. Eager tensors run it as one
/// compiled graph, kept under `name`, `attributes` and the operands' types; so `attributes` must say all that `body`
/// depends on besides the operands.
pub(crate) fn composite<const N: usize, A>(
    name: &'static str,
    attributes: &A,
    inputs: [&Tensor; N],
    tag: OpTag,
    body: impl Fn(&[Tensor; N]) -> Tensor,
) -> Tensor
where
    A: std::hash::Hash + Eq + Clone + Send + 'static,
{
    composite_in(None, name, attributes, inputs, tag, body)
}

/// As [`composite`], on the device of `context`: for ops whose operands are numbers.
pub(crate) fn composite_in<const N: usize, A>(
    context: Option<&Context>,
    name: &'static str,
    attributes: &A,
    inputs: [&Tensor; N],
    tag: OpTag,
    body: impl Fn(&[Tensor; N]) -> Tensor,
) -> Tensor
where
    A: std::hash::Hash + Eq + Clone + Send + 'static,
{
    let any = |given: &[Tensor]| match <&[Tensor; N]>::try_from(given) {
        Ok(given) => body(given),
        Err(_) => unreachable!("a composite runs on as many operands as it was given"),
    };
    composite_of(context, name, attributes, &inputs, tag, &any)
}

/// [`composite_in`] without its type parameters.
fn composite_of(
    context: Option<&Context>,
    name: &'static str,
    attributes: &dyn exec::Attributes,
    inputs: &[&Tensor],
    tag: OpTag,
    body: &dyn Fn(&[Tensor]) -> Tensor,
) -> Tensor {
    let run = |inputs: &[Tensor]| tag.scope(|| body(inputs));
    for &input in inputs {
        if matches!(input.repr, Repr::Failed(_)) {
            return input.clone();
        }
    }
    if inputs.iter().any(|input| input.history.is_some())
        && let Some(result) = composite_with_history(context, name, attributes, inputs, tag, body)
    {
        return result;
    }
    // Numbers are arguments of the compiled op, so that another value needs no other.
    let now = |input: &&Tensor| match &input.repr {
        Repr::Value(value) => value.storage.context.mode() == Mode::Eager && input.history.is_none(),
        Repr::Constant(_) => input.history.is_none(),
        Repr::Lazy(_) | Repr::Failed(_) => false,
    };
    let plain = lazy::tracing() == 0
        && context.is_none_or(|context| context.mode() == Mode::Eager)
        && inputs.iter().all(now);
    let context = match common_context(context, inputs) {
        Ok(Some(context)) if plain => context,
        _ => {
            let inputs: SmallVec<[Tensor; 4]> = inputs.iter().map(|&input| input.clone()).collect();
            return run(&inputs);
        }
    };
    match exec::eager_composite(context, name, attributes, inputs, tag, &run) {
        Ok(result) => result,
        Err(error) => Tensor::of_error(tag, error, Some(context)),
    }
}

/// [`composite_of`] of eager tensors as one op, whose way back is one program too. `None` where the ops have to be
/// recorded one by one: for gradients of gradients, which those have exactly, and while a function is traced.
fn composite_with_history(
    context: Option<&Context>,
    name: &'static str,
    attributes: &dyn exec::Attributes,
    inputs: &[&Tensor],
    tag: OpTag,
    body: &dyn Fn(&[Tensor]) -> Tensor,
) -> Option<Tensor> {
    let now = |input: &&Tensor| match &input.repr {
        Repr::Value(value) => value.storage.context.mode() == Mode::Eager,
        Repr::Constant(_) => true,
        Repr::Lazy(_) | Repr::Failed(_) => false,
    };
    if lazy::tracing() != 0 || !inputs.iter().all(now) || !grad::is_first_order(inputs) {
        return None;
    }
    let own = common_context(context, inputs).ok()??;
    let bare: SmallVec<[Tensor; 4]> = inputs.iter().map(|input| input.detach()).collect();
    let bare: SmallVec<[&Tensor; 4]> = bare.iter().collect();
    let mut result = composite_of(context, name, attributes, &bare, tag, body);
    let ty = result.ty().ok()?;
    if !grad::is_recording() || !ty.dtype.is_float() {
        return Some(result);
    }
    let wanted = inputs.iter().enumerate().fold(0, |wanted, (at, input)| {
        wanted | u32::from(input.history.is_some()) << at
    });
    let run = |inputs: &[Tensor]| tag.scope(|| body(inputs));
    let back = exec::Back::of(own, (name, attributes), &bare, (wanted, ty), tag, &run)?;
    result.history = grad::record_back(inputs, &result, tag, wanted, back);
    Some(result)
}

/// As [`composite`], with a rule of its own for gradients, where those of the primitives are inexact, undefined at a branch
/// or slow. The rule gets operands, result and the result's gradient; it is written with tensor ops, so that it
/// differentiates again.
pub(crate) fn composite_with_gradient<const N: usize, A>(
    name: &'static str,
    attributes: &A,
    inputs: [&Tensor; N],
    tag: OpTag,
    body: impl Fn(&[Tensor; N]) -> Tensor,
    rule: impl Fn(&[Tensor; N], &Tensor, &Tensor) -> [Option<Tensor>; N] + Send + Sync + 'static,
) -> Tensor
where
    A: std::hash::Hash + Eq + Clone + Send + 'static,
{
    if inputs.iter().all(|input| input.history.is_none()) {
        return composite(name, attributes, inputs, tag, body);
    }
    let bare = inputs.map(|input| Tensor {
        history: None,
        ..input.clone()
    });
    let mut result = composite(name, attributes, bare.each_ref(), tag, body);
    if !matches!(result.repr, Repr::Failed(_)) {
        result.history = grad::record_with(inputs, &result, tag, Arc::new(rule));
    }
    result
}

/// The context of the operands that have one.
fn common_context<'a>(
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
    let inputs = inputs
        .iter()
        .map(|&input| Tensor {
            history: input.history.clone().filter(|_| lazy::in_body()),
            repr: input.repr.clone(),
        })
        .collect();
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

/// Where the elements of a view lie; `None` for an op that is no view of this layout.
pub(crate) fn view_layout(op: &Op, layout: &Layout, ty: Type) -> Option<Layout> {
    match op {
        Op::Permute(axes) => Some(layout.permuted(axes)),
        Op::Expand(shape) => Some(layout.expanded(*shape)),
        Op::Reshape(shape) => layout.reshaped(*shape),
        Op::Slice { start, step, shape } => Some(layout.sliced(start, step, *shape)),
        Op::Window {
            axis, step, dilation, ..
        } => Some(layout.windowed(usize::from(*axis), ty.shape, *step, *dilation)),
        _ => None,
    }
}

impl Tensor {
    /// The tensor of an op that failed on the device.
    pub(crate) fn of_error(tag: OpTag, error: Error, context: Option<&Context>) -> Tensor {
        if let Error::Tensor(failure) = error {
            return Tensor {
                repr: Repr::Failed(failure),
                history: None,
            };
        }
        Tensor::failed(Failure {
            op: tag.op.to_owned(),
            refusal: Refusal::new(error.to_string()),
            location: tag.location,
            device: context.map(|context| context.device().target().to_owned()),
            dtype: None,
            source: Some(Arc::new(error)),
        })
    }
}

impl From<Arc<Failure>> for Error {
    fn from(failure: Arc<Failure>) -> Error {
        Error::Tensor(failure)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        Error::Tensor(Arc::new(failure))
    }
}

/// The tag of a piece of work on the device.
pub(crate) fn hal_tag(tag: OpTag) -> hal::Tag<'static> {
    match tag.location {
        Some(location) => hal::Tag::at(tag.op, location),
        None => hal::Tag::new(tag.op),
    }
}
