//! Programs against a walk over the graph that computes element by element.

mod images;
mod judge;
mod naive;
mod origins;
mod padding;
mod parts;
pub(crate) mod random;
mod stores;

use super::{Source, Step};
use crate::graph::{ConvAttributes, Graph, Op, ScatterMode, Type};
use crate::hal::DType;
use crate::hal::ir::{ReduceOp, ScalarOp};
use crate::tensor::shape::{Axes, MAX_RANK, Shape};
use crate::tensor::tag::OpTag;
use judge::{Cpu, check, program};
use smallvec::SmallVec;

fn shape(extents: &[usize]) -> Shape {
    Shape::of(extents)
}

fn f32s(extents: &[usize]) -> Type {
    Type::new(shape(extents), DType::F32)
}

/// A graph written with few words.
#[derive(Default)]
struct Write(Graph);

impl Write {
    fn input(&mut self, extents: &[usize]) -> crate::graph::NodeId {
        self.0.input(f32s(extents))
    }

    #[track_caller]
    fn op(&mut self, op: Op, inputs: &[crate::graph::NodeId]) -> crate::graph::NodeId {
        self.0.push(op, inputs, OpTag::NONE).unwrap()
    }

    #[track_caller]
    fn map(&mut self, op: ScalarOp, inputs: &[crate::graph::NodeId]) -> crate::graph::NodeId {
        self.op(Op::Map(op), inputs)
    }

    /// A reduction whose result is as wide as its operand again.
    #[track_caller]
    fn spread(&mut self, op: ReduceOp, axis: usize, of: crate::graph::NodeId) -> crate::graph::NodeId {
        let wide = *self.0.shape(of);
        let axes = Axes::one(axis);
        let narrow = self.op(Op::Reduce { op, axes }, &[of]);
        let kept = self.op(Op::Reshape(wide.ones_at(axes)), &[narrow]);
        self.op(Op::Expand(wide), &[kept])
    }

    #[track_caller]
    fn softmax(&mut self, axis: usize, x: crate::graph::NodeId) -> crate::graph::NodeId {
        let max = self.spread(ReduceOp::Max, axis, x);
        let below = self.map(ScalarOp::Sub, &[x, max]);
        let exp = self.map(ScalarOp::Exp, &[below]);
        let sum = self.spread(ReduceOp::Sum, axis, exp);
        self.map(ScalarOp::Div, &[exp, sum])
    }
}

#[test]
fn a_chain_of_maps_is_one_kernel_over_one_axis() {
    let mut w = Write::default();
    let (a, b) = (w.input(&[3, 4, 5]), w.input(&[3, 4, 5]));
    let sum = w.map(ScalarOp::Add, &[a, b]);
    let out = w.map(ScalarOp::Mul, &[sum, a]);
    w.0.output(out);
    let program = check(&w.0);
    let [Step::Launch { launch, .. }] = &program.steps[..] else {
        panic!("{program:#?}")
    };
    assert_eq!(launch.extents, [60]);
}

#[test]
fn softmax_is_one_kernel_along_any_axis() {
    for axis in 0..3 {
        let mut w = Write::default();
        let x = w.input(&[6, 5, 7]);
        let y = w.softmax(axis, x);
        w.0.output(y);
        assert_eq!(check(&w.0).steps.len(), 1, "axis {axis}");
    }
}

#[test]
fn layer_norm_with_its_statistics_is_one_kernel() {
    let mut w = Write::default();
    let (x, gamma) = (w.input(&[8, 16]), w.input(&[16]));
    let wide = shape(&[8, 16]);
    let count = w.op(
        Op::Full {
            dtype: DType::F32,
            bits: u64::from(16_f32.to_bits()),
            shape: wide,
        },
        &[],
    );
    let sum = w.spread(ReduceOp::Sum, 1, x);
    let mean = w.map(ScalarOp::Div, &[sum, count]);
    let centred = w.map(ScalarOp::Sub, &[x, mean]);
    let square = w.map(ScalarOp::Mul, &[centred, centred]);
    let square_sum = w.op(
        Op::Reduce {
            op: ReduceOp::Sum,
            axes: Axes::one(1),
        },
        &[square],
    );
    let kept = w.op(Op::Reshape(shape(&[8, 1])), &[square_sum]);
    let spread = w.op(Op::Expand(wide), &[kept]);
    let variance = w.map(ScalarOp::Div, &[spread, count]);
    let deviation = w.map(ScalarOp::Sqrt, &[variance]);
    let normal = w.map(ScalarOp::Div, &[centred, deviation]);
    let gamma = w.op(Op::Expand(wide), &[gamma]);
    let y = w.map(ScalarOp::Mul, &[normal, gamma]);
    w.0.output(y);
    w.0.output(square_sum);
    let program = check(&w.0);
    assert_eq!(program.steps.len(), 1, "{program:#?}");
}

