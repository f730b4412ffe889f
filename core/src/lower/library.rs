//! Launches of library ops.

use super::attention::{attention, attention_call};
use super::emit::Destination;
use super::sort::sort;
use super::{Argument, Given, Group, Launch, Lowering, Scalar, Slot, Source, Step, Support};
use crate::error::tag::OpTag;
use crate::graph::{ConvAttributes, Graph, NodeId, Op, ScatterMode};
use crate::hal::DType;
use crate::hal::ir::ReduceOp;
use crate::hal::library::{Conv, LibraryOp, Matmul, Scan, Scatter, Sort};
use crate::types::layout::Layout;
use std::sync::Arc;

/// The step of a library op, or of its definition on a device without it.
pub(super) fn step((op, launch): (LibraryOp, Launch), support: &dyn Support, tag: OpTag) -> Step {
    let source = match op.definition() {
        Ok(kernel) if !support.library(&op) => Source::Kernel(kernel),
        _ => Source::Library(op),
    };
    Step::Launch {
        source: Arc::new(source),
        launch,
        tag,
    }
}

/// The dtype in which sums of `dtype` are kept.
fn accumulator(op: ReduceOp, dtype: DType) -> DType {
    match dtype {
        dtype if op.takes(dtype) => dtype,
        DType::F16 | DType::BF16 => DType::F32,
        DType::U8 | DType::U16 => DType::U64,
        _ => DType::I64,
    }
}

/// Spatial axes of a convolution.
fn spatial(graph: &Graph, id: NodeId) -> usize {
    graph.shape(id).len() - 2
}

/// The outer space of a matrix product or convolution, in the order of its result's elements.
pub(super) fn space(graph: &Graph, id: NodeId) -> Vec<usize> {
    let mut space = graph.shape(id).to_vec();
    if let Op::Conv(attributes) = &graph.node(id).op {
        space[1] /= attributes.groups;
        space.insert(1, attributes.groups);
    }
    space
}

/// Whether an operand's elements lie in falling order along a spatial axis, which no convolution takes.
pub(super) fn walks_backwards(lowering: &Lowering<'_>, operand: NodeId) -> bool {
    lowering
        .resolve(operand)
        .1
        .strides()
        .iter()
        .any(|&stride| stride < 0)
}

/// An operand's buffer, its layout, and its dtype.
pub(super) struct Operand {
    pub(super) slot: Slot,
    pub(super) layout: Layout,
    pub(super) dtype: DType,
}

impl Operand {
    /// What a node makes.
    fn made(lowering: &Lowering<'_>, id: NodeId) -> Operand {
        Operand {
            slot: lowering.slot(id),
            layout: lowering.made_layout(id),
            dtype: lowering.graph.dtype(id),
        }
    }

    fn of(lowering: &Lowering<'_>, id: NodeId) -> Operand {
        let (base, layout) = lowering.resolve(id);
        Operand {
            slot: lowering.buffer(base).0,
            layout,
            dtype: lowering.graph.dtype(id),
        }
    }

    /// Stride along an axis; 0 along an extent of 1, so that equal launches look equal.
    pub(super) fn stride(&self, axis: usize) -> i64 {
        if self.layout.shape[axis] == 1 {
            0
        } else {
            self.layout.strides()[axis]
        }
    }

    pub(super) fn argument(&self, strides: Vec<i64>) -> Argument {
        Argument {
            slot: self.slot,
            offset: self.layout.offset * self.dtype.size() as u64,
            strides: Some(strides),
            gather: (0, 0),
        }
    }
}

/// The op of a node, launched on its operands. Outputs and what an epilogue reads come behind them.
pub(super) fn call(lowering: &Lowering<'_>, id: NodeId) -> (LibraryOp, Launch) {
    let node = lowering.graph.node(id);
    let operands: Vec<Operand> = node
        .inputs
        .iter()
        .map(|&input| Operand::of(lowering, input))
        .collect();
    call_on(lowering.graph, id, &operands)
}

