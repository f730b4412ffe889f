//! Whole trainings in f32: the losses of every step are PyTorch's.

use super::{distance, numbers, part, stored};
use thalweg::ops::{AttentionOptions, ConvOptions, PoolOptions};
use thalweg::{Context, Mode, Result, Tensor, Tree};
use thalweg_nn::data::{Column, Loader, Rows, Samples};
use thalweg_nn::optim::{Adam, Optimizer, Sgd};
use thalweg_nn::{
    BatchNorm, Conv2d, Dense, Embedding, Layer, Model, Module, Parameter, TransformerEncoderLayer, digits,
    loss,
};

/// Relative to losses above 1. Rounding differs from the first step on, and training makes it grow: 4e-6 in the conv net, 2e-7 in the
/// transformer.
const TOLERANCE: f64 = 2e-5;

/// Trains from the stored parameters and compares the losses.
fn follow<N: Layer + Tree + Send + Sync + 'static>(
    name: &str,
    make: impl Fn(&Context) -> Result<N>,
    optimizer: impl Optimizer + Copy + 'static,
    loader: &Loader,
) {
    for mode in [Mode::Eager, Mode::Graph] {
        let cx = Context::new("cpu").unwrap();
        cx.set_mode(mode);
        let file = stored(name, &cx);
        let mut net = make(&cx).unwrap();
        let mut params = part(&file, "param/");
        let missing = params.fill(&mut net).unwrap();
        let is_state = |path: &String| path.contains("running") || path.ends_with("dropout.key");
        assert!(
            missing.iter().all(is_state) && params.tensors.is_empty(),
            "{missing:?}"
        );
        let wanted = numbers(&file.tensors["losses"]);
        let mut model = Model::new(net, loss::cross_entropy, optimizer, &cx);
        let mut losses = Vec::new();
        let epochs = wanted.len().div_ceil(loader.batches()) as u64;
        for batch in (0..epochs)
            .flat_map(|epoch| loader.epoch(epoch, 0, &cx))
            .take(wanted.len())
        {
            let batch = batch.unwrap();
            losses.push(
                model
                    .train_step(&batch.x, &batch.y)
                    .unwrap()
                    .0
                    .to_scalar()
                    .unwrap(),
            );
        }
        let distance = distance(&losses, &wanted);
        assert!(distance <= TOLERANCE, "{name}, {mode:?}: off by {distance:e}");
    }
}

#[derive(Clone, Module)]
struct ConvNet {
    conv1: Conv2d,
    norm: BatchNorm,
    conv2: Conv2d,
    fc: Dense,
}

impl Layer for ConvNet {
    fn forward(&self, x: &Tensor) -> Tensor {
        let pool = || PoolOptions::new(2);
        let x = self
            .norm
            .forward(&self.conv1.forward(x))
            .relu()
            .max_pool2d(pool());
        let x = self.conv2.forward(&x).relu().max_pool2d(pool());
        self.fc.forward(&x.flatten_axes(1, -1))
    }
}

#[test]
fn a_conv_net_trains_to_the_losses_of_pytorch() {
    let (digits, _) = digits::load().unwrap().0.split(256);
    let make = |cx: &Context| {
        Ok(ConvNet {
            conv1: Conv2d::new(1, 6, [5, 5], ConvOptions::new().padding(2), cx)?,
            norm: BatchNorm::new(6, cx)?,
            conv2: Conv2d::new(6, 8, [5, 5], ConvOptions::new(), cx)?,
            fc: Dense::new(200, 10, cx)?,
        })
    };
    let optimizer = Sgd::new(0.05).momentum(0.9).weight_decay(1e-4);
    follow("conv", make, optimizer, &Loader::new(digits, 32));
}

#[derive(Clone, Module)]
struct Transformer {
    tokens: Embedding,
    places: Parameter,
    layers: Vec<TransformerEncoderLayer>,
    head: Dense,
}

impl Layer for Transformer {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.tokens.forward(x) + self.places.value();
        let causal = AttentionOptions::new().causal(true);
        let x = self.layers.iter().fold(x, |x, layer| layer.encode(&x, causal));
        self.head.forward(&x).transpose(1, 2)
    }
}

#[test]
fn a_transformer_trains_to_the_losses_of_pytorch() {
    let cx = Context::new("cpu").unwrap();
    let tokens = &stored("transformer", &cx).tensors["tokens"];
    let rows = |first| Rows::new(Column::of(&tokens.narrow(1, first, 12)).unwrap(), &[12]).unwrap();
    let data = Samples::new(rows(0), rows(1)).unwrap();
    let make = |cx: &Context| {
        let layer = || TransformerEncoderLayer::new(16, 2, 32, cx);
        Ok(Transformer {
            tokens: Embedding::new(16, 16, cx)?,
            places: Parameter::new(Tensor::zeros([12, 16], thalweg::DType::F32, cx)),
            layers: vec![layer()?, layer()?],
            head: Dense::new(16, 16, cx)?,
        })
    };
    follow(
        "transformer",
        make,
        Adam::w(5e-3).weight_decay(0.01),
        &Loader::new(data, 8),
    );
}
