//! What is computed again rather than stored.

use super::select::MAX_VIEWS;
use super::view::View;
use super::{Given, Lowering};
use crate::graph::{NodeId, Op};
use crate::hal::ir::Cost;
use crate::types::layout::Layout;
use std::collections::HashSet;

/// Points of a space from which on it matters how often something is computed.
const MANY: usize = 1 << 16;
/// Times that something is computed before a buffer and its kernel cost less.
const REPEATS: usize = 32;
/// Nodes that are looked at to know what another is made of.
const MOST_STEPS: usize = 64;

impl Lowering<'_> {
    /// Whether a kernel over this space would compute a node again and again at more than its buffer costs: one that changes along the
    /// innermost axis of what the kernel's root makes, or one of indices alone, such as the weights of positions. Other values that
    /// stand still along that axis are computed once for all of it.
    pub(super) fn is_repeated(&self, id: NodeId, view: &View, (root, space): (NodeId, &[usize])) -> bool {
        let (shape, points) = (self.graph.shape(id), space.iter().product::<usize>());
        if points < MANY || shape.elements().saturating_mul(REPEATS) > points {
            return false;
        }
        let long = |&axis: &usize| space[axis] != 1;
        let innermost = match self.channels_last.get(&root) {
            Some(layout) if self.graph.shape(root)[..] == *space => (0..space.len())
                .filter(long)
                .min_by_key(|&axis| layout.strides()[axis]),
            _ => (0..space.len()).rev().find(long),
        };
        let unused = view.unused(space, shape);
        let Some((unused, innermost)) = unused.zip(innermost) else {
            return false;
        };
        (!unused.contains(&innermost) || self.is_of_indices(id)) && !self.is_cheap(id, 3)
    }

    /// Whether a node is computed from indices and constants, in few steps.
    fn is_of_indices(&self, id: NodeId) -> bool {
        let (mut open, mut steps) = (vec![id], 0);
        while let Some(id) = open.pop() {
            let node = self.graph.node(id);
            let known = match &node.op {
                Op::Full { .. } | Op::Index { .. } | Op::Map(_) | Op::Cast(_) => true,
                Op::Input(at) => matches!(self.given[*at as usize], Given::Scalar(_)),
                op => op.is_view(),
            };
            steps += 1;
            if !known || self.marked[id.index()] || steps > MOST_STEPS {
                return false;
            }
            open.extend(&node.inputs);
        }
        true
    }

    /// Whether computing the node again costs less than a buffer: few quick ops on one buffer at most.
    pub(super) fn is_cheap(&self, id: NodeId, budget: u32) -> bool {
        let mut leaves = HashSet::new();
        self.cheap_walk(id, &mut { budget }, &mut leaves) && leaves.len() <= 1
    }

    fn cheap_walk(&self, id: NodeId, budget: &mut u32, leaves: &mut HashSet<NodeId>) -> bool {
        let mut id = id;
        let mut views = 0;
        while self.graph.node(id).op.is_view() {
            id = self.graph.node(id).inputs[0];
            views += 1;
            if views > MAX_VIEWS {
                return false;
            }
        }
        let node = self.graph.node(id);
        match &node.op {
            Op::Full { .. } | Op::Index { .. } => return true,
            Op::Input(at) => {
                if let Given::Buffer(_) = self.given[*at as usize] {
                    leaves.insert(id);
                }
                return true;
            }
            Op::Map(op) if op.cost() == Cost::Step && *budget > 0 => *budget -= 1,
            Op::Cast(_) if *budget > 0 => *budget -= 1,
            _ if self.marked[id.index()] => {
                leaves.insert(id);
                return true;
            }
            _ => return false,
        }
        node.inputs
            .iter()
            .all(|&input| self.cheap_walk(input, budget, leaves))
    }

    /// Layout of a node's buffer: an argument's, or that of the buffer that a kernel makes. `None` for a scalar argument.
    pub(super) fn buffer_layout(&self, id: NodeId) -> Option<Layout> {
        match self.graph.node(id).op {
            Op::Input(at) => match self.given[at as usize] {
                Given::Buffer(layout) => Some(layout),
                Given::Scalar(_) => None,
            },
            _ => Some(self.made_layout(id)),
        }
    }
}