fn call_on(graph: &Graph, id: NodeId, operands: &[Operand]) -> (LibraryOp, Launch) {
    let node = graph.node(id);
    let extents = |shape: &[usize]| shape.iter().map(|&extent| extent as u64).collect::<Vec<_>>();
    match &node.op {
        Op::Matmul { accumulate, output } => {
            let (a, b, rank) = (&operands[0], &operands[1], node.ty.shape.len());
            let batch = rank - 2;
            let strides = |of: &Operand, row: Option<usize>, column: Option<usize>, inner: usize| {
                let mut strides: Vec<i64> = (0..batch).map(|axis| of.stride(axis)).collect();
                strides.extend([row, column].map(|axis| axis.map_or(0, |axis| of.stride(axis))));
                strides.push(of.stride(inner));
                strides
            };
            let mut space = extents(&node.ty.shape);
            space.push(a.layout.shape[rank - 1] as u64);
            (
                LibraryOp::Matmul(Matmul {
                    batch: batch as u32,
                    operands: [a.dtype, b.dtype],
                    accumulate: *accumulate,
                    output: *output,
                    epilogue: None,
                }),
                Launch {
                    extents: space,
                    arguments: vec![
                        a.argument(strides(a, Some(rank - 2), None, rank - 1)),
                        b.argument(strides(b, None, Some(rank - 1), rank - 2)),
                    ],
                    scalars: Vec::new(),
                },
            )
        }
        Op::Attention { causal, scale } => attention_call(*causal, *scale, extents(&node.ty.shape), operands),
        Op::Conv(attributes) => {
            let (x, w) = (&operands[0], &operands[1]);
            let r = spatial(graph, id);
            let (groups, inputs) = (attributes.groups, w.layout.shape[1]);
            let outputs = node.ty.shape[1] / groups;
            let outer = space(graph, id);
            let space: Vec<usize> = outer
                .into_iter()
                .chain([inputs])
                .chain(w.layout.shape[2..].iter().copied())
                .collect();
            let mut of_x = vec![0; 4 + 2 * r];
            (of_x[0], of_x[1], of_x[3 + r]) =
                (x.stride(0), x.layout.strides()[1] * inputs as i64, x.stride(1));
            let mut of_w = vec![0; 4 + 2 * r];
            (of_w[1], of_w[2], of_w[3 + r]) =
                (w.layout.strides()[0] * outputs as i64, w.stride(0), w.stride(1));
            (0..r).for_each(|axis| of_w[4 + r + axis] = w.stride(2 + axis));
            convolution(
                LibraryOp::Conv,
                attributes,
                r,
                node.ty.dtype,
                extents(&space),
                (x, of_x),
                (w, of_w),
            )
        }
        Op::ConvGradInput(attributes, _) => {
            let (dy, w) = (&operands[0], &operands[1]);
            let r = spatial(graph, id);
            let (groups, inputs) = (attributes.groups, w.layout.shape[1]);
            let outputs = w.layout.shape[0] / groups;
            let mut space = node.ty.shape.to_vec();
            space[1] = inputs;
            space.insert(1, groups);
            space.push(outputs);
            space.extend(&w.layout.shape[2..]);
            let mut of_dy = vec![0; 4 + 2 * r];
            (of_dy[0], of_dy[1], of_dy[3 + r]) = (
                dy.stride(0),
                dy.layout.strides()[1] * outputs as i64,
                dy.stride(1),
            );
            let mut of_w = vec![0; 4 + 2 * r];
            (of_w[1], of_w[2], of_w[3 + r]) =
                (w.layout.strides()[0] * outputs as i64, w.stride(1), w.stride(0));
            (0..r).for_each(|axis| of_w[4 + r + axis] = w.stride(2 + axis));
            let make = LibraryOp::ConvGradInput;
            convolution(
                make,
                attributes,
                r,
                node.ty.dtype,
                extents(&space),
                (dy, of_dy),
                (w, of_w),
            )
        }
        Op::ConvGradWeight(attributes, _) => {
            let (x, dy) = (&operands[0], &operands[1]);
            let r = spatial(graph, id);
            let (groups, inputs) = (attributes.groups, node.ty.shape[1]);
            let outputs = node.ty.shape[0] / groups;
            let mut space = vec![groups, outputs, inputs];
            space.extend(&node.ty.shape[2..]);
            space.push(x.layout.shape[0]);
            space.extend(&dy.layout.shape[2..]);
            let mut of_x = vec![0; 4 + 2 * r];
            (of_x[0], of_x[2], of_x[3 + r]) =
                (x.layout.strides()[1] * inputs as i64, x.stride(1), x.stride(0));
            let mut of_dy = vec![0; 4 + 2 * r];
            (of_dy[0], of_dy[1], of_dy[3 + r]) = (
                dy.layout.strides()[1] * outputs as i64,
                dy.stride(1),
                dy.stride(0),
            );
            (0..r).for_each(|axis| of_dy[4 + r + axis] = dy.stride(2 + axis));
            let make = LibraryOp::ConvGradWeight;
            convolution(
                make,
                attributes,
                r,
                node.ty.dtype,
                extents(&space),
                (x, of_x),
                (dy, of_dy),
            )
        }
        Op::Scatter { axis, mode } => {
            let (base, index, update) = (&operands[0], &operands[1], &operands[2]);
            let axis = usize::from(*axis);
            let batch: Vec<usize> = (0..node.ty.shape.len()).filter(|&at| at != axis).collect();
            let along = |of: &Operand, last: &[i64]| {
                batch
                    .iter()
                    .map(|&at| of.stride(at))
                    .chain(last.iter().copied())
                    .collect::<Vec<_>>()
            };
            let combine = match mode {
                ScatterMode::Set => None,
                ScatterMode::Add => Some(ReduceOp::Sum),
                ScatterMode::Max => Some(ReduceOp::Max),
                ScatterMode::Min => Some(ReduceOp::Min),
            };
            let dtype = node.ty.dtype;
            let mut updates = update.argument(along(update, &[0]));
            updates.gather = (update.stride(axis), update.layout.shape[axis] as u64);
            let mut space: Vec<usize> = batch.iter().map(|&at| node.ty.shape[at]).collect();
            space.extend([node.ty.shape[axis], index.layout.shape[axis]]);
            (
                LibraryOp::Scatter(Scatter {
                    batch: batch.len() as u32,
                    combine,
                    dtype,
                    accumulate: combine.map_or(dtype, |op| accumulator(op, dtype)),
                    index: DType::I64,
                }),
                Launch {
                    extents: extents(&space),
                    arguments: vec![
                        base.argument(along(base, &[base.stride(axis)])),
                        updates,
                        index.argument(along(index, &[0, index.stride(axis)])),
                    ],
                    scalars: Vec::new(),
                },
            )
        }
        Op::Scan { op, axis, reverse } => {
            let x = &operands[0];
            let axis = usize::from(*axis);
            let batch: Vec<usize> = (0..node.ty.shape.len()).filter(|&at| at != axis).collect();
            let step = if *reverse { -x.stride(axis) } else { x.stride(axis) };
            let strides = batch.iter().map(|&at| x.stride(at)).chain([0, step]).collect();
            let mut argument = x.argument(strides);
            if *reverse {
                let last = (node.ty.shape[axis] as i64 - 1) * x.stride(axis) * x.dtype.size() as i64;
                argument.offset = argument.offset.wrapping_add_signed(last);
            }
            let mut space: Vec<usize> = batch.iter().map(|&at| node.ty.shape[at]).collect();
            space.extend([node.ty.shape[axis]; 2]);
            (
                LibraryOp::Scan(Scan {
                    batch: batch.len() as u32,
                    op: *op,
                    exclusive: false,
                    dtype: x.dtype,
                    accumulate: x.dtype,
                    output: x.dtype,
                }),
                Launch {
                    extents: extents(&space),
                    arguments: vec![argument],
                    scalars: Vec::new(),
                },
            )
        }
        Op::Sort { axis, descending } | Op::ArgSort { axis, descending, .. } => {
            let (x, axis) = (&operands[0], usize::from(*axis));
            let sort = Sort {
                batch: node.ty.shape.len() as u32 - 1,
                descending: *descending,
                indices: matches!(node.op, Op::ArgSort { .. }),
                part: node.ty.shape[axis] < x.layout.shape[axis],
                dtype: x.dtype,
            };
            let launch = super::sort::launch(&sort, x, axis, node.ty.shape);
            (LibraryOp::Sort(sort), launch)
        }
        other => unreachable!("{} is no library op", other.name()),
    }
}

