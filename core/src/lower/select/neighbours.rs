//! What a node has next to it: library ops that it could end, windows that read it.

use super::super::view::{Affine, View};
use super::Selector;
use crate::graph::{NodeId, Op};
use std::collections::BTreeSet;

/// Users that are looked at to know whether a reduction goes back to elements.
const MOST_STEPS: usize = 64;

impl Selector<'_> {
    /// Whether a node is computed better behind another library op than behind that of this kernel: either writes one buffer, but a
    /// sum of many products then keeps one sum and not all of the products.
    pub(super) fn ends_another(&mut self, id: NodeId) -> bool {
        let (lowering, shape) = (self.lowering, self.lowering.graph.shape(id));
        let is_library = |operand: &NodeId| {
            let node = lowering.graph.node(*operand);
            matches!(node.op, Op::Matmul { .. } | Op::Conv(_))
                && node.ty.shape == *shape
                && lowering.users[operand.index()].len() == 1
                && !lowering.outputs.contains(operand)
                && !self.findings.loaded.contains(operand)
        };
        let found = lowering
            .graph
            .node(id)
            .inputs
            .iter()
            .find(|operand| is_library(operand));
        let alone = self.result.inner.is_empty() && self.result.extras.is_empty();
        match (self.before, found) {
            (Some(before), Some(&found)) => before != found,
            (None, Some(&found)) if alone => {
                self.before = Some(found);
                false
            }
            _ => false,
        }
    }

    /// Whether a reduction is left to a kernel that reads the same elements again: here nothing needs them but its result.
    pub(super) fn is_left(&self, id: NodeId) -> bool {
        let graph = self.lowering.graph;
        let elements = graph.shape(id).elements();
        if !self.result.inner.is_empty() || graph.shape(self.result.root).elements() > elements {
            return false;
        }
        let (mut open, mut steps) = (vec![id], 0);
        while let Some(at) = open.pop() {
            for &user in &self.lowering.users[at.index()] {
                let op = &graph.node(user).op;
                if matches!(op, Op::Expand(_)) && graph.shape(user).elements() > elements {
                    return true;
                }
                if op.is_view() || matches!(op, Op::Map(_) | Op::Cast(_)) {
                    open.push(user);
                }
                steps += 1;
            }
            if steps > MOST_STEPS {
                return false;
            }
        }
        false
    }

    /// Whether what a reshape turns is computed better before a kernel with reductions: they would walk a finer space, and compute it
    /// once in each of their walks.
    pub(super) fn is_apart(&self, reshape: NodeId) -> bool {
        let graph = self.lowering.graph;
        let mut at = reshape;
        while graph.node(at).op.is_view() && !self.lowering.marked[at.index()] {
            at = graph.node(at).inputs[0];
        }
        let computed = matches!(graph.node(at).op, Op::Map(_) | Op::Cast(_) | Op::Gather { .. });
        !self.result.inner.is_empty() && computed && !self.lowering.marked[at.index()]
    }

    /// Whether windows of a padded node are reduced here, and nothing else needs its buffer.
    pub(super) fn are_windows(&self, id: NodeId, views: &[View], low: &[usize], shape: &[usize]) -> bool {
        let lowering = self.lowering;
        let needed = lowering.marked[id.index()] || lowering.outputs.contains(&id);
        let operand = lowering.resolve(lowering.graph.node(id).inputs[0]).1;
        let windows = |view: &View| {
            let mut axes = view.axes.iter().enumerate();
            axes.any(|(at, affine)| {
                let grows = low[at] > 0 || shape[at] != operand.shape[at];
                let inner = |(axis, _): (usize, i64)| self.result.inner.contains(&axis);
                let affine = affine.iter().filter(|_| grows);
                affine
                    .flat_map(Affine::terms)
                    .map(inner)
                    .collect::<BTreeSet<_>>()
                    .len()
                    == 2
            })
        };
        !needed
            && operand.shape.elements() > 0
            && operand.strides().iter().all(|&stride| stride >= 0)
            && (views.iter()).all(|view| view.axes.iter().all(Option::is_some) && windows(view))
    }
}
