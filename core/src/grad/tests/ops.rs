//! Every op of graphs.

use super::numeric::{Given, check, check_twice};
use crate::context::Context;
use crate::grad::vjp;
use crate::graph::{ConvAttributes, Op, ScatterMode};
use crate::hal::DType;
use crate::hal::ir::ReduceOp;
use crate::tensor::shape::{Axes, Shape};
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};

fn op(op: Op, inputs: &[&Tensor]) -> Tensor {
    apply(op, inputs, OpTag::new("test"))
}

fn one(name: &str, of: Op, given: Given) {
    check_twice(name, |x| op(of.clone(), &[&x[0]]), &[given]);
}

fn two(name: &str, of: &Op, a: Given, b: Given) {
    check_twice(name, |x| op(of.clone(), &[&x[0], &x[1]]), &[a, b]);
}

fn axes(axes: &[usize]) -> Axes {
    axes.iter().copied().collect()
}

#[test]
fn reductions() {
    for (name, of) in [
        ("sum", ReduceOp::Sum),
        ("prod", ReduceOp::Prod),
        ("max", ReduceOp::Max),
        ("min", ReduceOp::Min),
    ] {
        for along in [&[0][..], &[1], &[0, 2], &[0, 1, 2]] {
            let reduce = Op::Reduce {
                op: of,
                axes: axes(along),
            };
            one(name, reduce, Given::any(3, &[2, 3, 2]));
        }
    }
}

#[test]
fn products_with_zeros() {
    let x = Given::new(&[3, 3], &[0.0, 2.0, 3.0, 0.0, 0.0, 5.0, 1.0, -2.0, 4.0]);
    let prod = Op::Reduce {
        op: ReduceOp::Prod,
        axes: Axes::one(1),
    };
    one("prod", prod, x.clone());
    for reverse in [false, true] {
        let scan = Op::Scan {
            op: ReduceOp::Prod,
            axis: 1,
            reverse,
        };
        one("cumprod", scan, x.clone());
    }
}

#[test]
fn equal_extremes_share_the_gradient() {
    let cx = Context::new("cpu").unwrap();
    let x = Tensor::from_slice(&[1.0_f32, 3.0, 3.0, 0.0], [4], &cx);
    let max = Op::Reduce {
        op: ReduceOp::Max,
        axes: Axes::one(0),
    };
    let (_, pullback) = vjp(|x: &Tensor| op(max.clone(), &[x]), &x);
    let gradient = pullback.call(&Tensor::scalar(1.0_f32, &cx));
    assert_eq!(gradient.to_vec::<f32>().unwrap(), [0.0, 0.5, 0.5, 0.0]);
}

#[test]
fn running_ops() {
    for of in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min] {
        for (axis, reverse) in [(0, false), (0, true), (1, false), (1, true)] {
            let scan = Op::Scan {
                op: of,
                axis,
                reverse,
            };
            one(of.name(), scan, Given::any(5, &[5, 3]));
        }
    }
}

#[test]
fn views() {
    let x = || Given::any(7, &[2, 3, 4]);
    one("permute", Op::Permute([2, 0, 1].into_iter().collect()), x());
    one(
        "expand",
        Op::Expand(Shape::of(&[5, 2, 3])),
        Given::any(1, &[2, 1]),
    );
    one("reshape", Op::Reshape(Shape::of(&[4, 6])), x());
    for (start, step, shape) in [
        ([0, 1, 0], [1, 1, 1], [2, 2, 4]),
        ([1, 2, 3], [-1, -1, -1], [2, 3, 4]),
        ([0, 0, 1], [1, 2, 2], [2, 2, 2]),
        ([1, 2, 3], [-1, -2, -3], [1, 2, 2]),
        ([0, 0, 0], [1, 1, 3], [2, 3, 1]),
        ([0, 0, 0], [1, 1, 1], [2, 0, 4]),
    ] {
        let slice = Op::Slice {
            start: Shape::of(&start),
            step: step.into_iter().collect(),
            shape: Shape::of(&shape),
        };
        one(&format!("{slice:?}"), slice, x());
    }
}

#[test]
fn windows() {
    for size in 1..5 {
        for step in 1..4 {
            for dilation in 1..4 {
                let window = |axis| Op::Window {
                    axis,
                    size,
                    step,
                    dilation,
                };
                let name = format!("{:?}", window(0));
                let of = window(0);
                check(&name, |x| op(of.clone(), &[&x[0]]), &[Given::any(1, &[11, 2])]);
                let of = window(1);
                check(&name, |x| op(of.clone(), &[&x[0]]), &[Given::any(1, &[2, 11])]);
            }
        }
    }
    let window = Op::Window {
        axis: 1,
        size: 3,
        step: 2,
        dilation: 1,
    };
    one("window", window, Given::any(1, &[2, 8, 2]));
}

