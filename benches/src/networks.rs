//! Networks as their users write them: training steps and inference, each one compiled graph.
//!
//! `benches/peers/networks.py` has the same networks for the peers.

use crate::cases::{Case, Limit};
use crate::int8;
use crate::resnet::ResNet18;
use crate::zoo::{
    ConvNext, Denoiser, DenseNet, EfficientNet, Gpt, MobileNet, ResNext, ShuffleNet, Swin, Tcn, UNet,
};
use thalweg::context::ImplMode;
use thalweg::ops::{ClassLossOptions, ConvOptions};
use thalweg::{Context, Error, Result, Tensor, Tree, jit, value_and_grad};
use thalweg_nn::module::{trainable, with_trainable};
use thalweg_nn::{
    Calibration, Conv2d, Dense, Embedding, Flatten, Gru, Layer, Lstm, MaxPool2d, Module, QuantizedConv2d,
    QuantizedDense, Relu, Sequential, TransformerEncoderLayer,
};

/// Learning rate of the training steps: small, so that a long run stays finite.
const RATE: f64 = 1e-3;

/// Products of a step of LeNet-5 on 64 images.
const LENET_PRODUCTS: f64 = 64.0
    * (2.0 * 28.0 * 28.0 * 6.0 * 25.0
        + 3.0 * (10.0 * 10.0 * 16.0 * 6.0 * 25.0 + 400.0 * 120.0 + 120.0 * 84.0 + 84.0 * 10.0));

/// Products of ResNet-18 on one image.
const RESNET_PRODUCTS: f64 = 1.814e9;

/// Products of MobileNetV2 on one image.
const MOBILENET_PRODUCTS: f64 = 300.8e6;

/// Products of six encoder layers on 128 positions.
const ENCODER_PRODUCTS: f64 = 6.0 * 128.0 * (12.0 * 384.0 * 384.0 + 2.0 * 128.0 * 384.0);

/// Words that the network of words knows.
const WORDS: usize = 1000;

/// The cases of networks whose names are wanted.
///
/// # Errors
/// Those of the ops.
pub fn cases(cx: &Context, wanted: impl Fn(&str) -> bool) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    if wanted("mlp_step_b128") {
        let net = Sequential::new()
            .then(Dense::new(784, 512, cx)?)
            .then(Relu)
            .then(Dense::new(512, 10, cx)?);
        // Two products a layer and one more for the gradient of what the second takes.
        let products = 128.0 * (2.0 * 784.0 * 512.0 + 3.0 * 512.0 * 10.0);
        cases.push(step(
            "mlp_step_b128",
            net,
            (numbers(&[128, 784], cx), 128),
            products,
            cx,
        )?);
    }
    if wanted("lenet5_step_b64") {
        let shape = [64, 1, 28, 28];
        let x = numbers(&shape, cx);
        cases.push(step("lenet5_step_b64", lenet(cx)?, (x, 64), LENET_PRODUCTS, cx)?);
    }
    let classes =
        |net: Sequential| -> Result<Sequential> { Ok(net.then(Flatten).then(Dense::new(64 * 128, 10, cx)?)) };
    let products = 3.0 * 2.0 * 8.0 * 64.0 * (12.0 * 128.0 * 128.0 + 2.0 * 64.0 * 128.0);
    if wanted("encoder2_step_b8") {
        let net = classes(encoder(Sequential::new(), 2, 128, cx)?)?;
        cases.push(step(
            "encoder2_step_b8",
            net,
            (numbers(&[8, 64, 128], cx), 8),
            products,
            cx,
        )?);
    }
    if wanted("words_step_b8") {
        let words: Vec<i64> = (0..8 * 64).map(|at| at * 7919 % WORDS as i64).collect();
        let words = Tensor::from_slice(&words, [8, 64], cx);
        let net = Sequential::new().then(Embedding::new(WORDS, 128, cx)?);
        let net = classes(encoder(net, 2, 128, cx)?)?;
        cases.push(step("words_step_b8", net, (words, 8), products, cx)?);
    }
    if wanted("tcn_b8") {
        let (shape, products) = ([8, 64, Tcn::TIMES], 8.0 * Tcn::PRODUCTS);
        cases.push(inference("tcn_b8".into(), Tcn::new(cx)?, &shape, products, cx)?);
    }
    cases.extend(large_steps(cx, &wanted)?);
    cases.extend(of_images(cx, &wanted)?);
    cases.extend(quantized(cx, &wanted)?);
    for batch in [1, 8] {
        let name = format!("resnet18_b{batch}");
        if wanted(&name) {
            let products = batch as f64 * RESNET_PRODUCTS;
            cases.push(inference(
                name,
                ResNet18::new(cx)?,
                &[batch, 3, 224, 224],
                products,
                cx,
            )?);
        }
        let name = format!("resnet18_b{batch}_fast");
        if wanted(&name) {
            let products = batch as f64 * RESNET_PRODUCTS;
            let cx = &Context::builder()
                .device_target(cx.device().target())
                .op_select_implmode(ImplMode::HighPerformance)
                .optypelist_for_implmode(["conv"])
                .build()?;
            let shape = [batch, 3, 224, 224];
            cases.push(inference(name, ResNet18::new(cx)?, &shape, products, cx)?);
        }
        let name = format!("encoder6_b{batch}");
        if wanted(&name) {
            let net = encoder(Sequential::new(), 6, 384, cx)?;
            let products = batch as f64 * ENCODER_PRODUCTS;
            cases.push(inference(name, net, &[batch, 128, 384], products, cx)?);
        }
    }
    Ok(cases)
}

