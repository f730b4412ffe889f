//! Other orders of the same nodes.

use super::{Graph, NodeId, Op};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

impl Graph {
    /// The same graph with its inputs first and then its nodes by `key`, as far as each comes after its operands; and for each node of
    /// this one its place there.
    pub(crate) fn ordered<K: Ord>(&self, key: impl Fn(NodeId) -> K) -> (Graph, Vec<NodeId>) {
        let ids = || (0..self.nodes.len()).map(|at| NodeId(at as u32));
        let mut missing: Vec<usize> = self.nodes.iter().map(|node| node.inputs.len()).collect();
        let mut users: Vec<SmallVec<[NodeId; 4]>> = vec![SmallVec::new(); self.nodes.len()];
        for id in ids() {
            for input in &self.node(id).inputs {
                users[input.index()].push(id);
            }
        }
        let is_input = |id: NodeId| matches!(self.node(id).op, Op::Input(_));
        let entry = |id: NodeId| Reverse((!is_input(id), key(id), id));
        let mut ready: BinaryHeap<_> = ids().filter(|id| missing[id.index()] == 0).map(entry).collect();
        let mut graph = Graph::new();
        let mut moved = vec![NodeId(0); self.nodes.len()];
        while let Some(Reverse((.., id))) = ready.pop() {
            let node = self.node(id);
            let inputs = node.inputs.iter().map(|input| moved[input.index()]).collect();
            moved[id.index()] = graph.copy(node, inputs);
            for &user in &users[id.index()] {
                missing[user.index()] -= 1;
                if missing[user.index()] == 0 {
                    ready.push(entry(user));
                }
            }
        }
        graph.inputs = self.inputs.iter().map(|id| moved[id.index()]).collect();
        graph.outputs = self.outputs.iter().map(|id| moved[id.index()]).collect();
        (graph, moved)
    }

    /// The nodes as the calls came: those of the way back last, the rest by the numbers of their calls.
    pub(crate) fn by_calls(&self) -> Graph {
        self.ordered(|id| {
            let tag = self.node(id).tag;
            (tag.is_gradient(), tag.call, tag.primitive)
        })
        .0
    }
}
