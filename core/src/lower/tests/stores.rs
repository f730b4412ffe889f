//! What a kernel stores besides its root.

use super::judge::Cpu;
use super::{Write, check};
use crate::graph::Op;
use crate::hal::DType;
use crate::hal::ir::{ReduceOp, ScalarOp};
use crate::lower::{Given, Source, Step, lower};
use crate::tensor::shape::{Axes, Shape};
use crate::types::layout::Layout;

#[test]
fn a_product_with_an_epilogue_stores_one_value() {
    let mut w = Write::default();
    let (x, a, b) = (w.input(&[8, 4]), w.input(&[8, 16]), w.input(&[16, 4]));
    let (accumulate, output) = (DType::F32, DType::F32);
    let product = w.op(Op::Matmul { accumulate, output }, &[a, b]);
    let beside = w.map(ScalarOp::Exp, &[x]);
    let sum = w.map(ScalarOp::Add, &[product, beside]);
    w.0.output(sum);
    w.0.output(beside);
    check(&w.0);
}

#[test]
fn a_sum_of_products_keeps_one_sum() {
    let mut w = Write::default();
    let pairs: Vec<_> = (0..6).map(|_| (w.input(&[8, 16]), w.input(&[16, 4]))).collect();
    let before = w.input(&[8, 4]);
    let (accumulate, output) = (DType::F32, DType::F32);
    let products: Vec<_> = (pairs.iter())
        .map(|&(a, b)| w.op(Op::Matmul { accumulate, output }, &[a, b]))
        .collect();
    let mut sum = products[0];
    for &product in &products[1..] {
        sum = w.map(ScalarOp::Add, &[sum, product]);
    }
    let after = w.map(ScalarOp::Sub, &[before, sum]);
    w.0.output(after);
    let program = check(&w.0);
    let buffers = |step: &Step| match step {
        Step::Launch { launch, .. } => launch.arguments.len(),
        Step::Fill { .. } => 0,
    };
    let buffers: Vec<usize> = program.steps.iter().map(buffers).collect();
    // Operands, the sum before and the sum behind; at the end what it is taken from, too.
    assert_eq!(buffers, [3, 4, 4, 4, 4, 5], "{program:#?}");
}

#[test]
fn a_product_that_is_added_to_its_operand_is_computed_once() {
    let mut w = Write::default();
    let (accumulate, output) = (DType::F32, DType::F32);
    let mut x = w.input(&[8, 8]);
    for _ in 0..4 {
        let weight = w.input(&[8, 8]);
        let product = w.op(Op::Matmul { accumulate, output }, &[x, weight]);
        let kept = w.map(ScalarOp::Exp, &[product]);
        x = w.map(ScalarOp::Add, &[x, kept]);
    }
    w.0.output(x);
    let program = check(&w.0);
    let is_product =
        |step: &&Step| matches!(step, Step::Launch { source, .. } if matches!(**source, Source::Library(_)));
    assert_eq!(program.steps.iter().filter(is_product).count(), 4, "{program:#?}");
    assert!(program.steps.len() <= 5, "{program:#?}");
}

#[test]
fn what_comes_before_a_stored_value_is_not_stored() {
    let mut w = Write::default();
    let (x, b, c) = (w.input(&[8, 16]), w.input(&[8, 16]), w.input(&[16, 4]));
    let sum = w.map(ScalarOp::Add, &[x, b]);
    let kept = w.map(ScalarOp::Max, &[sum, b]);
    let (accumulate, output) = (DType::F32, DType::F32);
    let product = w.op(Op::Matmul { accumulate, output }, &[kept, c]);
    let axes = Axes::one(1);
    let op = ReduceOp::Sum;
    let total = w.op(Op::Reduce { op, axes }, &[kept]);
    w.0.output(product);
    w.0.output(total);
    let program = check(&w.0);
    // The product's operand and the sums: what the operand was made from is read by no one.
    assert_eq!(program.locals.len(), 3, "{program:#?}");
    assert_eq!(program.steps.len(), 2, "{program:#?}");
    assert!(
        program
            .steps
            .iter()
            .all(|step| matches!(step, Step::Launch { .. }))
    );
}

#[test]
fn a_number_of_the_launch_has_no_buffer() {
    let mut w = Write::default();
    let (x, number) = (w.input(&[8, 16]), w.input(&[8, 16]));
    let sum = w.map(ScalarOp::Add, &[x, number]);
    w.0.output(sum);
    let given = [
        Given::Buffer(Layout::contiguous(Shape::of(&[8, 16]))),
        Given::Scalar(1),
    ];
    let program = lower(&w.0, &given, &Cpu::All).unwrap();
    assert_eq!(
        (program.steps.len(), program.locals.len()),
        (1, 1),
        "{program:#?}"
    );
}

#[test]
fn what_many_rows_share_is_computed_once() {
    let steps = |rows: usize, functions: usize| {
        let mut w = Write::default();
        let (x, mut row) = (w.input(&[rows, 1024]), w.input(&[1, 1024]));
        for _ in 0..functions {
            row = w.map(ScalarOp::Exp, &[row]);
        }
        let wide = w.op(Op::Expand(Shape::of(&[rows, 1024])), &[row]);
        let sum = w.map(ScalarOp::Add, &[x, wide]);
        w.0.output(sum);
        check(&w.0).steps.len()
    };
    assert_eq!(steps(64, 1), 2);
    // Too few rows, or nothing but a load.
    assert_eq!(steps(16, 1), 1);
    assert_eq!(steps(64, 0), 1);
}
