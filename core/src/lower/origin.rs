//! Which ops a step computes, and what that costs.

use super::{Lowering, Step};
use crate::error::tag::OpTag;
use crate::graph::{Graph, Node, NodeId, Op};
use crate::hal::ir::Cost;

/// What a step comes from, and estimates of its work.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin {
    /// The calls of ops that it computes, each once.
    pub(crate) parts: Vec<Part>,
    /// Arithmetic operations.
    pub(crate) flops: u64,
    /// Bytes that are read and written.
    pub(crate) bytes: u64,
    /// The part that each node of the kernel, or of the epilogue of the library op, belongs to; beyond all parts for none.
    nodes: Box<[u16]>,
}

/// A call of an op that a step computes, or a part of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) tag: OpTag,
    /// Estimated, in units of a quick scalar op.
    pub(crate) cost: u64,
}

/// A step, and the node of the graph that each node of its kernel, or of the epilogue of its library op, computes a part of.
pub(super) type Emitted = (Step, Vec<NodeId>);

impl Origin {
    /// Of work that comes from one op.
    pub(crate) fn of(tag: OpTag) -> Origin {
        Origin {
            parts: vec![Part { tag, cost: 1 }],
            ..Origin::default()
        }
    }

    /// Notes which nodes of the graph the nodes of the kernel come from.
    pub(super) fn set_nodes(&mut self, graph: &Graph, nodes: &[NodeId]) {
        let part = |&id: &NodeId| {
            let tag = graph.node(id).tag;
            let at = self.parts.iter().position(|part| part.tag.is_call(&tag));
            at.and_then(|at| u16::try_from(at).ok()).unwrap_or(u16::MAX)
        };
        self.nodes = nodes.iter().map(part).collect();
    }

    /// The call that node `node` of `count` computes a part of. What stands before the nodes that are known is the library op of a
    /// definition, which the first of them stands for.
    pub(crate) fn of_node(&self, node: usize, count: usize) -> Option<&OpTag> {
        let before = count.saturating_sub(self.nodes.len());
        let part = match (self.nodes.get(node.saturating_sub(before)), self.parts.len()) {
            (Some(&part), _) => usize::from(part),
            (None, 1) => 0,
            (None, _) => return None,
        };
        self.parts.get(part).map(|part| &part.tag)
    }

    /// Says which call it is, where what runs by itself was lowered without a name.
    pub(crate) fn name(&mut self, call: OpTag) {
        let unnamed = self.parts.iter_mut().filter(|part| part.tag.op.is_empty());
        unnamed.for_each(|part| part.tag = call);
    }

    fn add(&mut self, tag: OpTag, cost: u64) {
        match self.parts.iter_mut().find(|part| part.tag.is_call(&tag)) {
            Some(part) => part.cost = part.cost.saturating_add(cost),
            None => self.parts.push(Part { tag, cost }),
        }
    }

    /// A node that is computed. Its cost counts for the first of equal ones: the others came for free, and have a part without cost.
    pub(super) fn compute(&mut self, graph: &Graph, id: NodeId) {
        let node = graph.node(id);
        let work = work(graph, node);
        self.flops = self.flops.saturating_add(work.flops);
        for (at, tag) in node.tags().enumerate() {
            self.add(*tag, if at == 0 { work.cost } else { 0 });
        }
    }
}

impl Lowering<'_> {
    /// Of a kernel that computes nodes, reads others from buffers and writes some to them.
    pub(super) fn origin(
        &self,
        computed: impl Iterator<Item = NodeId>,
        read: impl Iterator<Item = NodeId>,
        written: impl Iterator<Item = NodeId>,
    ) -> Origin {
        let mut origin = Origin::default();
        let mut computed: Vec<NodeId> = computed.filter(|&id| is_work(self.graph.node(id))).collect();
        computed.sort_unstable();
        computed.into_iter().for_each(|id| origin.compute(self.graph, id));
        origin.bytes = (read.chain(written))
            .map(|id| bytes(self.graph.node(id)))
            .fold(0, u64::saturating_add);
        origin
    }
}

