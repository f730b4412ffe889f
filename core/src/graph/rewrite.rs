//! Rewrites that change no bit of a result: what is computed twice is shared, what is constant moves to where it is used,
//! what does nothing goes.

use super::{Graph, Node, NodeId, Op, Type};
use crate::hal::DType;
use crate::hal::ir::ScalarOp;
use crate::types::element::one;
use crate::types::shape::Shape;
use smallvec::SmallVec;
use std::collections::HashMap;

/// The graph after all rewrites, without nodes that no output and no effect needs.
#[must_use]
pub fn rewrite(graph: &Graph) -> Graph {
    rewrite_seen(graph, &mut |_, _| {})
}

/// As [`rewrite`]; `seen` gets the graph after each pass but the last, with the name of the pass.
pub(crate) fn rewrite_seen(graph: &Graph, seen: &mut dyn FnMut(&'static str, &Graph)) -> Graph {
    let graph = graph.pruned();
    seen("pruned", &graph);
    let mut rewriter = Rewriter {
        graph: Graph::new(),
        known: HashMap::new(),
    };
    let mut uses = vec![0_u32; graph.nodes.len()];
    let inputs = graph.nodes.iter().flat_map(|node| &node.inputs);
    for used in inputs.chain(&graph.outputs) {
        uses[used.index()] += 1;
    }
    let mut moved: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let inputs: SmallVec<[NodeId; 3]> = node.inputs.iter().map(|input| moved[input.index()]).collect();
        let alone = node.inputs.first().is_some_and(|input| uses[input.index()] == 1);
        let id = match &node.op {
            Op::Input(_) => rewriter.graph.input(node.ty),
            op => match rewriter.turned(op, &inputs, node, alone) {
                Some(turned) => turned,
                None => rewriter.add(op.clone(), inputs, node),
            },
        };
        moved.push(id);
    }
    for output in &graph.outputs {
        rewriter.graph.output(moved[output.index()]);
    }
    seen("shared", &rewriter.graph);
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
            return self.merged(same, like);
        }
        let (op, inputs) = self.shorter(op, inputs, like.ty);
        if let Some(same) = self.nothing(&op, &inputs, like.ty) {
            return self.merged(same, like);
        }
        if op.has_effects() {
            return self.graph.append(op, inputs, like.ty, like.tag);
        }
        let key = (op, inputs);
        if let Some(&id) = self.known.get(&key) {
            return self.merged(id, like);
        }
        let id = self.graph.append(key.0.clone(), key.1.clone(), like.ty, like.tag);
        self.known.insert(key, id);
        self.merged(id, like)
    }

    /// The node, which stands for `like` from now on.
    fn merged(&mut self, id: NodeId, like: &Node) -> NodeId {
        // A view is no work, and nobody computes an input.
        if !like.op.is_view() && !matches!(self.graph.node(id).op, Op::Input(_)) {
            self.graph.merge(id, like);
        }
        id
    }

    /// The operand that the result is equal to.
    fn nothing(&self, op: &Op, inputs: &[NodeId], ty: Type) -> Option<NodeId> {
        let &first = inputs.first()?;
        let same = match op {
            Op::Cast(_) | Op::Reshape(_) | Op::Expand(_) | Op::Pad { .. } => self.graph.node(first).ty == ty,
            Op::Concat { .. } => inputs.len() == 1,
            Op::Indices { .. } => true,
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

    /// A transposed product as the product of the transposed operands, each sum of which has the same terms in the same order; so
    /// the result lies as its users want it, and they can be the product's epilogue. `alone`: nobody else uses the product.
    fn turned(&mut self, op: &Op, inputs: &[NodeId], like: &Node, alone: bool) -> Option<NodeId> {
        let (Op::Permute(axes), &[product]) = (op, inputs) else {
            return None;
        };
        let rank = axes.len();
        let (front, last) = axes.split_at(rank.checked_sub(2)?);
        let swaps =
            last[0] as usize == rank - 1 && front.iter().enumerate().all(|(at, &axis)| at == axis as usize);
        let inner = self.graph.node(product);
        let Op::Matmul { accumulate, output } = inner.op else {
            return None;
        };
        if !swaps || !alone {
            return None;
        }
        let (inner, tag) = (inner.clone(), inner.tag);
        let others = inner.others.clone();
        let turned: SmallVec<[NodeId; 3]> = (inner.inputs.iter().rev())
            .map(|&operand| {
                let ty = self.graph.node(operand).ty;
                let mut shape = ty.shape;
                let (rows, columns) = (shape[rank - 2], shape[rank - 1]);
                shape = shape.with(rank - 2, columns).with(rank - 1, rows);
                let node = Node {
                    op: op.clone(),
                    inputs: SmallVec::from_slice(&[operand]),
                    ty: Type::new(shape, ty.dtype),
                    tag,
                    others: Vec::new(),
                };
                self.add(node.op.clone(), node.inputs.clone(), &node)
            })
            .collect();
        let node = Node {
            op: Op::Matmul { accumulate, output },
            inputs: turned,
            ty: like.ty,
            tag,
            others,
        };
        Some(self.add(node.op.clone(), node.inputs.clone(), &node))
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
    use crate::error::tag::OpTag;
    use crate::hal::ir::ReduceOp;
    use crate::types::shape::Axes;

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
    fn a_transposed_product_is_one_of_transposed_operands() {
        let turn = || Op::Permute([1, 0].into_iter().collect());
        let product = Op::Matmul {
            accumulate: DType::F32,
            output: DType::F32,
        };
        for used_twice in [false, true] {
            let mut graph = Graph::new();
            let a = graph.input(Type::new(Shape::of(&[5, 2]), DType::F32));
            let b = graph.input(Type::new(Shape::of(&[5, 3]), DType::F32));
            let turned = push(&mut graph, turn(), &[a]);
            let product = push(&mut graph, product.clone(), &[turned, b]);
            let y = push(&mut graph, turn(), &[product]);
            graph.output(y);
            if used_twice {
                graph.output(product);
            }
            let small = rewrite(&graph);
            let output = small.node(small.outputs()[0]);
            assert_eq!(*output.ty.shape, [3, 2]);
            assert_eq!(matches!(output.op, Op::Matmul { .. }), !used_twice);
            if !used_twice {
                assert_eq!(output.inputs[1], small.inputs()[0]);
            }
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