/// Training steps that take a tenth of a second and more.
fn large_steps(cx: &Context, wanted: impl Fn(&str) -> bool) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    let images = |batch, extent| numbers(&[batch, 3, extent, extent], cx);
    // No gradient of the images.
    let behind = |whole: f64, first: f64| 3.0 * whole - first;
    if wanted("resnet18_step_b8") {
        let products = 8.0 * behind(RESNET_PRODUCTS, 112.0 * 112.0 * 64.0 * 147.0);
        let (net, data) = (ResNet18::new(cx)?, (images(8, 224), 8));
        cases.push(step("resnet18_step_b8", net, data, products, cx)?);
    }
    if wanted("unet_step_b4") {
        let products = 4.0 * behind(UNet::PRODUCTS, 128.0 * 128.0 * 32.0 * 27.0);
        let (net, data) = (UNet::new(cx)?, (images(4, 128), 4));
        cases.push(step("unet_step_b4", net, data, products, cx)?);
    }
    if wanted("encoder6_step_b8") {
        let net = encoder(Sequential::new(), 6, 384, cx)?
            .then(Pooled)
            .then(Dense::new(384, 10, cx)?);
        let data = (numbers(&[8, 128, 384], cx), 8);
        cases.push(step("encoder6_step_b8", net, data, 24.0 * ENCODER_PRODUCTS, cx)?);
    }
    if wanted("lstm_step_b32") {
        let net = Sequential::new()
            .then(Lstm::new(128, 256, cx)?)
            .then(Pooled)
            .then(Dense::new(256, 10, cx)?);
        let data = (numbers(&[32, 64, 128], cx), 32);
        let products = 3.0 * 32.0 * 64.0 * 1024.0 * (128.0 + 256.0);
        cases.push(step("lstm_step_b32", net, data, products, cx)?);
    }
    if wanted("tcn_step_b8") {
        // No gradient of the series.
        let products = 8.0 * (3.0 * Tcn::PRODUCTS - Tcn::BLOCK);
        let data = (numbers(&[8, 64, Tcn::TIMES], cx), 8);
        cases.push(step("tcn_step_b8", Tcn::new(cx)?, data, products, cx)?);
    }
    if wanted("gru_step_b32") {
        let net = Sequential::new()
            .then(Gru::new(128, 256, cx)?)
            .then(Pooled)
            .then(Dense::new(256, 10, cx)?);
        let data = (numbers(&[32, 64, 128], cx), 32);
        let products = 3.0 * 32.0 * 64.0 * 768.0 * (128.0 + 256.0);
        cases.push(step("gru_step_b32", net, data, products, cx)?);
    }
    if wanted("gpt_step_b4") {
        let words: Vec<i64> = (0..1024).map(|at| at * 7919 % Gpt::WORDS as i64).collect();
        let data = (Tensor::from_slice(&words, [4, Gpt::POSITIONS], cx), words.len());
        let products = 3.0 * 1024.0 * Gpt::PRODUCTS;
        cases.push(step("gpt_step_b4", Gpt::new(cx)?, data, products, cx)?);
    }
    Ok(cases)
}

/// A network of square images.
struct Images {
    name: &'static str,
    extent: usize,
    /// Images of a training step.
    batch: usize,
    /// Products for one image.
    products: f64,
    /// Products of the convolution that reads the images, which have no gradient.
    first: f64,
}

impl Images {
    fn of(name: &'static str, products: f64, first: f64) -> Images {
        Images {
            name,
            extent: 224,
            batch: 8,
            products,
            first,
        }
    }

