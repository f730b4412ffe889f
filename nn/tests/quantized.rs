//! Layers of 8 bits against the same sums in f64, and against f32.
#![allow(clippy::unwrap_used, reason = "a test")]

use thalweg::ops::{AttentionOptions, ConvOptions};
use thalweg::{Context, DType, Tensor, jit};
use thalweg_nn::{
    BatchNorm, Calibration, Conv2d, Dense, Layer, Module, Parameter, QuantizedConv2d, QuantizedDense,
    TransformerDecoderLayer, TransformerEncoderLayer,
};

const INPUTS: usize = 300;
const OUTPUTS: usize = 70;
const ROWS: usize = 64;

/// Numbers that look normal: sums of four uniform ones, of variance 1.
fn normal(seed: u64, count: usize, shift: f32) -> Vec<f32> {
    let mut state = seed;
    let mut uniform = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..count)
        .map(|_| (uniform() + uniform() + uniform() + uniform()) * 3.0_f32.sqrt() + shift)
        .collect()
}

fn dense(cx: &Context) -> Dense {
    Dense::new(INPUTS, OUTPUTS, cx).unwrap()
}

fn input(cx: &Context, seed: u64) -> Tensor {
    // Most are positive, as behind an activation, so that the zero point matters.
    Tensor::from_slice(&normal(seed, ROWS * INPUTS, 0.7), [ROWS, INPUTS], cx)
}

fn floats(tensor: &Tensor) -> Vec<f64> {
    tensor.cast(DType::F64).to_vec().unwrap()
}

/// `x · wᵀ + bias` in f64.
fn linear(x: &[f64], w: &[f64], bias: &[f64]) -> Vec<f64> {
    let row = |x: &[f64], w: &[f64]| x.iter().zip(w).map(|(x, w)| x * w).sum::<f64>();
    (x.chunks(INPUTS))
        .flat_map(|x| w.chunks(INPUTS).zip(bias).map(move |(w, bias)| row(x, w) + bias))
        .collect()
}

/// The size of the difference, relative to that of `wanted`.
fn off(found: &[f64], wanted: &[f64]) -> f64 {
    let squares = |of: &mut dyn Iterator<Item = f64>| of.map(|x| x * x).sum::<f64>();
    let differences = squares(&mut found.iter().zip(wanted).map(|(a, b)| a - b));
    (differences / squares(&mut wanted.iter().copied())).sqrt()
}

#[test]
fn results_are_those_of_rounded_operands() {
    let cx = Context::new("cpu").unwrap();
    let layer = dense(&cx);
    let x = input(&cx, 1);
    let quantized = QuantizedDense::dynamic(&layer).unwrap();
    let (scale, zero) = Tensor::quantization(&x.min(), &x.max(), DType::U8);
    let rounded = x.quantize(&scale, &zero, DType::U8).dequantize(&scale, &zero);
    let weight = quantized
        .weight
        .value()
        .dequantize(&quantized.scale.value().unsqueeze(1), None);
    let wanted = linear(
        &floats(&rounded),
        &floats(&weight),
        &floats(layer.bias.as_ref().unwrap()),
    );
    assert!(off(&floats(&quantized.forward(&x)), &wanted) < 1e-6);
}

#[test]
fn the_error_against_f32_is_that_of_eight_bits() {
    let cx = Context::new("cpu").unwrap();
    let layer = dense(&cx);
    let seen = Calibration::new(layer.clone(), &cx);
    for seed in 2..6 {
        seen.forward(&input(&cx, seed));
    }
    let x = input(&cx, 7);
    let wanted = floats(&layer.forward(&x));
    // Inputs in a range of about 7, so in steps of 0.027, and weights in steps of 1/254 of their range: 0.8 and 0.4 % of their size.
    for (name, quantized) in [
        ("dynamic", QuantizedDense::dynamic(&layer).unwrap()),
        ("calibrated", QuantizedDense::calibrated(&seen).unwrap()),
    ] {
        let error = off(&floats(&quantized.forward(&x)), &wanted);
        assert!((0.002..0.015).contains(&error), "{name}: {error}");
    }
}

#[test]
fn convolutions_are_off_by_as_much() {
    let cx = Context::new("cpu").unwrap();
    let options = ConvOptions::new().stride(2).padding(1).groups(2);
    let layer = Conv2d::new(16, 24, [3, 3], options, &cx).unwrap();
    let image = |seed| Tensor::from_slice(&normal(seed, 2 * 16 * 15 * 15, 0.7), [2, 16, 15, 15], &cx);
    let seen = Calibration::new(layer.clone(), &cx);
    for seed in 2..6 {
        seen.forward(&image(seed));
    }
    let x = image(7);
    let wanted = floats(&layer.forward(&x));
    for (name, quantized) in [
        ("dynamic", QuantizedConv2d::dynamic(&layer).unwrap()),
        ("calibrated", QuantizedConv2d::calibrated(&seen).unwrap()),
    ] {
        let error = off(&floats(&quantized.forward(&x)), &wanted);
        assert!((0.002..0.015).contains(&error), "{name}: {error}");
    }
}

#[test]
fn compiled_layers_give_the_same_bits() {
    let cx = Context::new("cpu").unwrap();
    let layer = dense(&cx);
    let quantized = QuantizedDense::dynamic(&layer).unwrap();
    let x = input(&cx, 3);
    let compiled = jit(|x: &Tensor| quantized.forward(x)).call(&x);
    let (eager, compiled) = (
        quantized.forward(&x).to_vec::<f32>().unwrap(),
        compiled.to_vec::<f32>().unwrap(),
    );
    assert!(
        eager
            .iter()
            .zip(&compiled)
            .all(|(a, b)| a.to_bits() == b.to_bits())
    );
}

