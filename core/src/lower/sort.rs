//! Sorting, with and without a library op for it.

use super::library::{self, Operand, last};
use super::{Argument, Group, Launch, Lowering, Slot, Source, Step};
use crate::graph::{NodeId, Op};
use crate::hal::DType;
use crate::hal::ir::{Access, Kernel, Level, Role};
use crate::hal::library::{LibraryOp, Sort};
use crate::types::layout::Layout;
use crate::types::shape::Shape;
use std::sync::Arc;

/// The launch of a sort along `axis` with its operand: over `wanted`, which is the shape of its results.
pub(super) fn launch(sort: &Sort, x: &Operand, axis: usize, wanted: Shape) -> Launch {
    let order = last(axis, wanted.len());
    let strides = order.iter().map(|&at| x.stride(at)).collect();
    Launch {
        extents: order.iter().map(|&at| wanted[at] as u64).collect(),
        arguments: vec![if sort.part {
            gathered(x, axis, strides)
        } else {
            x.argument(strides)
        }],
        scalars: Vec::new(),
    }
}

/// An operand whose elements along the last one of `strides` are gathered.
fn gathered(x: &Operand, axis: usize, mut strides: Vec<i64>) -> Argument {
    let step = strides.last_mut().map_or(0, std::mem::take);
    Argument {
        gather: (step, x.layout.shape[axis] as u64),
        ..x.argument(strides)
    }
}

/// What of values and indices is not the result goes to a buffer that nobody reads, unless the device sorts values alone. A device
/// that sorts whole rows alone does so, and the first ones are copied. On a device without the op, ranks are counted first.
pub(super) fn sort(
    lowering: &Lowering<'_>,
    id: NodeId,
    axis: usize,
    (op, call): (LibraryOp, Launch),
    x: &Operand,
    to: &Operand,
    group: &mut Group,
) {
    let node = lowering.graph.node(id);
    let LibraryOp::Sort(asked) = op else { return };
    let order = last(axis, node.ty.shape.len());
    let strides = |of: &Operand| {
        order
            .iter()
            .map(|&at| of.layout.strides()[at])
            .collect::<Vec<_>>()
    };
    let buffer = |dtype: DType, shape: Shape| Operand {
        slot: Slot::Local(lowering.temporary((shape.elements() * dtype.size()) as u64)),
        layout: Layout::contiguous(shape),
        dtype,
    };
    let forms = [(asked.indices, asked.part), (true, asked.part), (true, false)];
    let known = forms
        .map(|(indices, part)| Sort {
            indices,
            part,
            ..asked.clone()
        })
        .into_iter()
        .find(|form| lowering.support.library(&LibraryOp::Sort(form.clone())));
    let lowered = if known.is_some() {
        None
    } else {
        asked.lowered().ok()
    };
    let form = known.unwrap_or_else(|| asked.clone());
    let values_wanted = matches!(node.op, Op::Sort { .. });
    let shape = if form.part { node.ty.shape } else { x.layout.shape };
    let whole = (shape != node.ty.shape).then(|| buffer(to.dtype, shape));
    let result = whole.as_ref().unwrap_or(to);
    let mut outputs = Vec::new();
    if values_wanted {
        outputs.push(result.argument(strides(result)));
        if form.indices {
            let indices = buffer(DType::I64, shape);
            outputs.push(indices.argument(strides(&indices)));
        }
    } else {
        let values = buffer(x.dtype, shape);
        outputs.extend([
            values.argument(strides(&values)),
            result.argument(strides(result)),
        ]);
    }
    let step = |kernel: Kernel, extents: Vec<u64>, arguments: Vec<Argument>| Step::Launch {
        source: Arc::new(Source::Kernel(kernel)),
        launch: Launch {
            extents,
            arguments,
            scalars: Vec::new(),
        },
        tag: node.tag,
    };
    let Some([rank, permute]) = lowered else {
        let mut whole_call = launch(&form, x, axis, shape);
        whole_call.arguments.extend(outputs);
        let form = LibraryOp::Sort(form);
        group
            .steps
            .push(library::step((form, whole_call), lowering.support, node.tag));
        if let Some(whole) = &whole {
            let mut copy = Kernel::new("sort_first", order.len() as u32, 0);
            let from = copy.param(to.dtype, Role::In, Level::Row, Access::Strided);
            let out = copy.param(to.dtype, Role::Out, Level::Row, Access::Strided);
            let element = copy.load(from);
            copy.store(out, element);
            let arguments = vec![whole.argument(strides(whole)), to.argument(strides(to))];
            group.steps.push(step(copy, call.extents, arguments));
        }
        return;
    };
    let ranks = buffer(DType::I64, x.layout.shape);
    // Over the outer axes and one inner axis: still along the outer sorted axis, moving along the inner one.
    let along_inner = |of: &Operand| {
        let mut all = strides(of);
        if let Some(step) = all.last_mut() {
            let step = std::mem::take(step);
            all.push(step);
        }
        all
    };
    let extent = x.layout.shape[axis] as u64;
    let space = |shape: Shape| order.iter().map(|&at| shape[at] as u64).chain([extent]).collect();
    let of_ranks = vec![
        x.argument(along_inner(x)),
        x.argument(strides(x)),
        ranks.argument(strides(&ranks)),
    ];
    group.steps.push(step(rank, space(x.layout.shape), of_ranks));
    let mut arguments = vec![ranks.argument(along_inner(&ranks)), gathered(x, axis, strides(x))];
    arguments.extend(outputs);
    group.steps.push(step(permute, space(node.ty.shape), arguments));
}