    /// Inference on one image and on eight, and a training step.
    fn cases<N>(
        &self,
        new: impl Fn(&Context) -> Result<N>,
        cx: &Context,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<Case>>
    where
        N: Layer + Tree + Send + Sync + 'static,
    {
        let mut cases = Vec::new();
        let shape = |batch| [batch, 3, self.extent, self.extent];
        for batch in [1, 8] {
            let name = format!("{}_b{batch}", self.name);
            if wanted(&name) {
                let products = batch as f64 * self.products;
                cases.push(inference(name, new(cx)?, &shape(batch), products, cx)?);
            }
        }
        let (name, batch) = (format!("{}_step_b{}", self.name, self.batch), self.batch);
        if wanted(&name) {
            let data = (numbers(&shape(batch), cx), batch);
            let products = batch as f64 * (3.0 * self.products - self.first);
            cases.push(step(&name, new(cx)?, data, products, cx)?);
        }
        Ok(cases)
    }
}

/// Networks of images that are convolutions and little else, or attention in windows.
fn of_images(cx: &Context, wanted: impl Fn(&str) -> bool) -> Result<Vec<Case>> {
    let half = |taps: f64, outputs: f64| 112.0 * 112.0 * 3.0 * taps * taps * outputs;
    let patches = |outputs: f64| 56.0 * 56.0 * 48.0 * outputs;
    let all = [
        Images::of("mobilenet", MOBILENET_PRODUCTS, half(3.0, 32.0)).cases(MobileNet::new, cx, &wanted)?,
        Images::of("efficientnet", EfficientNet::PRODUCTS, half(3.0, 32.0)).cases(
            EfficientNet::new,
            cx,
            &wanted,
        )?,
        Images::of("convnext", ConvNext::PRODUCTS, patches(40.0)).cases(ConvNext::new, cx, &wanted)?,
        Images::of("densenet", DenseNet::PRODUCTS, half(7.0, 64.0)).cases(DenseNet::new, cx, &wanted)?,
        Images::of("shufflenet", ShuffleNet::PRODUCTS, half(3.0, 24.0)).cases(
            ShuffleNet::new,
            cx,
            &wanted,
        )?,
        Images::of("resnext", ResNext::PRODUCTS, half(7.0, 64.0)).cases(ResNext::new, cx, &wanted)?,
        Images::of("swin", Swin::PRODUCTS, patches(96.0)).cases(Swin::new, cx, &wanted)?,
        Images {
            extent: 32,
            batch: 4,
            ..Images::of("denoiser", Denoiser::PRODUCTS, 32.0 * 32.0 * 96.0 * 27.0)
        }
        .cases(Denoiser::new, cx, &wanted)?,
    ];
    Ok(all.into_iter().flatten().collect())
}

/// Layers of integers of 8 bits from f32 to f32, whose ranges are known.
fn quantized(cx: &Context, wanted: impl Fn(&str) -> bool) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    let integers = |case: Case, products: f64| Case {
        limit: Limit::Dots(2.0 * products),
        ..case
    };
    if wanted("quantized_dense_1024") {
        let (shape, products) = ([1024, 1024], 1024.0 * 1024.0 * 1024.0);
        let seen = Calibration::new(Dense::new(1024, 1024, cx)?, cx);
        seen.forward(&numbers(&shape, cx));
        let net = QuantizedDense::calibrated(&seen)?;
        let case = inference("quantized_dense_1024".into(), net, &shape, products, cx)?;
        cases.push(integers(case, products));
    }
    if wanted("quantized_conv_8x64x56") {
        let (shape, products) = ([8, 64, 56, 56], 8.0 * 64.0 * 64.0 * 9.0 * 56.0 * 56.0);
        let layer = Conv2d::new(64, 64, [3, 3], ConvOptions::new().padding(1), cx)?;
        let seen = Calibration::new(layer, cx);
        seen.forward(&numbers(&shape, cx));
        let net = QuantizedConv2d::calibrated(&seen)?;
        let case = inference("quantized_conv_8x64x56".into(), net, &shape, products, cx)?;
        cases.push(integers(case, products));
    }
    if wanted("resnet18_int8_b1") {
        let shape = [1, 3, 224, 224];
        let mut net = ResNet18::new(cx)?;
        net.set_training(false);
        let net = int8::resnet(&net, &[numbers(&shape, cx)], cx)?;
        let case = inference("resnet18_int8_b1".into(), net, &shape, RESNET_PRODUCTS, cx)?;
        cases.push(integers(case, RESNET_PRODUCTS));
    }
    if wanted("encoder6_int8_b1") {
        let shape = [1, 128, 384];
        let net = int8::encoder(&int8::Encoder::new(cx)?, &[numbers(&shape, cx)], cx)?;
        let case = inference("encoder6_int8_b1".into(), net, &shape, ENCODER_PRODUCTS, cx)?;
        cases.push(integers(case, ENCODER_PRODUCTS));
    }
    Ok(cases)
}

