//! Ops that are written with others.

use super::numeric::{Given, check_twice, spread};
use crate::context::Context;
use crate::grad::{grad, vjp};
use crate::tensor::Tensor;
use std::sync::Arc;

/// `function` of one argument of both signs.
fn one(name: &str, function: impl Fn(&Tensor) -> Tensor) {
    check_twice(name, |x| function(&x[0]), &[Given::any(11, &[3, 4])]);
}

#[test]
fn functions_of_one_tensor() {
    one("softmax", |x| x.softmax(-1));
    one("log_softmax", |x| x.log_softmax(0));
    one("logsumexp", |x| x.logsumexp_axes(1));
    one("var", |x| x.var_axes(1, 1));
    one("mean", |x| x.mean());
    one("gelu", Tensor::gelu);
    one("silu", Tensor::silu);
    one("sigmoid", Tensor::sigmoid);
    one("softplus", Tensor::softplus);
    one("sinh", Tensor::sinh);
    one("atan", Tensor::atan);
    one("relu", Tensor::relu);
}

#[test]
fn functions_of_several_tensors() {
    check_twice(
        "layer_norm",
        |x| x[0].layer_norm([4], &x[1], &x[2], 1e-5),
        &[Given::any(1, &[3, 4]), Given::any(2, &[4]), Given::any(3, &[4])],
    );
    let statistics = |x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>| {
        let normal = x.batch_norm_train(weight, bias, 1e-3);
        normal.output * normal.mean.exp().sum() + normal.variance.sum()
    };
    let image = || Given::any(1, &[3, 2, 2]);
    check_twice("batch_norm_train", |x| statistics(&x[0], None, None), &[image()]);
    check_twice(
        "batch_norm_train with a weight",
        |x| statistics(&x[0], Some(&x[1]), None),
        &[image(), Given::any(2, &[2])],
    );
    check_twice(
        "batch_norm_train with a bias",
        |x| statistics(&x[0], None, Some(&x[1])),
        &[image(), Given::any(3, &[2])],
    );
    check_twice(
        "batch_norm_train with both",
        |x| statistics(&x[0], Some(&x[1]), Some(&x[2])),
        &[image(), Given::any(2, &[2]), Given::any(3, &[2])],
    );
    check_twice(
        "division that broadcasts",
        |x| &x[0] / (&x[1] * &x[1] + 1.0),
        &[Given::any(1, &[3, 4]), Given::any(2, &[3, 1])],
    );
}

#[test]
fn the_way_back_belongs_to_no_context_and_keeps_no_device_open() {
    let cx = Context::new("cpu").unwrap();
    let backend = crate::hal::runtime().backend("cpu").unwrap();
    let device = backend.open(&crate::hal::DeviceOptions::new(0)).unwrap();
    let gradient = |cx: &Context| {
        let x = Tensor::from_slice(&[1.0_f32, 2.0], 2, cx);
        grad(|x: &Tensor| (x.softmax(0) * x).sum()).call(&x)
    };
    let engine = {
        let one = Context::on(device.clone());
        let other = Context::on(device.clone());
        let gradients = [&one, &other].map(gradient);
        other.set_seed(7);
        let seeds = gradients
            .each_ref()
            .map(|own| own.context().unwrap().random_state().0);
        assert_eq!(seeds, [0, 7], "each lies in the context of its operands");
        let expected = gradient(&cx).to_vec::<f32>().unwrap();
        assert_eq!(gradients[1].to_vec::<f32>().unwrap(), expected);
        Arc::downgrade(one.engine())
    };
    assert_eq!(engine.strong_count(), 0);
}

#[test]
fn the_way_back_through_an_op_is_one_program() {
    let cx = Context::new("cpu").unwrap();
    let mut next = spread(3, -2.0, 2.0);
    let values: Vec<f64> = (0..64).map(|_| next()).collect();
    let x = Tensor::from_slice(&values, [4, 16], &cx);
    let (y, pullback) = vjp(|x: &Tensor| x.softmax(-1), &x);
    let allocations = || cx.device().memory_stats().unwrap().allocations;
    let first = pullback.call(&y);
    let before = allocations();
    let gradient = pullback.call(&y);
    // The gradient itself, and the temporaries of the program at most.
    assert!(allocations() - before <= 2, "{}", allocations() - before);
    drop(first);
    let y = y.to_vec::<f64>().unwrap();
    let gradient = gradient.to_vec::<f64>().unwrap();
    for (y, gradient) in y.chunks(16).zip(gradient.chunks(16)) {
        let dot: f64 = y.iter().map(|y| y * y).sum();
        for (y, gradient) in y.iter().zip(gradient) {
            assert!((gradient - y * (y - dot)).abs() < 1e-15);
        }
    }
}
