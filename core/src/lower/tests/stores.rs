//! What a kernel stores besides its root.

use super::{Write, check};
use crate::graph::Op;
use crate::hal::DType;
use crate::hal::ir::{ReduceOp, ScalarOp};
use crate::lower::Step;
use crate::tensor::shape::Axes;

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