/// The mean over the positions of `[batch, positions, width]`.
#[derive(Clone, Debug, Module)]
struct Pooled;

impl Layer for Pooled {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.mean_axes([1])
    }
}

/// LeNet-5 for images of 28 by 28.
///
/// # Errors
/// Those of its parameters.
pub fn lenet(cx: &Context) -> Result<Sequential> {
    let around = ConvOptions::new().padding(2);
    Ok(Sequential::new()
        .then(Conv2d::new(1, 6, [5, 5], around, cx)?)
        .then(Relu)
        .then(MaxPool2d::new(2))
        .then(Conv2d::new(6, 16, [5, 5], ConvOptions::new(), cx)?)
        .then(Relu)
        .then(MaxPool2d::new(2))
        .then(Flatten)
        .then(Dense::new(400, 120, cx)?)
        .then(Relu)
        .then(Dense::new(120, 84, cx)?)
        .then(Relu)
        .then(Dense::new(84, 10, cx)?))
}

/// A network with encoder layers of a width behind it, each with heads of 64.
fn encoder(net: Sequential, layers: usize, width: usize, cx: &Context) -> Result<Sequential> {
    (0..layers).try_fold(net, |net, _| {
        let layer = TransformerEncoderLayer::new(width, width / 64, 4 * width, cx)?;
        Ok(net.then(layer))
    })
}

/// Forward, backward and an update by plain descent, on a batch of `x` that makes so many rows of scores.
fn step<N>(name: &str, net: N, (x, rows): (Tensor, usize), products: f64, cx: &Context) -> Result<Case>
where
    N: Layer + Tree + Send + Sync + 'static,
{
    let classes: Vec<i64> = (0..rows as i64).map(|row| row * 7 % 10).collect();
    let y = Tensor::from_slice(&classes, classes.len(), cx);
    let compiled = jit(|net: &N, data: &(Tensor, Tensor)| {
        let (x, y) = data;
        let loss = |values: &Vec<Tensor>| {
            let net = with_trainable(net, values);
            let loss = net.forward(x).cross_entropy(y, ClassLossOptions::new());
            (loss, net)
        };
        let values = trainable(net);
        let ((loss, net), gradients) = value_and_grad(loss).call(&values);
        let update = |(value, gradient): (&Tensor, &Tensor)| value - gradient * RATE;
        let values: Vec<Tensor> = values.iter().zip(&gradients).map(update).collect();
        let net = with_trainable(&net, &values);
        (Tree::map(&net, &mut |tensor| tensor.detach()), loss.detach())
    });
    let (mut net, data) = (net, (x, y));
    let run = move || {
        // The network is written in place, as the peers' are; data that is held here too is not.
        let (next, loss) = compiled.call_donating((&mut net, &mut data.clone()));
        net = next;
        let loss = loss.item::<f32>().map_err(hal_error)?;
        assert!(loss.is_finite(), "the loss is {loss}");
        Ok(())
    };
    Ok(case(name.into(), products, run))
}

/// The outputs of a network whose parameters are constants of the graph.
fn inference<N>(name: String, mut net: N, shape: &[usize], products: f64, cx: &Context) -> Result<Case>
where
    N: Layer + Send + Sync + 'static,
{
    net.set_training(false);
    let x = numbers(shape, cx);
    let compiled = jit(move |x: &Tensor| net.forward(x));
    let stream = cx.device().clone();
    let run = move || {
        let y = compiled.call(&x);
        y.shape().map_err(hal_error)?;
        stream.synchronize()
    };
    Ok(case(name, products, run))
}

fn case(name: String, products: f64, run: impl FnMut() -> thalweg::hal::Result<()> + 'static) -> Case {
    Case {
        name,
        limit: Limit::Flops(2.0 * products),
        run: Box::new(run),
    }
}

/// Numbers from -1 to 1.
pub(crate) fn numbers(shape: &[usize], cx: &Context) -> Tensor {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let data: Vec<f32> = (0..shape.iter().product())
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect();
    Tensor::from_slice(&data, shape, cx)
}

/// The error of the device behind that of a tensor.
pub(crate) fn hal_error(error: Error) -> thalweg::hal::Error {
    match error {
        Error::Hal(error) => error,
        other => panic!("{other}"),
    }
}
