//! Which nodes are computed from which.

use super::Lowering;
use crate::graph::NodeId;
use std::collections::BTreeSet;

/// Nodes that one question looks at; a question that needs more is answered by "yes", which costs a buffer and no more.
const MOST: usize = 1 << 14;

impl Lowering<'_> {
    /// Whether a node of `nodes` is `other` or is computed from it. Also true where finding out takes too long.
    pub(super) fn may_depend(&self, nodes: &BTreeSet<NodeId>, other: NodeId) -> bool {
        // Operands have lower numbers, so that only nodes from `other` on are looked at.
        let mut stack: Vec<NodeId> = nodes.iter().copied().filter(|&node| node >= other).collect();
        let Some(last) = stack.iter().max() else {
            return false;
        };
        let mut seen = vec![0_u64; (last.index() - other.index()) / 64 + 1];
        let mut looked = 0;
        while let Some(node) = stack.pop() {
            if node == other || looked == MOST {
                return true;
            }
            let at = node.index() - other.index();
            let (word, bit) = (&mut seen[at / 64], 1 << (at % 64));
            if *word & bit != 0 {
                continue;
            }
            *word |= bit;
            looked += 1;
            let inputs = &self.graph.node(node).inputs;
            stack.extend(inputs.iter().copied().filter(|&input| input >= other));
        }
        false
    }
}
