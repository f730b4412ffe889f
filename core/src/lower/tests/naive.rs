//! Graphs computed one element after the other; what an op does to scalars is the interpreter's.

use crate::graph::{ConvAttributes, Graph, Node, Op, ScatterMode};
use crate::hal::DType;
use crate::hal::ir::{ReduceOp, Returns, ScalarOp};
use crate::tensor::shape::Shape;
use thalweg_hal::interpreter::scalar::{Reduction, cast, eval};

/// All indices of a shape in row-major order.
pub(super) fn indices(shape: &Shape) -> impl Iterator<Item = Vec<usize>> + use<> {
    let shape = *shape;
    (0..shape.elements()).map(move |mut linear| {
        let mut index = vec![0; shape.len()];
        for axis in (0..shape.len()).rev() {
            index[axis] = linear % shape[axis];
            linear /= shape[axis];
        }
        index
    })
}

fn place(shape: &Shape, index: &[usize]) -> usize {
    shape
        .iter()
        .zip(index)
        .fold(0, |at, (&extent, &i)| at * extent + i)
}

/// The outputs of a graph.
pub(super) fn evaluate(graph: &Graph, inputs: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut values: Vec<Vec<f64>> = Vec::new();
    for node in graph.nodes() {
        let value = indices(&node.ty.shape)
            .map(|index| element(graph, node, &index, &values, inputs))
            .collect();
        values.push(value);
    }
    graph
        .outputs()
        .iter()
        .map(|output| values[output.index()].clone())
        .collect()
}