#[test]
fn log_sum_exp_stores_a_row_level_value() {
    let mut w = Write::default();
    let x = w.input(&[9, 11]);
    let max = w.spread(ReduceOp::Max, 1, x);
    let below = w.map(ScalarOp::Sub, &[x, max]);
    let exp = w.map(ScalarOp::Exp, &[below]);
    let sum = w.op(
        Op::Reduce {
            op: ReduceOp::Sum,
            axes: Axes::one(1),
        },
        &[exp],
    );
    let log = w.map(ScalarOp::Log, &[sum]);
    let top = w.op(
        Op::Reduce {
            op: ReduceOp::Max,
            axes: Axes::one(1),
        },
        &[x],
    );
    let y = w.map(ScalarOp::Add, &[log, top]);
    w.0.output(y);
    assert!(check(&w.0).steps.len() <= 2);
}

#[test]
fn a_product_takes_bias_and_activation_in() {
    let mut w = Write::default();
    let (x, weights, bias) = (w.input(&[2, 3, 8]), w.input(&[8, 5]), w.input(&[5]));
    let rows = w.op(Op::Reshape(shape(&[6, 8])), &[x]);
    let product = w.op(
        Op::Matmul {
            accumulate: DType::F32,
            output: DType::F32,
        },
        &[rows, weights],
    );
    let back = w.op(Op::Reshape(shape(&[2, 3, 5])), &[product]);
    let bias = w.op(Op::Expand(shape(&[2, 3, 5])), &[bias]);
    let sum = w.map(ScalarOp::Add, &[back, bias]);
    let y = w.map(ScalarOp::Tanh, &[sum]);
    w.0.output(y);
    let whole = check(&w.0);
    assert_eq!(whole.steps.len(), 1, "{whole:#?}");
    // A device with the product, but not with this epilogue, keeps the product.
    let apart = program(&w.0, Cpu::Plain);
    let library =
        |step: &Step| matches!(step, Step::Launch { source, .. } if matches!(**source, Source::Library(_)));
    let libraries: Vec<bool> = apart.steps.iter().map(library).collect();
    assert_eq!(libraries, [true, false], "{apart:#?}");
}

#[test]
fn views_of_an_argument_need_no_work() {
    let mut w = Write::default();
    let x = w.input(&[4, 6]);
    let turned = w.op(Op::Permute([1, 0].into_iter().collect()), &[x]);
    let part = w.op(
        Op::Slice {
            start: shape(&[5, 1]),
            step: [-2, 1].into_iter().collect(),
            shape: shape(&[3, 2]),
        },
        &[turned],
    );
    w.0.output(part);
    assert!(check(&w.0).steps.is_empty());
}

#[test]
fn empty_tensors_and_reductions_over_nothing() {
    let mut w = Write::default();
    let x = w.input(&[3, 0]);
    let sum = w.op(
        Op::Reduce {
            op: ReduceOp::Sum,
            axes: Axes::one(1),
        },
        &[x],
    );
    let doubled = w.map(ScalarOp::Add, &[x, x]);
    w.0.output(sum);
    w.0.output(doubled);
    check(&w.0);
}

/// Extents and attributes of a convolution.
struct Convolution {
    x: &'static [usize],
    w: &'static [usize],
    attributes: ConvAttributes,
}

fn convolutions() -> Vec<Convolution> {
    let attributes = |groups, stride, dilation, low, high| ConvAttributes {
        groups,
        stride: [stride; 3],
        dilation: [dilation; 3],
        low: [low; 3],
        high: [high; 3],
        fast: false,
    };
    vec![
        Convolution {
            x: &[2, 3, 7],
            w: &[4, 3, 3],
            attributes: attributes(1, 1, 1, 1, 1),
        },
        Convolution {
            x: &[2, 4, 6, 5],
            w: &[6, 2, 3, 2],
            attributes: attributes(2, 2, 1, 1, 0),
        },
        Convolution {
            x: &[1, 3, 8, 9],
            w: &[3, 1, 3, 3],
            attributes: attributes(3, 1, 2, 2, 1),
        },
        Convolution {
            x: &[2, 1, 3, 4, 5],
            w: &[2, 1, 2, 2, 2],
            attributes: attributes(1, 1, 1, 0, 1),
        },
        Convolution {
            x: &[1, 2, 4, 4],
            w: &[2, 2, 1, 1],
            attributes: attributes(1, 1, 1, 0, 0),
        },
    ]
}