#[test]
fn a_calibration_that_saw_nothing_is_an_error() {
    let cx = Context::new("cpu").unwrap();
    let seen = Calibration::new(dense(&cx), &cx);
    let error = QuantizedDense::calibrated(&seen).unwrap_err();
    assert!(error.to_string().contains("no inputs were noted"), "{error}");
}

/// The rows of a batch norm that has seen something.
fn norm(channels: usize, cx: &Context) -> BatchNorm {
    let mut norm = BatchNorm::new(channels, cx).unwrap();
    let drawn = |seed, shift| Tensor::from_slice(&normal(seed, channels, shift), channels, cx);
    norm.weight = Parameter::new(drawn(21, 1.0));
    norm.bias = Parameter::new(drawn(22, 0.0));
    norm.running_mean.set(drawn(23, 0.3));
    norm.running_var.set(drawn(24, 0.0).square() + 0.5);
    norm.set_training(false);
    norm
}

#[test]
fn a_norm_goes_into_its_convolution() {
    let cx = Context::new("cpu").unwrap();
    let options = ConvOptions::new().stride(2).padding(1).groups(2);
    let mut layer = Conv2d::new(16, 24, [3, 3], options, &cx).unwrap();
    let norm = norm(24, &cx);
    let x = Tensor::from_slice(&normal(25, 2 * 16 * 9 * 9, 0.0), [2, 16, 9, 9], &cx);
    for _ in 0..2 {
        let wanted = norm.forward(&layer.forward(&x));
        let found = layer.with_norm(&norm).unwrap().forward(&x);
        assert!(off(&floats(&found), &floats(&wanted)) < 1e-6);
        layer.bias = None;
    }
    let error = layer.with_norm(&BatchNorm::new(12, &cx).unwrap()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("24 outputs in front of a norm of [12]"),
        "{error}"
    );
}

#[test]
fn an_encoder_of_eight_bits_is_near_that_of_f32() {
    let cx = Context::new("cpu").unwrap();
    let layer = TransformerEncoderLayer::new(64, 4, 128, &cx).unwrap();
    let x = |seed| Tensor::from_slice(&normal(seed, 2 * 10 * 64, 0.0), [2, 10, 64], &cx);
    let seen = layer
        .map_dense(|dense| Ok(Calibration::new(dense.clone(), &cx)))
        .unwrap();
    for seed in 31..35 {
        let (noting, plain) = (seen.forward(&x(seed)), layer.forward(&x(seed)));
        assert_eq!(noting.to_vec::<f32>().unwrap(), plain.to_vec::<f32>().unwrap());
    }
    let (x, shared) = (x(36), seen.quantized().unwrap());
    let found = shared.forward(&x);
    let error = off(&floats(&found), &floats(&layer.forward(&x)));
    assert!((0.001..0.03).contains(&error), "{error}");
    // Sharing ranges changes no bit.
    let apart = seen.map_dense(QuantizedDense::calibrated).unwrap();
    let bits = |y: &Tensor| -> Vec<u32> { y.to_vec::<f32>().unwrap().iter().map(|x| x.to_bits()).collect() };
    assert_eq!(bits(&apart.forward(&x)), bits(&found));
    assert_eq!(bits(&jit(|x: &Tensor| shared.forward(x)).call(&x)), bits(&found));
}

#[test]
fn a_decoder_of_eight_bits_is_near_that_of_f32() {
    let cx = Context::new("cpu").unwrap();
    let layer = TransformerDecoderLayer::new(64, 4, 128, &cx).unwrap();
    let draw = |seed, n| Tensor::from_slice(&normal(seed, 2 * n * 64, 0.0), [2, n, 64], &cx);
    let seen = layer
        .map_dense(|dense| Ok(Calibration::new(dense.clone(), &cx)))
        .unwrap();
    let run = |seed| (draw(seed, 10), draw(seed + 100, 7));
    for seed in 41..45 {
        let (x, memory) = run(seed);
        seen.decode(&x, &memory, AttentionOptions::new());
    }
    let (x, memory) = run(46);
    let found = seen
        .quantized()
        .unwrap()
        .decode(&x, &memory, AttentionOptions::new());
    let wanted = layer.decode(&x, &memory, AttentionOptions::new());
    let error = off(&floats(&found), &floats(&wanted));
    assert!((0.001..0.04).contains(&error), "{error}");
}

#[test]
fn ranges_are_shared_where_they_are_equal() {
    let cx = Context::new("cpu").unwrap();
    let quantized = |seed| {
        let seen = Calibration::new(dense(&cx), &cx);
        seen.forward(&input(&cx, seed));
        QuantizedDense::calibrated(&seen).unwrap()
    };
    let (one, mut same, mut other) = (quantized(51), quantized(51), quantized(52));
    assert!(same.share_range(&one).unwrap());
    assert!(!other.share_range(&one).unwrap());
    let mut dynamic = QuantizedDense::dynamic(&dense(&cx)).unwrap();
    assert!(!dynamic.share_range(&one).unwrap());
}

/// Behind a ReLU 0 is the least integer, and nothing is taken off.
#[test]
fn inputs_that_are_never_negative() {
    let cx = Context::new("cpu").unwrap();
    let layer = Conv2d::new(8, 8, [3, 3], ConvOptions::new().padding(1), &cx).unwrap();
    let image = Tensor::from_slice(&normal(53, 8 * 9 * 9, 0.2), [1, 8, 9, 9], &cx).relu();
    let seen = Calibration::new(layer.clone(), &cx);
    seen.forward(&image);
    let found = QuantizedConv2d::calibrated(&seen).unwrap().forward(&image);
    let error = off(&floats(&found), &floats(&layer.forward(&image)));
    assert!((0.001..0.015).contains(&error), "{error}");
}
