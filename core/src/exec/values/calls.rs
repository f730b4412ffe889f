//! Which nodes of a graph are one call of an op.

use crate::error::tag::OpTag;
use crate::graph::{Graph, NodeId, Op};
use crate::lower::Given;
use crate::record::scope::ScopeId;
use std::collections::HashMap;

/// A call of an op: its nodes, what they take from others, and what others take from them.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) tag: OpTag,
    pub(super) nodes: Vec<NodeId>,
    /// Values from outside, each once; constants are none.
    pub(super) operands: Vec<NodeId>,
    /// Nodes that no other node of the call uses.
    pub(super) results: Vec<NodeId>,
    /// Numbers that are the same everywhere.
    pub(super) constants: Vec<NodeId>,
}

/// What tells calls apart.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    /// Scope, serial number and op.
    Counted(ScopeId, u32, &'static str),
    /// An op that nobody counted is a call of its own.
    Node(usize),
    /// The whole graph is one.
    Whole,
}

/// The calls of a graph, those that were made first come first. Views move nothing, so that a call of nothing else is none.
pub(super) fn calls(graph: &Graph, given: &[Given], whole: Option<OpTag>) -> Vec<Call> {
    let mut places: HashMap<Key, usize> = HashMap::new();
    let mut calls: Vec<Call> = Vec::new();
    let mut of: Vec<Option<usize>> = vec![None; graph.nodes().len()];
    for (at, node) in graph.nodes().iter().enumerate() {
        if matches!(node.op, Op::Input(_) | Op::Full { .. }) {
            continue;
        }
        let tag = whole.unwrap_or(node.tag);
        let key = match (whole, tag.serial) {
            (Some(_), _) => Key::Whole,
            (None, 0) => Key::Node(at),
            (None, serial) => Key::Counted(tag.scope, serial, tag.op),
        };
        let place = *places.entry(key).or_insert_with(|| {
            calls.push(Call {
                tag: OpTag { primitive: 0, ..tag },
                nodes: Vec::new(),
                operands: Vec::new(),
                results: Vec::new(),
                constants: Vec::new(),
            });
            calls.len() - 1
        });
        calls[place].nodes.push(NodeId(at as u32));
        of[at] = Some(place);
    }
    for (place, call) in calls.iter_mut().enumerate() {
        call.connect(graph, given, |id| of[id.index()] == Some(place));
        if whole.is_some() {
            // A result may be used inside too.
            call.results = distinct(
                graph
                    .outputs()
                    .iter()
                    .copied()
                    .filter(|id| of[id.index()].is_some()),
            );
        }
    }
    calls.retain(|call| call.nodes.iter().any(|&id| !graph.node(id).op.is_view()));
    calls.sort_unstable_by_key(|call| (order(&call.tag), call.nodes[0]));
    calls
}

/// Calls that are made first come first: forward, backward, update.
pub(super) fn order(tag: &OpTag) -> (u8, i64) {
    let call = i64::from(tag.serial);
    // Numbers of calls count on within what runs forward, and back within what runs backward.
    match tag.scope {
        scope if scope.is_gradients() => (1, -call),
        scope if scope.is_update() => (2, call),
        _ => (0, call),
    }
}

fn distinct(ids: impl Iterator<Item = NodeId>) -> Vec<NodeId> {
    let mut distinct = Vec::new();
    ids.for_each(|id| {
        if !distinct.contains(&id) {
            distinct.push(id);
        }
    });
    distinct
}

/// Whether a node is one number everywhere.
pub(super) fn is_constant(graph: &Graph, given: &[Given], id: NodeId) -> bool {
    match graph.node(id).op {
        Op::Full { .. } => true,
        Op::Input(at) => matches!(given.get(at as usize), Some(Given::Scalar(_))),
        _ => false,
    }
}

impl Call {
    fn connect(&mut self, graph: &Graph, given: &[Given], is_own: impl Fn(NodeId) -> bool) {
        let inputs = || (self.nodes.iter()).flat_map(|&id| graph.node(id).inputs.iter().copied());
        let mut used: Vec<NodeId> = inputs().filter(|&id| is_own(id)).collect();
        used.sort_unstable();
        let outside = || inputs().filter(|&id| !is_own(id));
        let operands = distinct(outside().filter(|&id| !is_constant(graph, given, id)));
        let constants = distinct(outside().filter(|&id| is_constant(graph, given, id)));
        let results = self.nodes.iter().copied();
        self.results = results.filter(|id| used.binary_search(id).is_err()).collect();
        (self.operands, self.constants) = (operands, constants);
    }

    /// Whether each element of the results comes from the elements at the same place of the operands.
    pub(super) fn is_elementwise(&self, graph: &Graph) -> bool {
        (self.nodes.iter()).all(|&id| matches!(graph.node(id).op, Op::Map(_) | Op::Cast(_) | Op::Expand(_)))
    }

    /// Of each result, whether it is that of a reduction, scan or scatter: its numbers are combinations of many, and nothing has spread
    /// them over more places since. So a mean is one, and a softmax, which divides by a sum, is none.
    pub(super) fn reduced(&self, graph: &Graph) -> Vec<bool> {
        let mut reduced: Vec<NodeId> = Vec::new();
        for &id in &self.nodes {
            let node = graph.node(id);
            let extents = |id: NodeId| &graph.node(id).ty.shape;
            let passes = || node.inputs.iter().any(|input| reduced.contains(input));
            let is = match &node.op {
                Op::Scatter { .. } => true,
                Op::Reduce { axes, .. } => {
                    axes.iter().any(|axis| extents(node.inputs[0])[axis] > 1) || passes()
                }
                Op::Scan { axis, .. } => extents(node.inputs[0])[usize::from(*axis)] > 1 || passes(),
                Op::Expand(shape) => shape.elements() == extents(node.inputs[0]).elements() && passes(),
                Op::Matmul { .. }
                | Op::Attention { .. }
                | Op::Conv(_)
                | Op::ConvGradInput(..)
                | Op::ConvGradWeight(..)
                | Op::Control(_) => false,
                _ => passes(),
            };
            if is {
                reduced.push(id);
            }
        }
        self.results.iter().map(|id| reduced.contains(id)).collect()
    }
}
