//! Rewrites that change no bit of a result: what is computed twice is shared, what is constant moves to where it is used,
//! what does nothing goes.

use super::{Graph, Node, NodeId, Op, Type};
use crate::hal::DType;
use crate::hal::ir::ScalarOp;
use crate::tensor::element::one;
use crate::tensor::shape::Shape;
use smallvec::SmallVec;
use std::collections::HashMap;

/// The graph after all rewrites, without nodes that no output needs.
#[must_use]
pub fn rewrite(graph: &Graph) -> Graph {
    let graph = graph.pruned();
    let mut rewriter = Rewriter {
        graph: Graph::new(),
        known: HashMap::new(),
    };
    let mut moved: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let inputs: SmallVec<[NodeId; 3]> = node.inputs.iter().map(|input| moved[input.index()]).collect();
        let id = match &node.op {
            Op::Input(_) => rewriter.graph.input(node.ty),
            op => rewriter.add(op.clone(), inputs, node),
        };
        moved.push(id);
    }
    for output in &graph.outputs {
        rewriter.graph.output(moved[output.index()]);
    }
    rewriter.graph.pruned()
}

struct Rewriter {
    graph: Graph,
    known: HashMap<(Op, SmallVec<[NodeId; 3]>), NodeId>,
}

impl Rewriter {
    /// The node that stands for `op` on `inputs`: a new one, or one that is there.
    fn add(&mut self, op: Op, inputs: SmallVec<[NodeId; 3]>, like: &Node) -> NodeId {
        if let Some(same) = self.nothing(&op, &inputs, like.ty) {
            return same;
        }
        let (op, inputs) = self.shorter(op, inputs, like.ty);
        if let Some(same) = self.nothing(&op, &inputs, like.ty) {
            return same;
        }
        let key = (op, inputs);
        if let Some(&id) = self.known.get(&key) {
            return id;
        }
        let id = self.graph.append(key.0.clone(), key.1.clone(), like.ty, like.tag);
        self.known.insert(key, id);
        id
    }

    /// The operand that the result is equal to.
    fn nothing(&self, op: &Op, inputs: &[NodeId], ty: Type) -> Option<NodeId> {
        let &first = inputs.first()?;
        let same = match op {
            Op::Cast(_) | Op::Reshape(_) | Op::Expand(_) | Op::Pad { .. } => self.graph.node(first).ty == ty,
            Op::Concat { .. } => inputs.len() == 1,
            Op::Permute(axes) => axes.iter().enumerate().all(|(at, &axis)| at == usize::from(axis)),
            Op::Slice { step, .. } => self.graph.node(first).ty == ty && step.iter().all(|&step| step == 1),
            Op::Map(op) => return self.neutral(*op, inputs),
            _ => false,
        };
        same.then_some(first)
    }

    /// The operand of a scalar op that the other operand leaves as it is, for every value and the sign of zero.
    fn neutral(&self, op: ScalarOp, inputs: &[NodeId]) -> Option<NodeId> {
        let is = |at: usize, value: fn(DType) -> u64| {
            self.splat(inputs[at])
                .is_some_and(|(dtype, bits)| bits == value(dtype))
        };
        let zero = |_| 0;
        let float = self.graph.dtype(inputs[0]).is_float();
        match op {
            ScalarOp::Mul if is(1, one) => Some(inputs[0]),
            ScalarOp::Mul if is(0, one) => Some(inputs[1]),
            ScalarOp::Div if is(1, one) => Some(inputs[0]),
            ScalarOp::Sub if is(1, zero) => Some(inputs[0]),
            ScalarOp::Add if !float && is(1, zero) => Some(inputs[0]),
            ScalarOp::Add if !float && is(0, zero) => Some(inputs[1]),
            ScalarOp::Neg | ScalarOp::Not => {
                let inner = self.graph.node(inputs[0]);
                (inner.op == Op::Map(op)).then(|| inner.inputs[0])
            }
            ScalarOp::Select if inputs[1] == inputs[2] => Some(inputs[1]),
            ScalarOp::Select => {
                let (_, bits) = self.splat(inputs[0])?;
                Some(if bits == 0 { inputs[2] } else { inputs[1] })
            }
            _ => None,
        }
    }

    /// Dtype and bits of a node that is one constant everywhere.
    fn splat(&self, id: NodeId) -> Option<(DType, u64)> {
        match self.graph.node(id).op {
            Op::Full { dtype, bits, .. } => Some((dtype, bits)),
            _ => None,
        }
    }

