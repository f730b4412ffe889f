//! Random graphs.

use super::check;
use crate::graph::{Graph, NodeId, Op, Type};
use crate::hal::DType;
use crate::hal::ir::{ReduceOp, ScalarOp};
use crate::random::Mt19937;
use crate::tensor::shape::{Axes, Shape};
use crate::tensor::tag::OpTag;

pub(super) struct Dice(pub(super) Mt19937);

impl Dice {
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0.next_u32() as usize % end
    }

    pub(super) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// One more node, or nothing where what was thrown does not fit.
fn grow(graph: &mut Graph, dice: &mut Dice) -> Option<NodeId> {
    let floats: Vec<NodeId> = (0..graph.nodes().len() as u32)
        .map(NodeId)
        .filter(|&id| graph.dtype(id) == DType::F32)
        .collect();
    // Late nodes are chosen more often, so that chains grow.
    let count = floats.len();
    let near = 1 + dice.below(count);
    let x = floats[count - 1 - dice.below(near)];

    let shape = *graph.shape(x);
    let rank = shape.len();
    let like: Vec<NodeId> = floats
        .iter()
        .copied()
        .filter(|&id| *graph.shape(id) == shape)
        .collect();
    let (op, inputs) = match dice.below(16) {
        0 | 1 => (
            Op::Map(dice.of(&[ScalarOp::Tanh, ScalarOp::Neg, ScalarOp::Abs])),
            vec![x],
        ),
        2..=4 => {
            let op = dice.of(&[ScalarOp::Add, ScalarOp::Sub, ScalarOp::Mul, ScalarOp::Max]);
            (Op::Map(op), vec![x, dice.of(&like)])
        }
        5 | 6 if rank > 0 => {
            let axes: Axes = (0..rank).filter(|_| dice.below(2) == 0).collect();
            let axes = if axes.is_empty() {
                Axes::one(dice.below(rank))
            } else {
                axes
            };
            let op = dice.of(&[ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min]);
            let wide = shape;
            let narrow = graph.push(Op::Reduce { op, axes }, &[x], OpTag::NONE).ok()?;
            if dice.below(3) == 0 {
                return Some(narrow);
            }
            let kept = graph
                .push(Op::Reshape(wide.ones_at(axes)), &[narrow], OpTag::NONE)
                .ok()?;
            let back = graph.push(Op::Expand(wide), &[kept], OpTag::NONE).ok()?;
            (Op::Map(dice.of(&[ScalarOp::Sub, ScalarOp::Add])), vec![x, back])
        }
        7 if rank > 1 => {
            let mut order: Vec<u8> = (0..rank as u8).collect();
            order.swap(dice.below(rank), dice.below(rank));
            (Op::Permute(order.into_iter().collect()), vec![x])
        }
        8 => {
            // Joins two axes or splits one.
            let mut extents = shape.to_vec();
            if rank > 1 && dice.below(2) == 0 {
                let at = dice.below(rank - 1);
                extents[at] *= extents.remove(at + 1);
            } else if let Some(at) = (0..rank).find(|&axis| shape[axis].is_multiple_of(2) && shape[axis] > 0)
            {
                extents[at] /= 2;
                extents.insert(at + dice.below(2), 2);
            }
            (Op::Reshape(Shape::checked(&extents).ok()?), vec![x])
        }
        9 if rank > 0 => {
            let (mut start, mut step, mut extents) = (Vec::new(), Vec::new(), Vec::new());
            for &extent in shape.iter() {
                let by = dice.of(&[1, 1, 2, -1]);
                let from = if extent == 0 { 0 } else { dice.below(extent) };
                let most = if by > 0 {
                    (extent - from).div_ceil(by as usize)
                } else {
                    from + 1
                };
                start.push(from);
                step.push(by);
                extents.push(most);
            }
            let op = Op::Slice {
                start: Shape::of(&start),
                step: step.into_iter().collect(),
                shape: Shape::of(&extents),
            };
            (op, vec![x])
        }
        10 if rank > 0 && rank < 4 => {
            let axis = dice.below(rank) as u8;
            let op = Op::Window {
                axis,
                size: 1 + dice.below(2),
                step: 1 + dice.below(2),
                dilation: 1,
            };
            (op, vec![x])
        }
        11 if rank < 4 => (Op::Expand(shape.inserted(0, 1 + dice.below(3))), vec![x]),
        12 if rank > 0 => (
            Op::Concat {
                axis: dice.below(rank) as u8,
            },
            vec![x, dice.of(&like)],
        ),
        13 if rank > 0 => {
            let low: Vec<usize> = (0..rank).map(|_| dice.below(2)).collect();
            let extents: Vec<usize> = (0..rank)
                .map(|axis| shape[axis] + low[axis] + dice.below(2))
                .collect();
            let op = Op::Pad {
                low: Shape::of(&low),
                shape: Shape::of(&extents),
                bits: u64::from(0.25_f32.to_bits()),
            };
            (op, vec![x])
        }
        14 if rank > 1 => {
            let mut order: Vec<u8> = (0..rank as u8).collect();
            order.swap(rank - 1, rank - 2);
            let turned = graph
                .push(
                    Op::Permute(order.into_iter().collect()),
                    &[dice.of(&like)],
                    OpTag::NONE,
                )
                .ok()?;
            let op = Op::Matmul {
                accumulate: DType::F32,
                output: DType::F32,
            };
            (op, vec![x, turned])
        }
        15 if rank > 1 => {
            let op = Op::Attention {
                causal: dice.below(2) == 0,
                scale: 0.5_f64.to_bits(),
            };
            (op, vec![x, dice.of(&like), dice.of(&like)])
        }
        _ if rank > 0 => {
            let axis = dice.below(rank) as u8;
            let index = graph.push(Op::Index { axis, shape }, &[], OpTag::NONE).ok()?;
            (Op::Gather { axis }, vec![x, index])
        }
        _ => return None,
    };
    let node = graph.push(op, &inputs, OpTag::NONE).ok()?;
    (graph.shape(node).elements() < 4000).then_some(node)
}

/// The graph of a seed; nothing where all that was thrown did not fit.
pub(crate) fn graph(seed: u32) -> Option<Graph> {
    let mut dice = Dice(Mt19937::new(seed));
    let mut graph = Graph::new();
    for _ in 0..1 + dice.below(3) {
        let extents: Vec<usize> = (0..1 + dice.below(3)).map(|_| 1 + dice.below(6)).collect();
        graph.input(Type::new(Shape::of(&extents), DType::F32));
    }
    let mut made = Vec::new();
    for _ in 0..2 + dice.below(14) {
        made.extend(grow(&mut graph, &mut dice));
    }
    let small: Vec<NodeId> = made
        .into_iter()
        .filter(|&id| graph.shape(id).elements() < 4000)
        .collect();
    let &last = small.last()?;
    graph.output(last);
    if dice.below(2) == 0 {
        graph.output(dice.of(&small));
    }
    Some(graph.pruned())
}

/// How many seeds are tried.
pub(crate) fn cases(usual: u32) -> u32 {
    let given = std::env::var("THALWEG_FUZZ_CASES");
    given.ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

#[test]
fn random_graphs_compute_what_they_say() {
    for seed in 0..cases(300) {
        let Some(graph) = graph(seed) else { continue };
        let ok = std::panic::catch_unwind(|| check(&graph));
        assert!(ok.is_ok(), "seed {seed}");
    }
}