fn element(graph: &Graph, node: &Node, index: &[usize], values: &[Vec<f64>], inputs: &[Vec<f64>]) -> f64 {
    let at = |operand: usize, index: &[usize]| {
        let id = node.inputs[operand];
        values[id.index()][place(graph.shape(id), index)]
    };
    let operand_shape = |operand: usize| *graph.shape(node.inputs[operand]);
    match &node.op {
        Op::Input(input) => inputs[*input as usize][place(&node.ty.shape, index)],
        Op::Full { dtype, bits, .. } => value(*dtype, *bits),
        Op::Control(_) | Op::Result { .. } => panic!("{} is run by the host", node.op.name()),
        Op::Index { axis, .. } => index[usize::from(*axis)] as f64,
        Op::Map(op) => {
            let args: Vec<f64> = (0..node.inputs.len()).map(|operand| at(operand, index)).collect();
            let types: Vec<DType> = node.inputs.iter().map(|&input| graph.dtype(input)).collect();
            scalar(*op, &args, &types, node.ty.dtype)
        }
        Op::Cast(dtype) => {
            let from = graph.dtype(node.inputs[0]);
            value(*dtype, cast(from, *dtype, bits(from, at(0, index))))
        }
        Op::Reduce { op, axes } => {
            let shape = operand_shape(0);
            let mut kept = index.iter();
            let mut full: Vec<usize> = (0..shape.len())
                .map(|axis| if axes.has(axis) { 0 } else { *kept.next().unwrap() })
                .collect();
            let inner = Shape::of(&axes.iter().map(|axis| shape[axis]).collect::<Vec<_>>());
            let mut values = Vec::new();
            for place in indices(&inner) {
                axes.iter().zip(place).for_each(|(axis, i)| full[axis] = i);
                values.push(at(0, &full));
            }
            reduce(*op, graph.dtype(node.inputs[0]), &values)
        }
        Op::Permute(order) => {
            let mut from = vec![0; index.len()];
            order
                .iter()
                .zip(index)
                .for_each(|(&axis, &i)| from[usize::from(axis)] = i);
            at(0, &from)
        }
        Op::Expand(_) => {
            let shape = operand_shape(0);
            let new = index.len() - shape.len();
            let from: Vec<usize> = shape
                .iter()
                .zip(&index[new..])
                .map(|(&extent, &i)| if extent == 1 { 0 } else { i })
                .collect();
            at(0, &from)
        }
        Op::Indices { .. } => at(0, index),
        Op::Reshape(shape) => values[node.inputs[0].index()][place(shape, index)],
        Op::Slice { start, step, .. } => {
            let from: Vec<usize> = (0..index.len())
                .map(|a| (start[a] as i64 + step[a] * index[a] as i64) as usize)
                .collect();
            at(0, &from)
        }
        Op::Window {
            axis, step, dilation, ..
        } => {
            let (last, front) = index.split_last().unwrap();
            let mut from = front.to_vec();
            from[usize::from(*axis)] = front[usize::from(*axis)] * step + last * dilation;
            at(0, &from)
        }
        Op::Pad { low, bits, .. } => {
            let shape = operand_shape(0);
            let inside = (0..index.len()).all(|a| index[a] >= low[a] && index[a] < low[a] + shape[a]);
            if inside {
                at(
                    0,
                    &index
                        .iter()
                        .zip(low.iter())
                        .map(|(i, l)| i - l)
                        .collect::<Vec<_>>(),
                )
            } else {
                f64::from(f32::from_bits(*bits as u32))
            }
        }
        Op::Concat { axis } => {
            let axis = usize::from(*axis);
            let mut from = index.to_vec();
            for operand in 0..node.inputs.len() {
                let extent = operand_shape(operand)[axis];
                if from[axis] < extent {
                    return at(operand, &from);
                }
                from[axis] -= extent;
            }
            unreachable!()
        }
        Op::Gather { axis } => {
            let axis = usize::from(*axis);
            let mut from = index.to_vec();
            let wanted = at(1, index);
            if wanted < 0.0 || wanted >= operand_shape(0)[axis] as f64 {
                return 0.0;
            }
            from[axis] = wanted as usize;
            at(0, &from)
        }
        Op::Scatter { axis, mode } => {
            let axis = usize::from(*axis);
            let mut value = at(0, index);
            let mut from = index.to_vec();
            for i in 0..operand_shape(1)[axis] {
                from[axis] = i;
                if at(1, &from) != index[axis] as f64 {
                    continue;
                }
                let update = at(2, &from);
                value = match mode {
                    ScatterMode::Set => update,
                    ScatterMode::Add => value + update,
                    ScatterMode::Max => value.max(update),
                    ScatterMode::Min => value.min(update),
                };
            }
            value
        }
        Op::Matmul { .. } => {
            let (k, rank) = (operand_shape(0)[index.len() - 1], index.len());
            let (mut a, mut b) = (index.to_vec(), index.to_vec());
            (0..k)
                .map(|l| {
                    (a[rank - 1], b[rank - 2]) = (l, l);
                    at(0, &a) * at(1, &b)
                })
                .sum()
        }
        Op::Attention { causal, scale } => {
            let (front, [i, e]) = index.split_last_chunk::<2>().unwrap();
            let place = |row: usize, column: usize| [front, &[row, column]].concat();
            let (keys, depth) = (operand_shape(1)[front.len()], operand_shape(1)[front.len() + 1]);
            let score = |j: usize| {
                let products = (0..depth).map(|d| at(0, &place(*i, d)) * at(1, &place(j, d)));
                let score = products.sum::<f64>() * f64::from_bits(*scale);
                let masked = (node.inputs.get(3)).map(|&mask| (graph.dtype(mask), at(3, &place(*i, j))));
                match masked {
                    _ if *causal && j > *i => f64::NEG_INFINITY,
                    Some((DType::Bool, 0.0)) => f64::NEG_INFINITY,
                    Some((DType::Bool, _)) | None => score,
                    Some((_, mask)) => score + mask,
                }
            };
            let scores: Vec<f64> = (0..keys).map(score).collect();
            let peak = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if peak == f64::NEG_INFINITY {
                return 0.0;
            }
            let weights: Vec<f64> = scores.iter().map(|score| (score - peak).exp()).collect();
            let values = weights
                .iter()
                .enumerate()
                .map(|(j, weight)| weight * at(2, &place(j, *e)));
            values.sum::<f64>() / weights.iter().sum::<f64>()
        }
        Op::Scan { op, axis, reverse } => {
            let axis = usize::from(*axis);
            let mut from = index.to_vec();
            let range = if *reverse {
                index[axis]..operand_shape(0)[axis]
            } else {
                0..index[axis] + 1
            };
            let values: Vec<f64> = range
                .map(|i| {
                    from[axis] = i;
                    at(0, &from)
                })
                .collect();
            reduce(*op, graph.dtype(node.inputs[0]), &values)
        }
        Op::Rand => panic!("random words are tested on the devices"),
        Op::Sort { axis, descending } | Op::ArgSort { axis, descending, .. } => {
            let axis = usize::from(*axis);
            let mut from = index.to_vec();
            let values: Vec<f64> = (0..operand_shape(0)[axis])
                .map(|i| {
                    from[axis] = i;
                    at(0, &from)
                })
                .collect();
            let mut order: Vec<usize> = (0..values.len()).collect();
            order.sort_by(|&a, &b| {
                let order = values[a].partial_cmp(&values[b]).unwrap();
                if *descending { order.reverse() } else { order }
            });
            let place = order[index[axis]];
            match node.op {
                Op::Sort { .. } => values[place],
                _ => place as f64,
            }
        }
        Op::Conv(attributes) => {
            let (x, w) = (operand_shape(0), operand_shape(1));
            let taps = Shape::of(&w[1..]);
            let group = index[1] / (w[0] / attributes.groups);
            indices(&taps)
                .map(|tap| {
                    let place = position(attributes, &index[2..], &tap[1..], &x);
                    let mut weight = vec![index[1]];
                    weight.extend(&tap);
                    place.map_or(0.0, |place| {
                        let mut from = vec![index[0], group * w[1] + tap[0]];
                        from.extend(place);
                        at(0, &from) * at(1, &weight)
                    })
                })
                .sum()
        }
        Op::ConvGradInput(attributes, x) => {
            let (dy, w) = (operand_shape(0), operand_shape(1));
            let group = index[1] / w[1];
            let mut sum = 0.0;
            for out in indices(&Shape::of(&dy[2..])) {
                for tap in indices(&Shape::of(&w[2..])) {
                    if position(attributes, &out, &tap, x).as_deref() != Some(&index[2..]) {
                        continue;
                    }
                    let outputs = w[0] / attributes.groups;
                    for channel in group * outputs..(group + 1) * outputs {
                        let from = [&[index[0], channel][..], &out].concat();
                        let weight = [&[channel, index[1] % w[1]][..], &tap].concat();
                        sum += at(0, &from) * at(1, &weight);
                    }
                }
            }
            sum
        }
        Op::ConvGradWeight(attributes, w) => {
            let (x, dy) = (operand_shape(0), operand_shape(1));
            let group = index[0] / (w[0] / attributes.groups);
            let mut sum = 0.0;
            for sample in 0..x[0] {
                for out in indices(&Shape::of(&dy[2..])) {
                    if let Some(place) = position(attributes, &out, &index[2..], &x) {
                        let from = [&[sample, group * w[1] + index[1]][..], &place].concat();
                        sum += at(0, &from) * at(1, &[&[sample, index[0]][..], &out].concat());
                    }
                }
            }
            sum
        }
    }
}

