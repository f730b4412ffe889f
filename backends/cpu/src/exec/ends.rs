//! Indices of which negative ones count from the end, as one step.

use super::phases::Phases;
use std::collections::{BTreeMap, BTreeSet};
use thalweg_hal::DType;
use thalweg_hal::ir::{Info, Kernel, Node, NodeId, ScalarOp};

/// Selections that are indices of which negative ones count from the end: the index and the extent that is added. Their conditions and
/// sums are no steps.
#[derive(Default)]
pub(super) struct Ends {
    of: BTreeMap<usize, [NodeId; 2]>,
    without_step: BTreeSet<usize>,
}

impl Ends {
    /// The selections `index < 0 ? index + extent : index` whose parts nobody else asks for.
    pub(super) fn of(kernel: &Kernel, info: &Info, phases: &Phases, uses: &[(usize, usize)]) -> Ends {
        let mut ends = Ends::default();
        let op = |id: NodeId| match kernel.nodes[id.index()] {
            Node::Op { op, args } => Some((op, args)),
            _ => None,
        };
        let is_zero = |id: NodeId| matches!(kernel.nodes[id.index()], Node::Const { bits: 0, .. });
        for i in 0..kernel.nodes.len() {
            let &Node::Op {
                op: ScalarOp::Select,
                args: [below, sum, index],
            } = &kernel.nodes[i]
            else {
                continue;
            };
            let parts = [below.index(), sum.index()];
            let own = |at: usize| {
                uses[at].0 == 1
                    && phases.needed[at]
                    && !phases.kept[at]
                    && phases.uniform[at] == phases.uniform[i]
            };
            let (Some((ScalarOp::Lt, [low, zero, _])), Some((ScalarOp::Add, [a, b, _]))) =
                (op(below), op(sum))
            else {
                continue;
            };
            if info.dtypes[i] == Some(DType::I64)
                && low == index
                && is_zero(zero)
                && (a == index || b == index)
                && parts.into_iter().all(own)
            {
                ends.of.insert(i, [index, if a == index { b } else { a }]);
                ends.without_step.extend(parts);
            }
        }
        ends
    }

    /// The index and the extent of a selection, if it is one.
    pub(super) fn at(&self, i: usize) -> Option<[NodeId; 2]> {
        self.of.get(&i).copied()
    }

    /// Whether a node is part of such a selection alone.
    pub(super) fn has_no_step(&self, i: usize) -> bool {
        self.without_step.contains(&i)
    }
}
