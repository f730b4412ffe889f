//! From the gradient of a result back to the leaves.

use super::history::{Edge, History, Origin, Saved, active};
use super::math::{add, placed_once};
use super::rule::{Gradients, Passed, rule, takes_constants};
use crate::context::Context;
use crate::tensor::Tensor;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Gradients by the numbers of histories.
pub(super) type Cotangents = BTreeMap<u64, (Arc<History>, Tensor)>;

/// Which histories a walk visits.
pub(super) struct Extent<'a> {
    /// The level that gradients are taken of.
    pub(super) level: u64,
    /// Histories before this one are not visited.
    pub(super) since: u64,
    /// Where constants lie that ops cannot take as such.
    pub(super) context: Option<Context>,
    /// Where it ends.
    pub(super) stop: &'a dyn Fn(&History) -> bool,
}

/// Adds a gradient of `history` to those that are known.
pub(super) fn contribute(into: &mut Cotangents, history: &Arc<History>, gradient: Tensor) {
    match into.entry(history.id) {
        std::collections::btree_map::Entry::Vacant(entry) => {
            entry.insert((Arc::clone(history), gradient));
        }
        std::collections::btree_map::Entry::Occupied(mut entry) => {
            let sum = history.tag.scope(|| add(&entry.get().1, &gradient));
            entry.get_mut().1 = sum;
        }
    }
}

/// The gradients of the histories where the walk ends. A history is visited once, after all that were made later, so all
/// contributions to its gradient are there.
pub(super) fn walk(mut pending: Cotangents, extent: &Extent<'_>) -> Cotangents {
    let mut ends = Cotangents::new();
    while let Some((id, (history, gradient))) = pending.pop_last() {
        if (extent.stop)(&history) {
            ends.insert(id, (history, gradient));
            continue;
        }
        for (edge, gradient) in pull(&history, &gradient, extent) {
            if edge.levels & extent.level != 0 && edge.id >= extent.since {
                contribute(&mut pending, &edge, gradient);
            }
        }
    }
    ends
}

/// The gradients that `gradient` of a history gives to those it refers to.
fn pull(history: &Arc<History>, gradient: &Tensor, extent: &Extent<'_>) -> Vec<(Arc<History>, Tensor)> {
    match &history.origin {
        Origin::Leaf => Vec::new(),
        Origin::Alias(outer) => vec![(Arc::clone(outer), gradient.clone())],
        Origin::Op { op, inputs, output } => {
            let passed = passed(history, inputs, output, extent.level);
            let gradients = history.tag.scope(|| {
                if takes_constants(op) {
                    rule(op, &passed, gradient)
                } else {
                    rule(op, &passed, &placed_once(gradient, extent.context.as_ref()))
                }
            });
            distribute(inputs, gradients)
        }
        Origin::Custom { inputs, output, rule } => {
            let passed = passed(history, inputs, output, extent.level);
            let operands: Vec<Tensor> = (0..inputs.len()).map(|at| passed.input(at)).collect();
            distribute(
                inputs,
                history.tag.scope(|| rule(&operands, &passed.output(), gradient)),
            )
        }
    }
}

fn passed<'a>(history: &'a Arc<History>, inputs: &'a [Edge], output: &'a Saved, level: u64) -> Passed<'a> {
    Passed {
        history,
        inputs,
        output,
        level,
        keep: active() & !level,
    }
}

fn distribute(inputs: &[Edge], gradients: Gradients) -> Vec<(Arc<History>, Tensor)> {
    let edges = inputs.iter().map(|edge| edge.history.as_ref());
    edges
        .zip(gradients)
        .filter_map(|(edge, gradient)| Some((Arc::clone(edge?), gradient?)))
        .collect()
}
