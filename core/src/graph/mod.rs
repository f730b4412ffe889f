//! Graphs: ops in an order in which each comes after its operands.
//!
//! `lazy tensors -> Graph -> rewrite -> lower -> Program -> Executable`

mod control;
mod dot;
mod effect;
mod fast;
mod infer;
mod op;
mod ordered;
mod parse;
mod rewrite;
mod rows;
#[cfg(test)]
mod tests;
mod text;
mod view;

pub use control::{Body, Control};
pub use effect::{Callback, Printed};
pub use fast::{FastOps, fast_math, fast_math_of};
pub use infer::{Type, infer};
pub use op::{ConvAttributes, Op, ScatterMode};
pub use rewrite::rewrite;
pub(crate) use rewrite::rewrite_seen;
pub(crate) use view::view_layout;

use crate::error::failure::Refusal;
use crate::error::tag::OpTag;
use crate::hal::DType;
use crate::types::shape::Shape;
use smallvec::SmallVec;

/// Index of a node in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl NodeId {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One value of a graph.
#[derive(Clone, Debug)]
pub struct Node {
    /// What computes it.
    pub op: Op,
    /// Operands, earlier in the graph.
    pub inputs: SmallVec<[NodeId; 3]>,
    /// Its type.
    pub ty: Type,
    /// The op that the user called, and where.
    pub tag: OpTag,
    /// Those of equal nodes that became this one.
    pub others: Vec<OpTag>,
}

/// A computation: inputs to outputs. Its only effects are [`Control::Print`] and [`Control::Inspect`]. [`Jit::graph`](crate::Jit::graph) gives that of a function, [`Graph::to_text`] and
/// [`Graph::to_dot`] show it, [`Graph::call`] runs it.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    inputs: Vec<NodeId>,
    outputs: Vec<NodeId>,
}

impl Node {
    /// `Default/head/gelu-op3.exp-2`: the user's call, and behind a point the primitive and its number in the call. The primitive that
    /// the call is named after has the name of the call.
    ///
    /// ```
    /// use thalweg::{Context, DType, Tensor, jit};
    /// let x = Tensor::ones(3, DType::F32, &Context::new("cpu")?);
    /// let graph = jit(|x: &Tensor| (x + 1.0).softmax(0)).graph(&x)?;
    /// let names: Vec<String> = graph.nodes().iter().map(|node| node.name()).collect();
    /// assert!(names.contains(&"Default/add-op1".to_owned()));
    /// assert!(names.contains(&"Default/softmax-op2.exp-5".to_owned()), "{names:?}");
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn name(&self) -> String {
        match self.tag.primitive {
            0 => self.tag.name(),
            number => format!("{}.{}-{number}", self.tag.name(), self.op.name()),
        }
    }

    /// The ops that it computes.
    pub fn tags(&self) -> impl Iterator<Item = &OpTag> {
        std::iter::once(&self.tag).chain(&self.others)
    }
}

impl Graph {
    /// A graph of nothing.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// Declares the next input.
    pub fn input(&mut self, ty: Type) -> NodeId {
        let op = Op::Input(self.inputs.len() as u32);
        let id = self.append(op, SmallVec::new(), ty, OpTag::NONE);
        self.inputs.push(id);
        id
    }

    /// Adds an op.
    ///
    /// # Errors
    /// As [`infer`]; an operand that is no node of this graph.
    pub fn push(&mut self, op: Op, inputs: &[NodeId], tag: OpTag) -> Result<NodeId, Refusal> {
        let ty = |input: &NodeId| match self.nodes.get(input.index()) {
            Some(node) => Ok(node.ty),
            None => Err(Refusal::new(format!(
                "node {} of a graph of {} nodes",
                input.index(),
                self.nodes.len()
            ))
            .help("operands are nodes that this graph's `input` and `push` returned")),
        };
        let types: SmallVec<[Type; 4]> = inputs.iter().map(ty).collect::<Result<_, _>>()?;
        let ty = infer(&op, &types)?;
        Ok(self.append(op, inputs.into(), ty, tag))
    }

    /// Adds a node of another graph, whose operands are `inputs` here.
    pub(crate) fn copy(&mut self, node: &Node, inputs: SmallVec<[NodeId; 3]>) -> NodeId {
        let id = self.append(node.op.clone(), inputs, node.ty, node.tag);
        self.nodes[id.index()].others.clone_from(&node.others);
        id
    }

    fn append(&mut self, op: Op, inputs: SmallVec<[NodeId; 3]>, ty: Type, tag: OpTag) -> NodeId {
        self.nodes.push(Node {
            op,
            inputs,
            ty,
            tag,
            others: Vec::new(),
        });
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// The node stands for `node` of another graph too.
    fn merge(&mut self, id: NodeId, node: &Node) {
        let into = &mut self.nodes[id.index()];
        // Calls that nobody counts are not told apart.
        for tag in std::iter::once(&node.tag).chain(&node.others) {
            if tag.call != 0 && !into.tags().any(|known| known.is_call(tag)) {
                into.others.push(*tag);
            }
        }
    }

    /// Declares the next output.
    pub fn output(&mut self, id: NodeId) {
        self.outputs.push(id);
    }

    /// All nodes in order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// One node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// The inputs in the order of the arguments.
    pub fn inputs(&self) -> &[NodeId] {
        &self.inputs
    }

    /// The outputs.
    pub fn outputs(&self) -> &[NodeId] {
        &self.outputs
    }

    /// Extents of a node.
    pub fn shape(&self, id: NodeId) -> &Shape {
        &self.node(id).ty.shape
    }

    /// Element type of a node.
    pub fn dtype(&self, id: NodeId) -> DType {
        self.node(id).ty.dtype
    }
}

impl Graph {
    /// The same nodes, and no output yet.
    pub(crate) fn without_outputs(&self) -> Graph {
        Graph {
            nodes: self.nodes.clone(),
            inputs: self.inputs.clone(),
            outputs: Vec::new(),
        }
    }

    /// The graph without nodes that no output and no effect needs; inputs stay.
    #[must_use]
    pub fn pruned(&self) -> Graph {
        let mut live = vec![false; self.nodes.len()];
        let wanted = self.outputs.iter().chain(&self.inputs);
        wanted.for_each(|id| live[id.index()] = true);
        for (at, node) in self.nodes.iter().enumerate().rev() {
            if live[at] || node.op.has_effects() {
                live[at] = true;
                node.inputs.iter().for_each(|input| live[input.index()] = true);
            }
        }
        let mut graph = Graph::new();
        let mut moved = vec![NodeId(0); self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate().filter(|&(at, _)| live[at]) {
            let inputs = node.inputs.iter().map(|input| moved[input.index()]).collect();
            moved[at] = graph.copy(node, inputs);
        }
        graph.inputs = self.inputs.iter().map(|id| moved[id.index()]).collect();
        graph.outputs = self.outputs.iter().map(|id| moved[id.index()]).collect();
        graph
    }
}
