//! Recording loops and branches, and running their graphs op by op.

use super::{back, effect};
use crate::context::Mode;
use crate::exec;
use crate::graph::{Body, Control, Graph, Op, Type};
use crate::tensor::tag::OpTag;
use crate::tensor::{Repr, Tensor, apply, apply_in};
use crate::value::{is_recording, record_many};
use std::collections::HashMap;
use std::sync::Arc;

/// The results of a loop or branch on operands, recorded.
///
/// # Errors
/// A tensor with the first error.
pub(super) fn emit(control: Control, operands: &[Tensor], tag: OpTag) -> Result<Vec<Tensor>, Tensor> {
    let tracked = is_recording() && operands.iter().any(|operand| operand.history.is_some());
    let (control, saves) = match control {
        Control::Repeat { .. } if tracked => with_carries(control),
        other => (other, 0),
    };
    let refs: Vec<&Tensor> = operands.iter().collect();
    let types: Vec<Type> = super::types(operands);
    let results = control
        .results(&types)
        .map_err(|refusal| Tensor::refused(tag, refusal, &refs));
    let control = Arc::new(control);
    let effects = control.has_effects();
    let token = match effects && exec::tracing() {
        true => effect::record(Op::Control(Arc::clone(&control)), &refs, tag),
        false => apply(Op::Control(Arc::clone(&control)), &refs, tag),
    };
    if matches!(token.repr, Repr::Failed(_)) {
        return Err(token);
    }
    let results: Vec<Tensor> = (results?.into_iter().zip(0..))
        .map(|(ty, index)| apply(Op::Result { index, ty }, &[&token], tag))
        .collect();
    let results = now(results, effects.then_some(token), tag);
    if !tracked {
        return Ok(results);
    }
    let saved = results.len() - saves..results.len();
    Ok(record_many(operands, results, saved, tag, back::rule(control)))
}

/// The results with their values, where ops run at once. A loop or branch with effects, whose token is `effect`, always does.
fn now(results: Vec<Tensor>, effect: Option<Tensor>, tag: OpTag) -> Vec<Tensor> {
    let at_once = |result: &Tensor| match &result.repr {
        Repr::Lazy(lazy) => {
            let eager = result.context().is_none_or(|cx| cx.mode() == Mode::Eager);
            lazy.trace == 0 && (eager || effect.is_some())
        }
        Repr::Value(_) | Repr::Constant(_) | Repr::Failed(_) => false,
    };
    if exec::tracing() || !results.iter().all(at_once) {
        return results;
    }
    exec::evaluate_all(&results, effect.as_slice(), tag).unwrap_or_else(|error| {
        let context = results.iter().find_map(|result| result.context());
        let failed = Tensor::of_error(tag, error, context);
        vec![failed; results.len()]
    })
}

/// The loop that also returns the carries before each turn.
fn with_carries(control: Control) -> (Control, usize) {
    match control {
        Control::Repeat {
            body,
            trips,
            start,
            carries,
            slices,
            reverse,
        } => {
            let mut graph: Graph = (*body).clone();
            for at in 0..carries {
                let carry = graph.inputs()[1 + at];
                graph.output(carry);
            }
            let control = Control::Repeat {
                body: Body::new(graph),
                trips,
                start,
                carries,
                slices,
                reverse,
            };
            (control, carries)
        }
        other => (other, 0),
    }
}

/// The results of a graph for `inputs`, op by op.
pub(crate) fn replay(graph: &Graph, inputs: &[Tensor]) -> Vec<Tensor> {
    let mut values: Vec<Tensor> = Vec::with_capacity(graph.nodes().len());
    let mut several: HashMap<usize, Vec<Tensor>> = HashMap::new();
    let context = inputs.iter().find_map(Tensor::context);
    let mut failed = None;
    for (at, node) in graph.nodes().iter().enumerate() {
        let operands = node.inputs.iter().map(|input| &values[input.index()]);
        let value = match &node.op {
            Op::Input(number) => inputs[*number as usize].clone(),
            Op::Full { dtype, bits, shape } => Tensor::constant(*shape, *dtype, *bits),
            Op::Control(control) => {
                let operands: Vec<Tensor> = operands.cloned().collect();
                if let Control::Print { .. } | Control::Inspect { .. } = **control {
                    // Nobody uses it, so that its error is that of all results.
                    failed = failed.or(effect::run(control, &operands, node.tag).err());
                    values.push(Tensor::constant(node.ty.shape, node.ty.dtype, 0));
                    continue;
                }
                match emit((**control).clone(), &operands, node.tag) {
                    Ok(results) => {
                        let first = results.first().cloned();
                        several.insert(at, results);
                        first.unwrap_or_else(|| Tensor::constant(node.ty.shape, node.ty.dtype, 0))
                    }
                    Err(failed) => failed,
                }
            }
            Op::Result { index, .. } => {
                let of = node.inputs[0].index();
                let result = several.get(&of).and_then(|results| results.get(*index as usize));
                result.cloned().unwrap_or_else(|| values[of].clone())
            }
            op => apply_in(context, op.clone(), &operands.collect::<Vec<_>>(), node.tag),
        };
        values.push(value);
    }
    graph
        .outputs()
        .iter()
        .map(|output| failed.as_ref().unwrap_or(&values[output.index()]).clone())
        .collect()
}
