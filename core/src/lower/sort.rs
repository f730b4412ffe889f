//! Sorting, with and without a library op for it.

use super::library::{Call, Operand, last};
use super::{Argument, Group, Lowering, Slot, Source, Step};
use crate::graph::NodeId;
use crate::hal::DType;
use crate::hal::ir::Kernel;
use crate::hal::library::LibraryOp;
use crate::types::layout::Layout;
use std::sync::Arc;

/// Sorted values go to a buffer that nobody reads. On a device without the op, ranks are counted first.
pub(super) fn sort(
    lowering: &Lowering<'_>,
    id: NodeId,
    axis: usize,
    mut call: Call,
    x: &Operand,
    to: &Operand,
    group: &mut Group,
) {
    let node = lowering.graph.node(id);
    let order = last(axis, node.ty.shape.len());
    let strides = |of: &Operand| {
        order
            .iter()
            .map(|&at| of.layout.strides()[at])
            .collect::<Vec<_>>()
    };
    let elements = node.ty.shape.elements();
    let buffer = |dtype: DType| Operand {
        slot: Slot::Local(lowering.temporary((elements * dtype.size()) as u64)),
        layout: Layout::contiguous(node.ty.shape),
        dtype,
    };
    let values = buffer(x.dtype);
    let lowered = match &call.op {
        LibraryOp::Sort(op) if !lowering.support.library(&call.op) => op.lowered().ok(),
        _ => None,
    };
    let Some([rank, permute]) = lowered else {
        call.arguments
            .extend([values.argument(strides(&values)), to.argument(strides(to))]);
        group.steps.push(call.into_step(lowering.support, node.tag));
        return;
    };
    let ranks = buffer(DType::I64);
    // Over the outer axes and one inner axis: still along the outer sorted axis, moving along the inner one.
    let along_inner = |of: &Operand| {
        let mut all = strides(of);
        if let Some(step) = all.last_mut() {
            let step = std::mem::take(step);
            all.push(step);
        }
        all
    };
    let mut extents = call.extents;
    extents.push(node.ty.shape[axis] as u64);
    let mut launch = |kernel: Kernel, arguments: Vec<Argument>| {
        group.steps.push(Step::Launch {
            source: Arc::new(Source::Kernel(kernel)),
            extents: extents.clone(),
            arguments,
            scalars: Vec::new(),
            tag: node.tag,
        });
    };
    launch(
        rank,
        vec![
            x.argument(along_inner(x)),
            x.argument(strides(x)),
            ranks.argument(strides(&ranks)),
        ],
    );
    let mut gathered = strides(x);
    let step = gathered.last_mut().map_or(0, std::mem::take);
    let from = Argument {
        gather: (step, node.ty.shape[axis] as u64),
        ..x.argument(gathered)
    };
    launch(
        permute,
        vec![
            ranks.argument(along_inner(&ranks)),
            from,
            values.argument(strides(&values)),
            to.argument(strides(to)),
        ],
    );
}
