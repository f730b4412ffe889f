//! Training steps of a LeNet and of an encoder with every value watched, and with a look for NaN.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::{Arc, Mutex};
use thalweg::observe::{Phase, Selector};
use thalweg::ops::{ClassLossOptions, ConvOptions};
use thalweg::{Context, DType, Result, Tensor, Tree, jit, value_and_grad};
use thalweg_nn::module::{trainable, with_trainable};
use thalweg_nn::{Conv2d, Dense, Flatten, Layer, MaxPool2d, Relu, Sequential, TransformerEncoderLayer};

fn lenet(cx: &Context) -> Result<Sequential> {
    Ok(Sequential::new()
        .then(Conv2d::new(1, 4, [5, 5], ConvOptions::new().padding(2), cx)?)
        .then(Relu)
        .then(MaxPool2d::new(2))
        .then(Conv2d::new(4, 6, [3, 3], ConvOptions::new(), cx)?)
        .then(Relu)
        .then(MaxPool2d::new(2))
        .then(Flatten)
        .then(Dense::new(54, 20, cx)?)
        .then(Relu)
        .then(Dense::new(20, 10, cx)?))
}

fn encoder(cx: &Context) -> Result<Sequential> {
    Ok(Sequential::new()
        .then(TransformerEncoderLayer::new(16, 2, 32, cx)?)
        .then(TransformerEncoderLayer::new(16, 2, 32, cx)?)
        .then(Flatten)
        .then(Dense::new(16 * 6, 10, cx)?))
}

/// Forward, backward and an update by plain descent.
fn step(net: &Sequential, (x, y): &(Tensor, Tensor)) -> (Sequential, Tensor) {
    let loss = |values: &Vec<Tensor>| {
        let net = with_trainable(net, values);
        net.forward(x).cross_entropy(y, ClassLossOptions::new())
    };
    let values = trainable(net);
    let (loss, gradients) = value_and_grad(loss).call(&values);
    let update = |(value, gradient): (&Tensor, &Tensor)| value - gradient * 0.01;
    let values: Vec<Tensor> = values.iter().zip(&gradients).map(update).collect();
    (with_trainable(net, &values), loss)
}

fn bits(tensor: &Tensor) -> Vec<u64> {
    match tensor.dtype().unwrap() {
        DType::F32 => (tensor.to_vec::<f32>().unwrap().iter())
            .map(|x| u64::from(x.to_bits()))
            .collect(),
        DType::I64 => tensor
            .to_vec::<i64>()
            .unwrap()
            .iter()
            .map(|&x| x as u64)
            .collect(),
        DType::Bool => tensor
            .to_vec::<bool>()
            .unwrap()
            .iter()
            .map(|&x| u64::from(x))
            .collect(),
        other => panic!("{other}"),
    }
}

fn all(result: &(Sequential, Tensor)) -> Vec<Vec<u64>> {
    let mut all = vec![bits(&result.1)];
    result.0.visit(&mut |tensor| all.push(bits(tensor)));
    all
}

type Values = Vec<((u32, &'static str), Vec<u64>)>;

/// What a step computes forward, by number and op of the call.
fn watched(cx: &Context, run: &dyn Fn() -> (Sequential, Tensor)) -> (Vec<Vec<u64>>, Values, usize) {
    let seen = Arc::new(Mutex::new((Values::new(), 0)));
    let sink = Arc::clone(&seen);
    let watch = cx.watch(Selector::all(), move |value| {
        let mut seen = sink.lock().unwrap();
        seen.1 += 1;
        let elements = bits(value.tensor().unwrap());
        if value.call().phase == Phase::Forward {
            seen.0.push(((value.call().number, value.call().op), elements));
        }
    });
    thalweg::observe::restart_calls();
    let result = all(&run());
    drop(watch);
    let (mut values, count) = std::mem::take(&mut *seen.lock().unwrap());
    values.sort();
    (result, values, count)
}

fn every_value(net: fn(&Context) -> Result<Sequential>, shape: &[usize]) {
    let cx = Context::new("cpu").unwrap();
    let net = net(&cx).unwrap();
    let y: Vec<i64> = (0..shape[0] as i64).map(|row| row * 7 % 10).collect();
    let data = (
        Tensor::randn(shape, DType::F32, &cx),
        Tensor::from_slice(&y, y.len(), &cx),
    );
    let compiled = jit(|net: &Sequential, data: &(Tensor, Tensor)| step(net, data));
    let plain = all(&compiled.call((&net, &data)));
    let (result, values, count) = watched(&cx, &|| compiled.call((&net, &data)));
    assert_eq!(plain, result, "a watched step");
    assert_eq!(plain, all(&compiled.call((&net, &data))), "a step after it");
    assert!(
        count > 30 && values.len() > 8,
        "{count} values, {} forward",
        values.len()
    );
    let (eager, ops, _) = watched(&cx, &|| step(&net, &data));
    assert_eq!(plain, eager, "an eager step");
    let calls = |values: &Values| values.iter().map(|(call, _)| *call).collect::<Vec<_>>();
    assert_eq!(calls(&ops), calls(&values));
    assert_eq!(ops, values);
    cx.check_numerics(true);
    for _ in 0..3 {
        assert_eq!(plain, all(&compiled.call((&net, &data))), "a checked step");
    }
    let poisoned = (&data.0 * 1e38 * 10.0, data.1.clone());
    let (_, loss) = compiled.call((&net, &poisoned));
    let error = loss.item::<f32>().unwrap_err();
    assert!(error.numerics().is_some_and(|birth| birth.op == "mul"), "{error}");
}

#[test]
fn every_value_of_a_lenet_step() {
    every_value(lenet, &[4, 1, 16, 16]);
}

#[test]
fn every_value_of_an_encoder_step() {
    every_value(encoder, &[3, 6, 16]);
}