/// Where a tap of an output falls in the input, if it falls inside.
fn position(attributes: &ConvAttributes, out: &[usize], tap: &[usize], x: &Shape) -> Option<Vec<usize>> {
    (0..out.len())
        .map(|axis| {
            let padded = out[axis] * attributes.stride[axis] + tap[axis] * attributes.dilation[axis];
            padded
                .checked_sub(attributes.low[axis])
                .filter(|&place| place < x[axis + 2])
        })
        .collect()
}

/// The bits of an element of `dtype`.
fn bits(dtype: DType, value: f64) -> u64 {
    cast(DType::F64, dtype, value.to_bits())
}

/// The value of an element's bits.
fn value(dtype: DType, bits: u64) -> f64 {
    f64::from_bits(cast(dtype, DType::F64, bits))
}

fn reduce(op: ReduceOp, dtype: DType, values: &[f64]) -> f64 {
    let values: Vec<u64> = values.iter().map(|&value| bits(dtype, value)).collect();
    let result = match op.returns() {
        Returns::Index => DType::I64,
        Returns::Same | Returns::Bool => dtype,
    };
    value(result, Reduction::of(op, dtype, &values))
}

/// An op on values of the dtypes `types`; all but a condition have one.
fn scalar(op: ScalarOp, args: &[f64], types: &[DType], result: DType) -> f64 {
    let at = |i: usize| args.get(i).map_or(0, |&value| bits(types[i], value));
    value(result, eval(op, types[types.len() - 1], [at(0), at(1), at(2)]))
}
