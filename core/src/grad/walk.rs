//! From the gradient of a result back to the leaves.

use super::math::placed_once;
use super::rule::{Passed, rule, takes_constants};
use super::sum::{Contribution, Part, Sum};
use crate::context::Context;
use crate::tensor::Tensor;
use crate::value::Level;
use crate::value::{Edge, History, Many, Origin, Saved};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is contributed to gradients, by the numbers of histories; a computation with several results has one sum for each.
pub(super) type Cotangents = BTreeMap<u64, Pending>;

/// The gradients where a walk ended, by the numbers of histories.
pub(super) type Ends = BTreeMap<u64, Found>;

pub(super) struct Pending {
    history: Arc<History>,
    sums: SmallVec<[Sum; 1]>,
}

impl Pending {
    /// The gradients, when all is contributed.
    fn found(self, context: Option<&Context>) -> Found {
        let Pending { history, sums } = self;
        let total = |sum: Sum| sum.total(context, history.tag);
        let gradients = sums.into_iter().map(total).collect();
        Found { history, gradients }
    }
}

/// The gradients of the results of a history; `None` is 0.
pub(super) struct Found {
    history: Arc<History>,
    gradients: SmallVec<[Option<Tensor>; 1]>,
}

impl Found {
    /// The gradient of the only result.
    pub(super) fn gradient(&self) -> Option<&Tensor> {
        self.gradients.first()?.as_ref()
    }
}

/// Which histories a walk visits.
pub(super) struct Extent<'a> {
    /// The level that gradients are taken of.
    pub(super) level: Level,
    /// Where constants lie that ops cannot take as such.
    pub(super) context: Option<Context>,
    /// Where it ends.
    pub(super) stop: &'a dyn Fn(&History) -> bool,
}

/// Adds to what is contributed to the gradient of result `at` of `history`.
pub(super) fn contribute(
    into: &mut Cotangents,
    history: &Arc<History>,
    at: usize,
    contribution: Contribution,
) {
    let pending = into.entry(history.id).or_insert_with(|| Pending {
        history: Arc::clone(history),
        sums: SmallVec::new(),
    });
    let sums = &mut pending.sums;
    if sums.len() <= at {
        sums.resize_with(at + 1, Sum::default);
    }
    sums[at].add(contribution, history.tag);
}

/// The gradients of the histories where the walk ends. A history is visited once, after all that were made later, so all
/// contributions to its gradient are there.
pub(super) fn walk(mut pending: Cotangents, extent: &Extent<'_>) -> Ends {
    let mut ends = Ends::new();
    while let Some((id, next)) = pending.pop_last() {
        let next = next.found(extent.context.as_ref());
        if (extent.stop)(&next.history) {
            ends.insert(id, next);
            continue;
        }
        for (edge, at, contribution) in pull(&next, extent) {
            if extent.level.holds(&edge) {
                contribute(&mut pending, &edge, at, contribution);
            }
        }
    }
    ends
}

type Pulled = Vec<(Arc<History>, usize, Contribution)>;

/// The gradients that those of a history give to what it refers to.
fn pull(found: &Found, extent: &Extent<'_>) -> Pulled {
    let history = &found.history;
    let tag = history.tag.gradient();
    let place = |gradient: &Tensor| placed_once(gradient, extent.context.as_ref());
    if let Origin::Many {
        inputs,
        saved,
        results,
        rule,
    } = &history.origin
    {
        let operands: Vec<Tensor> = inputs.iter().map(|edge| edge.tensor(extent.level)).collect();
        let wanted: Vec<bool> = inputs.iter().map(|edge| edge.wants(extent.level)).collect();
        let saved: Vec<Tensor> = (saved.iter())
            .map(|(at, saved)| {
                let result = || {
                    History::new(
                        history.levels,
                        history.tag,
                        Origin::Result(Arc::clone(history), *at),
                    )
                };
                saved.tensor(extent.level.others_hold(history).then(result))
            })
            .collect();
        let gradients: Vec<Option<Tensor>> = (0..*results)
            .map(|at| found.gradients.get(at)?.as_ref().map(place))
            .collect();
        let many = Many {
            inputs: &operands,
            wanted: &wanted,
            saved: &saved,
            gradients: &gradients,
        };
        return distribute(inputs, tag.scope(|| rule(&many)));
    }
    let Some(gradient) = found.gradient() else {
        return Vec::new();
    };
    match &history.origin {
        Origin::Leaf | Origin::Many { .. } => Vec::new(),
        Origin::Alias(outer) => vec![(Arc::clone(outer), 0, Contribution::Whole(gradient.clone()))],
        Origin::Result(many, at) => vec![(Arc::clone(many), *at, Contribution::Whole(gradient.clone()))],
        Origin::Op { op, inputs, output } => {
            let passed = passed(history, inputs, output, extent.level);
            if let [edge] = inputs.as_ref()
                && let Some(part) = Part::of(op, passed.ty(0).shape, || tag.scope(|| place(gradient)))
            {
                let edge = edge.history.as_ref();
                return edge
                    .map(|edge| (Arc::clone(edge), 0, Contribution::Part(part)))
                    .into_iter()
                    .collect();
            }
            let gradients = tag.scope(|| {
                if takes_constants(op) {
                    rule(op, &passed, gradient)
                } else {
                    rule(op, &passed, &place(gradient))
                }
            });
            distribute(inputs, gradients)
        }
        Origin::Custom { inputs, output, rule } => {
            let passed = passed(history, inputs, output, extent.level);
            let operands: Vec<Tensor> = (0..inputs.len()).map(|at| passed.input(at)).collect();
            let gradients = tag.scope(|| rule(&operands, &passed.output(), &place(gradient)));
            distribute(inputs, gradients)
        }
    }
}

fn passed<'a>(history: &'a Arc<History>, inputs: &'a [Edge], output: &'a Saved, level: Level) -> Passed<'a> {
    Passed {
        history,
        inputs,
        output,
        level,
    }
}

fn distribute(inputs: &[Edge], gradients: impl IntoIterator<Item = Option<Tensor>>) -> Pulled {
    let edges = inputs.iter().map(|edge| edge.history.as_ref());
    edges
        .zip(gradients)
        .filter_map(|(edge, gradient)| Some((Arc::clone(edge?), 0, Contribution::Whole(gradient?))))
        .collect()
}