/// All axes with `axis` behind the others.
pub(super) fn last(axis: usize, rank: usize) -> Vec<usize> {
    (0..rank).filter(|&at| at != axis).chain([axis]).collect()
}

fn convolution(
    make: fn(Conv) -> LibraryOp,
    attributes: &ConvAttributes,
    r: usize,
    dtype: DType,
    extents: Vec<u64>,
    (gathered, strides): (&Operand, Vec<i64>),
    (other, of_other): (&Operand, Vec<i64>),
) -> (LibraryOp, Launch) {
    let per_axis = |of: [usize; 3]| [0, 1, 2].map(|axis| if axis < r { of[axis] as i64 } else { 0 });
    let op = make(Conv {
        spatial: r as u32,
        stride: per_axis(attributes.stride),
        dilation: per_axis(attributes.dilation),
        padding: per_axis(attributes.low),
        operands: [gathered.dtype, other.dtype],
        accumulate: if dtype.is_float() {
            accumulator(ReduceOp::Sum, gathered.dtype)
        } else {
            dtype
        },
        output: dtype,
        fast: attributes.fast,
        epilogue: None,
    });
    let space = (2..2 + r).map(|axis| (gathered.layout.shape[axis] as u64, gathered.stride(axis)));
    let reach: i64 = space
        .clone()
        .map(|(extent, stride)| (extent as i64 - 1).max(0) * stride)
        .sum();
    let empty = space.clone().any(|(extent, _)| extent == 0);
    let mut first = gathered.argument(strides);
    first.gather = (1, if empty { 0 } else { reach as u64 + 1 });
    let scalars = (space.clone().map(|(extent, _)| extent))
        .chain(space.map(|(_, stride)| stride as u64))
        .map(Scalar::Bits)
        .collect();
    let launch = Launch {
        extents,
        arguments: vec![first, other.argument(of_other)],
        scalars,
    };
    (op, launch)
}