/// Whether a node is work of a call: neither given nor another way to look at something. A constant is where a call made it.
fn is_work(node: &Node) -> bool {
    match node.op {
        Op::Input(_) | Op::Control(_) | Op::Result { .. } => false,
        Op::Full { .. } => node.tag.call != 0,
        _ => !node.op.is_view(),
    }
}

fn bytes(node: &Node) -> u64 {
    node.ty.shape.elements() as u64 * node.ty.dtype.size() as u64
}

/// An estimate of what a node takes.
struct Work {
    flops: u64,
    cost: u64,
}

fn work(graph: &Graph, node: &Node) -> Work {
    let elements = node.ty.shape.elements() as u64;
    let operand = |at: usize| graph.shape(node.inputs[at]);
    let extent = |at: usize, axis: usize| operand(at).get(axis).copied().unwrap_or(1) as u64;
    let of_operand = || operand(0).elements() as u64;
    // Both operands of a product of matrices or of a convolution: a product and a sum for each.
    let products = |count: u64| Work {
        flops: count.saturating_mul(2),
        cost: count.saturating_mul(2),
    };
    let arithmetic = |count: u64, each: u64| Work {
        flops: count,
        cost: count.saturating_mul(each),
    };
    // What is only moved.
    let moved = |count: u64| Work {
        flops: 0,
        cost: count,
    };
    // Inputs of a group and taps of a weight.
    let taps = |at: usize| {
        operand(at)
            .iter()
            .skip(1)
            .map(|&extent| extent as u64)
            .product::<u64>()
    };
    match &node.op {
        Op::Map(op) => {
            let each = match op.cost() {
                Cost::Step => 1,
                Cost::Quotient => 4,
                Cost::Function => 8,
                Cost::LongFunction | Cost::Power | Cost::Remainder => 16,
            };
            arithmetic(elements, each)
        }
        Op::Rand => arithmetic(elements, 40),
        Op::Reduce { .. } => arithmetic(of_operand(), 1),
        Op::Scan { .. } => arithmetic(elements, 1),
        Op::Sort { axis, .. } | Op::ArgSort { axis, .. } => {
            let wanted = (node.ty.shape[usize::from(*axis)] as u64).max(2);
            moved(of_operand().saturating_mul(u64::from(wanted.ilog2()) * 4))
        }
        Op::Matmul { .. } => products(elements.saturating_mul(extent(0, operand(0).len() - 1))),
        Op::Attention { .. } => {
            let rank = operand(0).len();
            let (queries, depth) = (of_operand() / extent(0, rank - 1).max(1), extent(0, rank - 1));
            let (keys, width) = (extent(1, rank - 2), extent(2, rank - 1));
            products(queries.saturating_mul(keys).saturating_mul(depth + width))
        }
        Op::Conv(_) => products(elements.saturating_mul(taps(1))),
        Op::ConvGradInput(..) => products(of_operand().saturating_mul(taps(1))),
        Op::ConvGradWeight(..) => {
            let taps: u64 = node
                .ty
                .shape
                .iter()
                .skip(1)
                .map(|&extent| extent as u64)
                .product();
            products((operand(1).elements() as u64).saturating_mul(taps))
        }
        Op::Scatter { .. } => moved(elements + operand(2).elements() as u64),
        Op::Cast(_) | Op::Index { .. } | Op::Gather { .. } | Op::Pad { .. } | Op::Concat { .. } => {
            moved(elements)
        }
        Op::Input(_)
        | Op::Full { .. }
        | Op::Permute(_)
        | Op::Expand(_)
        | Op::Reshape(_)
        | Op::Slice { .. }
        | Op::Indices { .. }
        | Op::Window { .. }
        | Op::Control(_)
        | Op::Result { .. } => moved(0),
    }
}
