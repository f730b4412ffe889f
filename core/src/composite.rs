//! Ops that are written with others, as one program each way.

use crate::context::{Context, Mode};
use crate::control::{replay, trace};
use crate::error::tag::OpTag;
use crate::exec;
use crate::grad::vjp;
use crate::graph::{Graph, Type};
use crate::tensor::common_context;
use crate::value::{
    AnyRule, Gradients, Repr, Tensor, is_first_order, is_recording, lazy, record_back, record_with,
};
use smallvec::SmallVec;
use std::sync::Arc;

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
    let any = |given: &[Tensor]| body(chunk(given));
    composite_any(context, name, attributes, &inputs, tag, &any)
}

/// [`composite_in`] without its type parameters.
pub(crate) fn composite_any(
    context: Option<&Context>,
    name: &'static str,
    attributes: &dyn exec::Attributes,
    inputs: &[&Tensor],
    tag: OpTag,
    body: &dyn Fn(&[Tensor]) -> Tensor,
) -> Tensor {
    let tag = tag.within();
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

/// [`composite_any`] of eager tensors as one op, whose way back is one program too. `None` where the ops have to be
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
    if lazy::tracing() != 0 || !inputs.iter().all(now) || !is_first_order(inputs) {
        return None;
    }
    let own = common_context(context, inputs).ok()??;
    let bare: SmallVec<[Tensor; 4]> = inputs.iter().map(|input| input.detach()).collect();
    let bare: SmallVec<[&Tensor; 4]> = bare.iter().collect();
    let mut result = composite_any(context, name, attributes, &bare, tag, body);
    let ty = result.ty().ok()?;
    if !is_recording() || !ty.dtype.is_float() {
        return Some(result);
    }
    let wanted = inputs.iter().enumerate().fold(0, |wanted, (at, input)| {
        wanted | u32::from(input.history.is_some()) << at
    });
    let run = |inputs: &[Tensor]| tag.scope(|| body(inputs));
    let back = exec::Back::of(own, (name, attributes), &bare, wanted, tag, &|| {
        way_back(own, &bare, (wanted, ty), &run)
    })?;
    result.history = record_back(inputs, &result, tag, back_rule(wanted, back));
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
    let any = |given: &[Tensor]| body(chunk(given));
    let rule = move |inputs: &[Tensor], result: &Tensor, gradient: &Tensor| {
        gathered(rule(chunk(inputs), result, gradient))
    };
    composite_with_rule(name, attributes, &inputs, tag, &any, Arc::new(rule))
}

/// [`composite_with_gradient`] without its type parameters, for operands of which one has a history.
fn composite_with_rule(
    name: &'static str,
    attributes: &dyn exec::Attributes,
    inputs: &[&Tensor],
    tag: OpTag,
    body: &dyn Fn(&[Tensor]) -> Tensor,
    rule: Arc<AnyRule>,
) -> Tensor {
    let bare: SmallVec<[Tensor; 4]> = inputs.iter().map(|input| input.detach()).collect();
    let bare: SmallVec<[&Tensor; 4]> = bare.iter().collect();
    let mut result = composite_any(None, name, attributes, &bare, tag, body);
    if !matches!(result.repr, Repr::Failed(_)) {
        result.history = record_with(inputs, &result, tag, rule);
    }
    result
}

/// The result of `body` for a composite's body: `rule` gets the operands, the result and the result's gradient in place of the
/// gradients of the ops that `body` is written with. It reads no result.
pub(crate) fn with_rule(
    inputs: &[&Tensor],
    tag: OpTag,
    body: impl FnOnce(&[Tensor]) -> Tensor,
    rule: impl Fn(&[Tensor], &Tensor, &Tensor) -> Gradients + Send + Sync + 'static,
) -> Tensor {
    let bare: SmallVec<[Tensor; 6]> = inputs.iter().map(|input| input.detach()).collect();
    let mut result = body(&bare);
    if is_recording() && inputs.iter().any(|input| input.history.is_some()) {
        result.history = record_back(inputs, &result, tag, Arc::new(rule));
    }
    result
}

/// The operands of a composite, of which there are as many as it was given.
pub(crate) fn chunk<T, const N: usize>(given: &[T]) -> &[T; N] {
    match given.try_into() {
        Ok(given) => given,
        Err(_) => unreachable!("a composite runs on as many operands as it was given"),
    }
}

#[inline(never)]
fn gathered<const N: usize>(gradients: [Option<Tensor>; N]) -> Gradients {
    gradients.into_iter().collect()
}

/// From the operands and the result's gradient to the gradients of the operands of `wanted`, as a graph. `None` where the
/// body brings values of its own.
fn way_back(
    context: &Context,
    operands: &[&Tensor],
    (wanted, result): (u32, Type),
    body: &dyn Fn(&[Tensor]) -> Tensor,
) -> Option<Graph> {
    let mut types: Vec<Type> = operands.iter().filter_map(|operand| operand.ty().ok()).collect();
    types.push(result);
    let count = operands.len();
    let trace = trace(types, Some(context), |inputs| {
        let places: Vec<usize> = (0..count).filter(|at| wanted >> at & 1 == 1).collect();
        let variable: Vec<Tensor> = places.iter().map(|&at| inputs[at].clone()).collect();
        let (_, pullback) = vjp(
            |variable: &Vec<Tensor>| {
                let mut operands = inputs[..count].to_vec();
                for (&place, tensor) in places.iter().zip(variable) {
                    operands[place] = tensor.clone();
                }
                body(&operands)
            },
            &variable,
        );
        pullback.call(&inputs[count])
    });
    let mut captured = Vec::new();
    let graph = trace.ok()?.close_whole(&mut captured).ok()?;
    captured.is_empty().then_some(graph)
}

/// The rule of an op whose way back is one program, for the operands of `wanted`.
fn back_rule(wanted: u32, back: Arc<exec::Back>) -> Arc<AnyRule> {
    Arc::new(move |inputs, _, gradient| {
        let given: Vec<Tensor> = inputs.iter().chain([gradient]).cloned().collect();
        let gradients = back.call(&given).unwrap_or_else(|| replay(back.graph(), &given));
        let mut gradients = gradients.into_iter();
        (0..inputs.len())
            .map(|at| (wanted >> at & 1 == 1).then(|| gradients.next()).flatten())
            .collect()
    })
}