/// Writes an operand that has one number everywhere to where a node's result stands; returns whether it does.
fn filled(lowering: &mut Lowering<'_>, group: &mut Group, id: NodeId, operand: NodeId) -> bool {
    let (node, base) = (lowering.graph.node(id), lowering.resolve(operand).0);
    match lowering.graph.node(base).op {
        Op::Full { bits, .. } => group.fill(lowering.slot(id), node, bits),
        Op::Input(at) if matches!(lowering.given[at as usize], Given::Scalar(_)) => {
            let (slot, layout) = (lowering.slot(id), lowering.made_layout(id));
            lowering.part(group, operand, Destination { slot, layout });
        }
        _ => return false,
    }
    true
}

/// The steps of a library op without an epilogue.
pub(super) fn group(lowering: &mut Lowering<'_>, id: NodeId) -> Group {
    let graph = lowering.graph;
    let node = graph.node(id);
    let mut group = Group::new(id);
    let gathers = matches!(
        node.op,
        Op::Conv(_) | Op::ConvGradInput(..) | Op::ConvGradWeight(..)
    );
    let mut operands = Vec::new();
    for (at, &input) in node.inputs.iter().enumerate() {
        if at == 0
            && let Op::Scatter { .. } = node.op
            && filled(lowering, &mut group, id, input)
        {
            operands.push(Operand::made(lowering, id));
            continue;
        }
        if at == 0 && gathers && walks_backwards(lowering, input) {
            let ty = graph.node(input).ty;
            let slot = Slot::Local(lowering.temporary((ty.shape.elements() * ty.dtype.size()) as u64));
            let layout = Layout::contiguous(ty.shape);
            lowering.part(&mut group, input, Destination { slot, layout });
            operands.push(Operand {
                slot,
                layout,
                dtype: ty.dtype,
            });
            continue;
        }
        group.needs.insert(lowering.resolve(input).0);
        operands.push(Operand::of(lowering, input));
    }
    if node.ty.shape.elements() == 0 {
        return group;
    }
    let (op, mut launch) = call_on(graph, id, &operands);
    let to = Operand::made(lowering, id);
    if let Op::Attention { .. } = node.op {
        attention(lowering, id, (op, launch), &operands, &to, &mut group);
        return group;
    }
    if let Op::Sort { axis, .. } | Op::ArgSort { axis, .. } = node.op {
        sort(
            lowering,
            id,
            usize::from(axis),
            (op, launch),
            &operands[0],
            &to,
            &mut group,
        );
        return group;
    }
    let out = match &node.op {
        Op::Conv(_) | Op::ConvGradInput(..) => {
            let mut strides: Vec<i64> = to.layout.strides().to_vec();
            strides.insert(1, strides[1] * launch.extents[2] as i64);
            to.argument(strides)
        }
        Op::ConvGradWeight(..) => {
            let mut strides: Vec<i64> = to.layout.strides().to_vec();
            strides.insert(0, strides[0] * launch.extents[1] as i64);
            to.argument(strides)
        }
        Op::Scan { axis, reverse, .. } => {
            let axis = usize::from(*axis);
            let mut strides: Vec<i64> = last(axis, node.ty.shape.len())
                .iter()
                .map(|&at| to.layout.strides()[at])
                .collect();
            let mut offset = 0;
            if *reverse && let Some(step) = strides.last_mut() {
                offset = (node.ty.shape[axis] as i64 - 1) * *step * to.dtype.size() as i64;
                *step = -*step;
            }
            Argument {
                offset: offset as u64,
                ..to.argument(strides)
            }
        }
        Op::Scatter { axis, .. } => {
            let order = last(usize::from(*axis), node.ty.shape.len());
            to.argument(order.iter().map(|&at| to.layout.strides()[at]).collect())
        }
        other => unreachable!("{} is no library op without an epilogue", other.name()),
    };
    launch.arguments.push(out);
    group.steps.push(step((op, launch), lowering.support, node.tag));
    group
}
