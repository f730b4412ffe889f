//! Training, resuming, saving and callbacks.
#![allow(clippy::unwrap_used, reason = "a test")]

mod callbacks;
mod checkpoints;
mod epochs;
mod failures;
mod faults;
mod observed;
mod steps;
mod structure;

use thalweg::{Context, Mode, Tensor};
use thalweg_nn::data::{Column, Loader, Rows, Samples};
use thalweg_nn::metrics::Deviation;
use thalweg_nn::optim::{Adam, Clip};
use thalweg_nn::{BatchNorm, Dense, Dropout, Layer, Model, Module, Trained, loss};

#[derive(Clone, Module)]
struct Net {
    first: Dense,
    norm: BatchNorm,
    dropout: Dropout,
    second: Dense,
}

impl Layer for Net {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.norm.forward(&self.first.forward(x)).tanh();
        self.second.forward(&self.dropout.forward(&x))
    }
}

fn context(mode: Mode) -> Context {
    let cx = Context::new("cpu").unwrap();
    cx.set_seed(3);
    cx.set_mode(mode);
    cx
}

fn net(cx: &Context) -> Net {
    Net {
        first: Dense::new(3, 8, cx).unwrap(),
        norm: BatchNorm::new(8, cx).unwrap(),
        dropout: Dropout::new(0.05, cx),
        second: Dense::new(8, 1, cx).unwrap(),
    }
}

/// Samples of a smooth function.
fn samples() -> Samples {
    let x: Vec<f32> = (0..120).map(|i| ((i * 37 % 100) as f32) / 50.0 - 1.0).collect();
    let y: Vec<f32> = x.chunks(3).map(|x| x[0] * x[1] + 0.5 * x[2]).collect();
    Samples::new(Rows::new(x, &[3]).unwrap(), Rows::new(y, &[1]).unwrap()).unwrap()
}

fn loader() -> Loader {
    Loader::new(samples(), 10).shuffle(5)
}

fn model(cx: &Context) -> Model<Net> {
    Model::new(net(cx), loss::mse, Adam::new(0.02), cx).clip(Clip::Norm(5.0))
}

/// Names and bytes of all parameters and states.
fn weights(model: &Model<Net>) -> Vec<(String, Vec<u8>)> {
    let bytes = |tensor| Column::of(&tensor).unwrap().to_le_bytes();
    model
        .named()
        .into_iter()
        .map(|(name, tensor)| (name, bytes(tensor)))
        .collect()
}

#[test]
fn training_lowers_the_loss_and_both_modes_give_the_same_bits() {
    let mut results = Vec::new();
    for mode in [Mode::Eager, Mode::Graph] {
        let cx = context(mode);
        let mut model = model(&cx).metric(Deviation::mse());
        let before = model.eval(&loader()).unwrap();
        model.train(10, &loader(), ()).unwrap();
        let after = model.eval(&loader()).unwrap();
        assert!(after["loss"] < before["loss"] * 0.5, "{before:?} {after:?}");
        assert!((after["loss"] - after["mse"]).abs() < 1e-6);
        results.push(weights(&model));
    }
    assert_eq!(results[0], results[1]);
    let names: Vec<&str> = results[0].iter().map(|(name, _)| name.as_str()).collect();
    let wanted = [
        "first.weight",
        "first.bias",
        "norm.weight",
        "norm.bias",
        "norm.running_mean",
        "norm.running_var",
        "dropout.key",
        "second.weight",
        "second.bias",
    ];
    assert_eq!(names, wanted);
    // Running statistics have moved.
    assert!(results[0][4].1.iter().any(|&byte| byte != 0));
}