#[test]
fn convolutions_and_their_gradients() {
    for Convolution { x, w, attributes } in convolutions() {
        let mut write = Write::default();
        let (a, b) = (write.input(x), write.input(w));
        let y = write.op(Op::Conv(attributes), &[a, b]);
        let out = *write.0.shape(y);
        let dy = write.input(&out);
        let dx = write.op(Op::ConvGradInput(attributes, shape(x)), &[dy, b]);
        let dw = write.op(Op::ConvGradWeight(attributes, shape(w)), &[a, dy]);
        let bias = write.input(&[out[1]]);
        let mut wide = vec![1; out.len()];
        wide[1] = out[1];
        let bias = write.op(Op::Reshape(shape(&wide)), &[bias]);
        let bias = write.op(Op::Expand(out), &[bias]);
        let sum = write.map(ScalarOp::Add, &[y, bias]);
        let activated = write.map(ScalarOp::Tanh, &[sum]);
        for output in [activated, dx, dw] {
            write.0.output(output);
        }
        assert_eq!(check(&write.0).steps.len(), 3, "{x:?} {w:?}");
        // The same from an operand that lies otherwise, and from one whose elements fall.
        let mut write = Write::default();
        let mut turned_extents = x.to_vec();
        turned_extents.swap(0, 1);
        let (a, b) = (write.input(&turned_extents), write.input(w));
        let mut order: Vec<u8> = (0..x.len() as u8).collect();
        order.swap(0, 1);
        let turned = write.op(Op::Permute(order.into_iter().collect()), &[a]);
        let mut step: Vec<i64> = vec![1; x.len()];
        step[2] = -1;
        let mut start = vec![0; x.len()];
        start[2] = x[2] - 1;
        let flip = Op::Slice {
            start: shape(&start),
            step: step.into_iter().collect(),
            shape: shape(x),
        };
        let flipped = write.op(flip, &[turned]);
        for operand in [turned, flipped] {
            let y = write.op(Op::Conv(attributes), &[operand, b]);
            write.0.output(y);
        }
        check(&write.0);
    }
}

#[test]
fn attentions_with_the_op_and_in_steps() {
    for (batch, queries, keys, depth, width, turned) in [
        (vec![], 1, 1, 1, 1, false),
        (vec![2, 3], 5, 7, 3, 4, true),
        (vec![2], 3, 260, 21, 83, false),
        (vec![1], 60, 300, 3, 40, true),
        // Several blocks of queries and of keys, and more than one thread.
        (vec![2], 300, 300, 4, 3, false),
    ] {
        for causal in [false, true] {
            let mut w = Write::default();
            let extents = |rows: usize, columns: usize| [batch.as_slice(), &[rows, columns]].concat();
            let (q, k, v) = (
                w.input(&extents(queries, depth)),
                w.input(&match turned {
                    true => extents(depth, keys),
                    false => extents(keys, depth),
                }),
                w.input(&extents(keys, width)),
            );
            let rank = batch.len() as u8 + 2;
            let mut axes: SmallVec<[u8; MAX_RANK]> = (0..rank).collect();
            axes.swap(batch.len(), batch.len() + usize::from(turned));
            let k = w.op(Op::Permute(axes), &[k]);
            let mask = w.input(&extents(queries, keys));
            let zero = w.op(
                Op::Full {
                    dtype: DType::F32,
                    bits: 0,
                    shape: shape(&extents(queries, keys)),
                },
                &[],
            );
            let seen = w.op(Op::Map(ScalarOp::Lt), &[mask, zero]);
            let attention = Op::Attention {
                causal,
                scale: 0.25_f64.to_bits(),
            };
            for operands in [vec![q, k, v], vec![q, k, v, mask], vec![q, k, v, seen]] {
                let y = w.op(attention.clone(), &operands);
                w.0.output(y);
            }
            check(&w.0);
        }
    }
    // Without keys nothing is seen; without depth all scores are equal.
    let mut w = Write::default();
    let (q, k, v) = (w.input(&[2, 3]), w.input(&[0, 3]), w.input(&[0, 4]));
    let (flat_q, flat_k, few) = (w.input(&[2, 0]), w.input(&[5, 0]), w.input(&[5, 4]));
    let attention = Op::Attention {
        causal: false,
        scale: 1.0_f64.to_bits(),
    };
    for operands in [[q, k, v], [flat_q, flat_k, few]] {
        let y = w.op(attention.clone(), &operands);
        w.0.output(y);
    }
    check(&w.0);
}

#[test]
fn scatters_scans_and_sorts_along_every_axis() {
    for axis in 0..3_u8 {
        let mut w = Write::default();
        let extents = [3, 4, 5];
        let mut updates = extents;
        updates[usize::from(axis)] = 6;
        let (base, update) = (w.input(&extents), w.input(&updates));
        let index = w.0.input(Type::new(shape(&updates), DType::I64));
        for mode in [
            ScatterMode::Set,
            ScatterMode::Add,
            ScatterMode::Max,
            ScatterMode::Min,
        ] {
            let y = w.op(Op::Scatter { axis, mode }, &[base, index, update]);
            w.0.output(y);
        }
        for reverse in [false, true] {
            for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min] {
                let y = w.op(Op::Scan { op, axis, reverse }, &[base]);
                w.0.output(y);
            }
        }
        for descending in [false, true] {
            for (x, count) in [
                (index, updates[usize::from(axis)]),
                (base, extents[usize::from(axis)]),
                (base, 2),
                (base, 0),
            ] {
                let order = Op::ArgSort {
                    axis,
                    descending,
                    count,
                };
                let y = w.op(order, &[x]);
                w.0.output(y);
            }
            let y = w.op(Op::Sort { axis, descending }, &[base]);
            w.0.output(y);
        }
        check(&w.0);
    }
}
