//! Attention, with and without a library op for it.

use super::library::{self, Operand};
use super::{Argument, Group, Launch, Lowering, Scalar, Slot, Source, Step};
use crate::graph::NodeId;
use crate::hal::DType;
use crate::hal::library::{Attention, LibraryOp};
use crate::types::Scalar as Number;
use crate::types::layout::Layout;
use std::sync::Arc;

/// The launch on queries, keys, values and a mask if there is one; `outer` are the extents of the result.
pub(super) fn attention_call(
    causal: bool,
    scale: u64,
    mut outer: Vec<u64>,
    operands: &[Operand],
) -> (LibraryOp, Launch) {
    let (q, k) = (&operands[0], &operands[1]);
    let rank = outer.len();
    let accumulate = if q.dtype == DType::F64 {
        DType::F64
    } else {
        DType::F32
    };
    let op = LibraryOp::Attention(Attention {
        batch: rank as u32 - 2,
        causal,
        mask: operands.get(3).map(|mask| mask.dtype),
        dtype: q.dtype,
        accumulate,
    });
    outer.extend([k.layout.shape[rank - 2] as u64, q.layout.shape[rank - 1] as u64]);
    let scale = Number::Float(f64::from_bits(scale)).cast_bits(accumulate);
    // Which of i, e, j and d an operand's rows and columns lie along.
    let places = [[0, 3], [2, 3], [2, 1], [0, 2]];
    let launch = Launch {
        extents: outer,
        arguments: (operands.iter().zip(places))
            .map(|(of, places)| of.argument(along(of, rank - 2, 4, places)))
            .collect(),
        scalars: vec![Scalar::Bits(scale)],
    };
    (op, launch)
}

/// Strides over `batch` axes and `axes` more, of which `of` has its rows and columns along two.
fn along(of: &Operand, batch: usize, axes: usize, [row, column]: [usize; 2]) -> Vec<i64> {
    let mut strides: Vec<i64> = (0..batch).map(|axis| of.stride(axis)).collect();
    strides.resize(batch + axes, 0);
    strides[batch + row] = of.stride(batch);
    strides[batch + column] = of.stride(batch + 1);
    strides
}

/// On a device without the op, scores and weights go through memory.
pub(super) fn attention(
    lowering: &Lowering<'_>,
    id: NodeId,
    (op, mut launch): (LibraryOp, Launch),
    operands: &[Operand],
    to: &Operand,
    group: &mut Group,
) {
    let node = lowering.graph.node(id);
    let batch = launch.extents.len() - 4;
    let [queries, width, keys, depth] = [0, 1, 2, 3].map(|axis| launch.extents[batch + axis]);
    if keys == 0 {
        group.fill(to.slot, node, 0);
        return;
    }
    let steps = match &op {
        // The op reads nothing without depth, where every score is 0 times scale.
        LibraryOp::Attention(attention) if depth == 0 || !lowering.support.library(&op) => attention
            .lowered()
            .ok()
            .map(|steps| (steps, attention.accumulate)),
        _ => None,
    };
    let Some((steps, accumulate)) = steps else {
        launch.arguments.push(to.argument(to.layout.strides().to_vec()));
        group
            .steps
            .push(library::step((op, launch), lowering.support, node.tag));
        return;
    };
    let shape = node.ty.shape.with(batch + 1, keys as usize);
    let buffer = |dtype: DType| Operand {
        slot: Slot::Local(lowering.temporary((shape.elements() * dtype.size()) as u64)),
        layout: Layout::contiguous(shape),
        dtype,
    };
    let (scores, weights) = (buffer(accumulate), buffer(node.ty.dtype));
    let extents = |last: &[u64]| [&launch.extents[..batch], last].concat();
    let product = |op: LibraryOp, extents: Vec<u64>, arguments: Vec<Argument>| {
        let launch = Launch {
            extents,
            arguments,
            scalars: Vec::new(),
        };
        library::step((op, launch), lowering.support, node.tag)
    };
    let [q, k, v, mask @ ..] = operands else { return };
    group.steps.push(product(
        steps.scores,
        extents(&[queries, keys, depth]),
        vec![
            q.argument(along(q, batch, 3, [0, 2])),
            k.argument(along(k, batch, 3, [1, 2])),
            scores.argument(along(&scores, batch, 2, [0, 1])),
        ],
    ));
    let of_weights = (std::iter::once(&scores).chain(mask).chain([&weights]))
        .map(|of| of.argument(along(of, batch, 2, [0, 1])))
        .collect();
    group.steps.push(Step::Launch {
        source: Arc::new(Source::Kernel(steps.weights)),
        launch: Launch {
            extents: extents(&[queries, keys]),
            arguments: of_weights,
            scalars: launch.scalars.clone(),
        },
        tag: node.tag,
    });
    group.steps.push(product(
        steps.output,
        extents(&[queries, width, keys]),
        vec![
            weights.argument(along(&weights, batch, 3, [0, 2])),
            v.argument(along(v, batch, 3, [2, 1])),
            to.argument(along(to, batch, 2, [0, 1])),
        ],
    ));
}
