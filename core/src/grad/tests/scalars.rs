//! Every scalar op.

use super::numeric::{Given, check_twice};
use crate::context::Context;
use crate::grad::vjp;
use crate::graph::Op;
use crate::hal::ir::{ScalarOp, Slope};
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};
use crate::value::saves;

fn map(op: ScalarOp, inputs: &[Tensor]) -> Tensor {
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    apply(Op::Map(op), &inputs, OpTag::new("test"))
}

/// Arguments where the op is smooth; `None` where it has no gradient.
fn smooth(op: ScalarOp) -> Option<Vec<Given>> {
    let shape = &[2, 3];
    let positive = |seed| Given::between(seed, shape, 0.3, 2.0);
    let all = 1..=op.arity() as u64;
    Some(match (op, op.slope()) {
        (ScalarOp::Div, _) => vec![Given::any(1, shape), positive(2)],
        (ScalarOp::Pow, _) => vec![positive(1), Given::any(2, shape)],
        // Quotients stay away from whole numbers.
        (ScalarOp::Rem, _) => vec![
            Given::new(shape, &[5.3, -5.3, 7.4, 0.4, -0.6, 9.0]),
            Given::new(shape, &[2.0, 2.0, -3.0, 1.0, 1.0, 4.0]),
        ],
        (ScalarOp::Select, _) => vec![Given::any(1, shape), Given::any(2, shape)],
        (_, Slope::Flat) => return None,
        (_, Slope::Everywhere) => all.map(|seed| Given::any(seed, shape)).collect(),
        (_, Slope::Positive) => all.map(positive).collect(),
    })
}

#[test]
fn every_scalar_op_has_the_gradient_of_its_differences() {
    for &op in ScalarOp::ALL {
        let Some(given) = smooth(op) else {
            assert_eq!(saves(&Op::Map(op), 0b111), None, "{op}");
            continue;
        };
        check_twice(
            op.name(),
            |x| {
                if op == ScalarOp::Select {
                    let condition = map(ScalarOp::Lt, &[x[0].detach(), x[1].detach()]);
                    return map(op, &[condition, x[0].clone(), x[1].clone()]);
                }
                map(op, x)
            },
            &given,
        );
    }
}

/// The gradients of `op` at numbers, for a gradient of 1.
fn at(op: ScalarOp, x: &[f64]) -> Vec<f64> {
    let cx = Context::new("cpu").unwrap();
    let x: Vec<Tensor> = x.iter().map(|&x| Tensor::from_slice(&[x], [1], &cx)).collect();
    let (_, pullback) = vjp(|x: &Vec<Tensor>| map(op, x), &x);
    let gradients = pullback.call(&Tensor::from_slice(&[1.0], [1], &cx));
    gradients
        .iter()
        .map(|gradient| gradient.item().unwrap())
        .collect()
}

#[test]
fn at_kinks_the_choice_is_pytorchs() {
    assert_eq!(at(ScalarOp::Abs, &[0.0]), [0.0]);
    assert_eq!(at(ScalarOp::Sqrt, &[0.0]), [f64::INFINITY]);
    assert_eq!(at(ScalarOp::Max, &[1.0, 1.0]), [0.5, 0.5]);
    assert_eq!(at(ScalarOp::Min, &[1.0, 1.0]), [0.5, 0.5]);
    assert_eq!(at(ScalarOp::Max, &[f64::NAN, 1.0]), [1.0, 1.0]);
    assert_eq!(at(ScalarOp::Pow, &[0.0, 0.0]), [0.0, 0.0]);
    assert_eq!(at(ScalarOp::Pow, &[0.0, 1.0]), [1.0, 0.0]);
    assert_eq!(at(ScalarOp::Pow, &[0.0, 2.0]), [0.0, 0.0]);
    assert_eq!(at(ScalarOp::Pow, &[-2.0, 3.0])[0], 12.0);
    assert_eq!(at(ScalarOp::Rem, &[7.0, 2.0]), [1.0, -3.0]);
    assert_eq!(at(ScalarOp::Log, &[0.0]), [f64::INFINITY]);
}