    /// An op that does the same in fewer steps.
    fn shorter(&self, op: Op, inputs: SmallVec<[NodeId; 3]>, ty: Type) -> (Op, SmallVec<[NodeId; 3]>) {
        let Some(&first) = inputs.first() else {
            return (op, inputs);
        };
        if op.is_view()
            && let Some((dtype, bits)) = self.splat(first)
        {
            let shape = ty.shape;
            return (Op::Full { dtype, bits, shape }, SmallVec::new());
        }
        if let Op::Pad { bits, shape, .. } = op
            && let Some((dtype, inside)) = self.splat(first)
            && inside == bits
        {
            return (Op::Full { dtype, bits, shape }, SmallVec::new());
        }
        let inner = self.graph.node(first);
        match (&op, &inner.op) {
            (Op::Reshape(shape), Op::Reshape(_)) => (Op::Reshape(*shape), inner.inputs.clone()),
            (Op::Expand(shape), Op::Expand(_)) if straight(self.graph.shape(inner.inputs[0]), shape) => {
                (Op::Expand(*shape), inner.inputs.clone())
            }
            (Op::Permute(outer), Op::Permute(before)) => {
                let axes = outer.iter().map(|&axis| before[usize::from(axis)]).collect();
                (Op::Permute(axes), inner.inputs.clone())
            }
            _ => (op, inputs),
        }
    }
}

/// Whether expanding in one step means the same as in two.
fn straight(from: &Shape, to: &Shape) -> bool {
    let new = to.len() - from.len();
    from.iter().zip(&to[new..]).all(|(&a, &b)| a == b || a == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::ir::ReduceOp;
    use crate::tensor::shape::Axes;
    use crate::tensor::tag::OpTag;

    fn push(graph: &mut Graph, op: Op, inputs: &[NodeId]) -> NodeId {
        graph.push(op, inputs, OpTag::NONE).unwrap()
    }

    fn full(graph: &mut Graph, value: f32, shape: Shape) -> NodeId {
        let bits = u64::from(value.to_bits());
        push(
            graph,
            Op::Full {
                dtype: DType::F32,
                bits,
                shape,
            },
            &[],
        )
    }

    #[test]
    fn equal_nodes_become_one_and_dead_ones_go() {
        let mut graph = Graph::new();
        let shape = Shape::of(&[2, 3]);
        let x = graph.input(Type::new(shape, DType::F32));
        let (a, b) = (
            push(&mut graph, Op::Map(ScalarOp::Exp), &[x]),
            push(&mut graph, Op::Map(ScalarOp::Exp), &[x]),
        );
        push(&mut graph, Op::Map(ScalarOp::Log), &[x]);
        let sum = push(&mut graph, Op::Map(ScalarOp::Add), &[a, b]);
        graph.output(sum);
        let small = rewrite(&graph);
        assert_eq!(small.nodes().len(), 3);
        assert_eq!(small.node(small.outputs()[0]).inputs[..], [NodeId(1), NodeId(1)]);
    }

    #[test]
    fn what_changes_nothing_goes_and_what_may_change_a_sign_stays() {
        let shape = Shape::of(&[2, 3]);
        let cases = [
            (ScalarOp::Mul, 1.0, true),
            (ScalarOp::Div, 1.0, true),
            (ScalarOp::Sub, 0.0, true),
            // -0 + 0 is 0.
            (ScalarOp::Add, 0.0, false),
            (ScalarOp::Mul, 0.0, false),
        ];
        for (op, value, goes) in cases {
            let mut graph = Graph::new();
            let x = graph.input(Type::new(shape, DType::F32));
            let value = full(&mut graph, value, shape);
            let y = push(&mut graph, Op::Map(op), &[x, value]);
            graph.output(y);
            let small = rewrite(&graph);
            assert_eq!(small.outputs()[0] == small.inputs()[0], goes, "{op}");
        }
    }

    #[test]
    fn views_join_and_constants_pass_through_them() {
        let mut graph = Graph::new();
        let x = graph.input(Type::new(Shape::of(&[2, 3]), DType::F32));
        let turned = push(&mut graph, Op::Permute([1, 0].into_iter().collect()), &[x]);
        let back = push(&mut graph, Op::Permute([1, 0].into_iter().collect()), &[turned]);
        let flat = push(&mut graph, Op::Reshape(Shape::of(&[6])), &[back]);
        let again = push(&mut graph, Op::Reshape(Shape::of(&[3, 2])), &[flat]);
        let one = full(&mut graph, 1.0, Shape::SCALAR);
        let ones = push(&mut graph, Op::Expand(Shape::of(&[3, 2])), &[one]);
        let y = push(&mut graph, Op::Map(ScalarOp::Mul), &[again, ones]);
        let sum = push(
            &mut graph,
            Op::Reduce {
                op: ReduceOp::Sum,
                axes: Axes::all(2),
            },
            &[y],
        );
        graph.output(sum);
        let small = rewrite(&graph);
        let ops: Vec<&str> = small.nodes().iter().map(|node| node.op.name()).collect();
        assert_eq!(ops, ["input", "reshape", "reduce_sum"]);
    }
}
