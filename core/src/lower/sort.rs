//! Sorting, with and without a library op for it.

use super::library::{self, Operand, last};
use super::{Argument, Group, Launch, Lowering, Slot, Source, Step};
use crate::graph::{NodeId, Op};
use crate::hal::DType;
use crate::hal::ir::Kernel;
use crate::hal::library::{LibraryOp, Sort};
use crate::types::layout::Layout;
use std::sync::Arc;

/// What of values and indices is not the result goes to a buffer that nobody reads, unless the device sorts values alone. On a device
/// without the op, ranks are counted first.
pub(super) fn sort(
    lowering: &Lowering<'_>,
    id: NodeId,
    axis: usize,
    (mut op, mut launch): (LibraryOp, Launch),
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
    let supports = |sort: &Sort| lowering.support.library(&LibraryOp::Sort(sort.clone()));
    let LibraryOp::Sort(sort) = &mut op else { return };
    let whole = Sort {
        indices: true,
        ..sort.clone()
    };
    if !supports(sort) && supports(&whole) {
        *sort = whole;
    }
    let mut outputs = Vec::new();
    if let Op::Sort { .. } = node.op {
        outputs.push(to.argument(strides(to)));
        if sort.indices {
            let indices = buffer(DType::I64);
            outputs.push(indices.argument(strides(&indices)));
        }
    } else {
        let values = buffer(x.dtype);
        outputs.extend([values.argument(strides(&values)), to.argument(strides(to))]);
    }
    let lowered = if supports(sort) { None } else { sort.lowered().ok() };
    let Some([rank, permute]) = lowered else {
        launch.arguments.extend(outputs);
        group
            .steps
            .push(library::step((op, launch), lowering.support, node.tag));
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
    let mut extents = launch.extents;
    extents.push(node.ty.shape[axis] as u64);
    let mut add = |kernel: Kernel, arguments: Vec<Argument>| {
        group.steps.push(Step::Launch {
            source: Arc::new(Source::Kernel(kernel)),
            launch: Launch {
                extents: extents.clone(),
                arguments,
                scalars: Vec::new(),
            },
            tag: node.tag,
        });
    };
    add(
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
    let mut arguments = vec![ranks.argument(along_inner(&ranks)), from];
    arguments.extend(outputs);
    add(permute, arguments);
}
