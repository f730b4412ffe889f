//! Which values need flags, since nothing that comes of them would raise one.

use crate::graph::{Graph, Node, NodeId, Op};
use crate::hal::ir::{ReduceOp, ScalarOp};

/// Those of `stored` whose NaN and infinities do not surely reach another value that has a flag, by node. With flags for these, what
/// is not finite in any of `stored` raises one.
pub(super) fn uncovered(graph: &Graph, stored: impl Iterator<Item = NodeId>) -> Vec<bool> {
    let count = graph.nodes().len();
    let mut is_stored = vec![false; count];
    stored.for_each(|id| is_stored[id.index()] = true);
    // Whether a flag is raised by what is not finite in a node. Users come after their operands.
    let mut covered = vec![false; count];
    let mut wanted = vec![false; count];
    for at in (0..count).rev() {
        if is_stored[at] && !covered[at] {
            wanted[at] = true;
            covered[at] = true;
        }
        let node = &graph.nodes()[at];
        if !covered[at] {
            continue;
        }
        for (place, input) in node.inputs.iter().enumerate() {
            covered[input.index()] |= passes_on(node, place);
        }
    }
    wanted
}

/// Whether the result has an element that is not finite wherever the operand at `place` has one.
fn passes_on(node: &Node, place: usize) -> bool {
    if !node.ty.dtype.is_float() || node.ty.dtype.is_storage() || node.ty.shape.elements() == 0 {
        return false;
    }
    match &node.op {
        Op::Map(op) => passes_on_by(*op, place),
        // Products with 0 are NaN, and so are sums of infinities.
        Op::Reduce { op, .. } | Op::Scan { op, .. } => matches!(op, ReduceOp::Sum | ReduceOp::Prod),
        Op::Cast(_)
        | Op::Permute(_)
        | Op::Expand(_)
        | Op::Reshape(_)
        | Op::Pad { .. }
        | Op::Concat { .. }
        | Op::Indices { .. }
        | Op::Matmul { .. } => true,
        // They leave out elements, or weigh them.
        Op::Input(_)
        | Op::Full { .. }
        | Op::Index { .. }
        | Op::Rand
        | Op::Slice { .. }
        | Op::Window { .. }
        | Op::Gather { .. }
        | Op::Scatter { .. }
        | Op::Attention { .. }
        | Op::Conv(_)
        | Op::ConvGradInput(..)
        | Op::ConvGradWeight(..)
        | Op::Sort { .. }
        | Op::ArgSort { .. }
        | Op::Control(_)
        | Op::Result { .. } => false,
    }
}

fn passes_on_by(op: ScalarOp, place: usize) -> bool {
    // Others may bound infinities, or leave an operand out: one flag too many is right, one too few is not.
    match op {
        ScalarOp::Div => place == 0,
        op => matches!(
            op,
            ScalarOp::Neg
                | ScalarOp::Abs
                | ScalarOp::Floor
                | ScalarOp::Ceil
                | ScalarOp::Trunc
                | ScalarOp::Round
                | ScalarOp::Sqrt
                | ScalarOp::Log
                | ScalarOp::Log1p
                | ScalarOp::Sin
                | ScalarOp::Cos
                | ScalarOp::Cbrt
                | ScalarOp::Add
                | ScalarOp::Sub
                | ScalarOp::Mul
                | ScalarOp::Fma
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::tag::OpTag;
    use crate::graph::Type;
    use crate::hal::DType;
    use crate::types::shape::{Axes, Shape};

    #[test]
    fn what_hides_infinities_has_a_flag_before_it() {
        let mut graph = Graph::new();
        let x = graph.input(Type::new(Shape::of(&[4]), DType::F32));
        let mut push = |op: Op, inputs: &[NodeId]| graph.push(op, inputs, OpTag::NONE).unwrap();
        let doubled = push(Op::Map(ScalarOp::Add), &[x, x]);
        let bounded = push(Op::Map(ScalarOp::Tanh), &[doubled]);
        let scaled = push(Op::Map(ScalarOp::Mul), &[bounded, x]);
        let quotient = push(Op::Map(ScalarOp::Div), &[x, scaled]);
        let op = ReduceOp::Sum;
        let sum = push(
            Op::Reduce {
                op,
                axes: Axes::one(0),
            },
            &[quotient],
        );
        graph.output(sum);
        let all = (0..graph.nodes().len() as u32).map(NodeId);
        let wanted = uncovered(&graph, all.filter(|&id| id != x));
        let flagged: Vec<usize> = (0..wanted.len()).filter(|&at| wanted[at]).collect();
        // Tanh bounds the one, and a denominator may be infinite.
        assert_eq!(flagged, [doubled, scaled, sum].map(NodeId::index));
    }
}