#[test]
fn pads_and_concatenations() {
    let pad = Op::Pad {
        low: Shape::of(&[1, 0]),
        shape: Shape::of(&[4, 5]),
        bits: 2.5_f64.to_bits(),
    };
    one("pad", pad, Given::any(1, &[2, 3]));
    check_twice(
        "concat",
        |x| op(Op::Concat { axis: 1 }, &[&x[0], &x[1], &x[0]]),
        &[Given::any(1, &[2, 3]), Given::any(2, &[2, 1])],
    );
}

fn indices(values: &[i64], shape: &[usize], x: &Tensor) -> Tensor {
    Tensor::from_slice(values, shape.to_vec(), x.context().unwrap())
}

#[test]
fn gathers() {
    // One place twice, one never, one outside.
    check_twice(
        "gather",
        |x| {
            let index = indices(&[0, 2, 2, 9, 1, 0], &[3, 2], &x[0]);
            op(Op::Gather { axis: 0 }, &[&x[0], &index])
        },
        &[Given::any(1, &[4, 2])],
    );
}

#[test]
fn scatters() {
    for mode in [
        ScatterMode::Set,
        ScatterMode::Add,
        ScatterMode::Max,
        ScatterMode::Min,
    ] {
        check_twice(
            &format!("scatter {mode:?}"),
            |x| {
                let index = indices(&[0, 2, 2, -1, 0, 7, 3, 3], &[4, 2], &x[0]);
                op(Op::Scatter { axis: 0, mode }, &[&x[0], &index, &x[1]])
            },
            &[Given::any(1, &[5, 2]), Given::any(2, &[4, 2])],
        );
    }
}

#[test]
fn products_of_matrices() {
    let matmul = Op::Matmul {
        accumulate: DType::F64,
        output: DType::F64,
    };
    two("matmul", &matmul, Given::any(1, &[3, 4]), Given::any(2, &[4, 2]));
    two(
        "batched matmul",
        &matmul,
        Given::any(1, &[2, 3, 1]),
        Given::any(2, &[2, 1, 2]),
    );
}

#[test]
fn attentions() {
    let given = [
        Given::any(1, &[2, 3, 2]),
        Given::any(2, &[2, 4, 2]),
        Given::any(3, &[2, 4, 1]),
    ];
    for causal in [false, true] {
        let attention = Op::Attention {
            causal,
            scale: 0.7_f64.to_bits(),
        };
        let name = format!("attention, causal {causal}");
        check_twice(&name, |x| op(attention.clone(), &[&x[0], &x[1], &x[2]]), &given);
        let masked = [given.as_slice(), &[Given::any(4, &[2, 3, 4])]].concat();
        let name = format!("attention with a mask, causal {causal}");
        check_twice(
            &name,
            |x| op(attention.clone(), &[&x[0], &x[1], &x[2], &x[3]]),
            &masked,
        );
    }
}

/// Attributes, and extents of input, weights and output.
type ConvCase = (ConvAttributes, Vec<usize>, Vec<usize>, Vec<usize>);

fn conv_cases() -> Vec<ConvCase> {
    let attributes = ConvAttributes {
        groups: 1,
        stride: [1; 3],
        dilation: [1; 3],
        low: [0; 3],
        high: [0; 3],
        fast: false,
    };
    vec![
        (attributes, vec![2, 2, 5], vec![3, 2, 3], vec![2, 3, 3]),
        (
            ConvAttributes {
                groups: 2,
                stride: [2, 1, 1],
                dilation: [1, 2, 1],
                low: [1, 0, 0],
                high: [0, 2, 0],
                fast: false,
            },
            vec![1, 2, 4, 3],
            vec![4, 1, 2, 2],
            vec![1, 4, 2, 3],
        ),
    ]
}

#[test]
fn convolutions() {
    for (attributes, x, w, y) in conv_cases() {
        let (a, b, c) = (Given::any(1, &x), Given::any(2, &w), Given::any(3, &y));
        two("conv", &Op::Conv(attributes), a.clone(), b.clone());
        let by_input = Op::ConvGradInput(attributes, Shape::of(&x));
        two("conv_grad_input", &by_input, c.clone(), b);
        let by_weight = Op::ConvGradWeight(attributes, Shape::of(&w));
        two("conv_grad_weight", &by_weight, a, c);
    }
}

#[test]
fn casts_between_floats_pass_the_gradient() {
    let cx = Context::new("cpu").unwrap();
    let x = Tensor::from_slice(&[1.5_f32, 2.0], [2], &cx);
    let (_, pullback) = vjp(|x: &Tensor| op(Op::Cast(DType::F64), &[x]), &x);
    let gradient = pullback.call(&Tensor::from_slice(&[0.25_f64, 3.0], [2], &cx));
    assert_eq!(gradient.to_vec::<f32>().unwrap(), [0.25, 3.0]);
    let integral = |x: &Tensor| op(Op::Cast(DType::F32), &[&op(Op::Cast(DType::I32), &[x])]);
    let (_, pullback) = vjp(integral, &x);
    let gradient = pullback.call(&Tensor::from_slice(&[1.0_f32, 1.0], [2], &cx));
    assert_eq!(gradient.to_vec::<f32>().unwrap(), [0.0, 0.0]);
}
