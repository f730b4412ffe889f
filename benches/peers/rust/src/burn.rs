//! burn on its CPU backend, burn-flex.

use crate::{Answer, CHUNK, EPS, HEADS, Input, K, MU, RATE, STAGES, Work, classes, work};
use ::burn::nn::loss::{CrossEntropyLoss, CrossEntropyLossConfig};
use ::burn::tensor::activation::{gelu, relu, softmax};
use ::burn::tensor::module::{attention, batch_norm, conv2d, layer_norm, linear, max_pool2d};
use ::burn::tensor::ops::{AttentionModuleOptions, ConvOptions, MaxPoolOptions};
use ::burn::tensor::{Device, FloatDType, Gradients, Int, Tensor, TensorData};

impl Answer for TensorData {
    fn read(&self) -> (Vec<usize>, Vec<f32>) {
        let values = self.clone().convert::<f32>().try_into_vec().expect("it is f32");
        (self.shape().to_vec(), values)
    }
}

impl<const D: usize> Answer for Tensor<D> {
    fn read(&self) -> (Vec<usize>, Vec<f32>) {
        self.to_data().read()
    }
}

/// A result that has rank 0 elsewhere: burn's have 1 at least.
struct Scalar<T>(T);

impl Answer for Scalar<Tensor<1>> {
    fn read(&self) -> (Vec<usize>, Vec<f32>) {
        (Vec::new(), self.0.read().1)
    }
}

impl Answer for Scalar<Tensor<1, Int>> {
    fn read(&self) -> (Vec<usize>, Vec<f32>) {
        (Vec::new(), self.0.to_data().read().1)
    }
}

fn on<const D: usize>(device: &Device, input: &Input) -> Tensor<D> {
    Tensor::from_data(TensorData::new(input.values.to_vec(), input.sizes), device)
}

fn tensor<const D: usize>(input: &Input) -> Tensor<D> {
    on(&Device::flex(), input)
}

pub(crate) fn prepare(op: &str, inputs: &[Input]) -> Option<Box<dyn Work>> {
    Some(match (op, inputs) {
        ("energy", [x]) => {
            let x = tensor::<1>(x);
            work(move || Scalar(energy(x.clone())))
        }
        // Of host memory, a chunk at a time.
        ("energy_chunked", [x]) => {
            let (device, data) = (Device::flex(), x.values.to_vec());
            work(move || {
                let chunks = data.chunks_exact(CHUNK);
                let energies = chunks.map(|chunk| energy(Tensor::from_data(chunk, &device)));
                Scalar(
                    energies
                        .reduce(|total, next| total + next)
                        .expect("there is a chunk"),
                )
            })
        }
        ("softmax", [x]) => {
            let x = tensor::<2>(x);
            work(move || softmax(x.clone(), 1))
        }
        ("layernorm", [x, gain, bias]) => {
            let (x, gain, bias) = (tensor::<2>(x), tensor(gain), tensor(bias));
            work(move || layer_norm(x.clone(), gain.clone(), Some(bias.clone()), EPS))
        }
        ("add", [a, b]) => {
            let (a, b) = (tensor::<1>(a), tensor::<1>(b));
            work(move || a.clone() + b.clone())
        }
        ("gelu", [x]) => {
            let x = tensor::<1>(x);
            work(move || gelu(x.clone()))
        }
        ("matmul", [a, b]) => match (a.sizes.len(), b.sizes.len()) {
            (2, 1) => {
                let (a, b) = (tensor::<2>(a), tensor::<1>(b));
                work(move || {
                    let column = a.clone().matmul(b.clone().unsqueeze_dim(1));
                    column.squeeze_dim::<1>(1)
                })
            }
            (2, 2) => product::<2>(a, b),
            _ => product::<3>(a, b),
        },
        ("matmul_bf16", [a, b]) => {
            let [a, b] = [a, b].map(|x| tensor::<2>(x).cast(FloatDType::BF16));
            work(move || a.clone().matmul(b.clone()))
        }
        ("embedding", [table, rows]) => {
            let rows: Vec<i32> = rows.values.iter().map(|&row| row as i32).collect();
            let rows = Tensor::<1, Int>::from_data(rows.as_slice(), &Device::flex());
            let table = tensor::<2>(table);
            work(move || table.clone().select(0, rows.clone()))
        }
        ("conv" | "conv_stride2", [x, weight]) => {
            let (groups, taps) = (x.sizes[1] / weight.sizes[1], weight.sizes[2]);
            let stride = if op == "conv" { 1 } else { 2 };
            let (x, weight) = (tensor::<4>(x), tensor::<4>(weight));
            work(move || {
                let options = ConvOptions::new([stride; 2], [taps / 2; 2], [1, 1], groups);
                conv2d(x.clone(), weight.clone(), None, options)
            })
        }
        ("maxpool", [x]) => {
            let x = tensor::<4>(x);
            work(move || max_pool2d(x.clone(), stem_pool()))
        }
        ("attention" | "attention_causal", [q, k, v]) => {
            let [q, k, v] = [q, k, v].map(|x| tensor::<3>(x).unsqueeze::<4>());
            let is_causal = op == "attention_causal";
            work(move || {
                let options = AttentionModuleOptions {
                    is_causal,
                    ..AttentionModuleOptions::default()
                };
                attention(q.clone(), k.clone(), v.clone(), None, None, options).squeeze_dim::<3>(0)
            })
        }
        ("sum0" | "sum1", [x]) => {
            let (x, axis) = (tensor::<2>(x), usize::from(op == "sum1"));
            work(move || x.clone().sum_dim(axis).squeeze_dim::<1>(axis))
        }
        ("argmax", [x]) => {
            let x = tensor::<1>(x);
            work(move || Scalar(x.clone().argmax(0)))
        }
        // A transposed tensor is a view; its data are in order.
        ("transpose", [x]) => {
            let x = tensor::<2>(x);
            work(move || x.clone().transpose().into_data())
        }
        ("sort", [x]) => match x.sizes.len() {
            1 => sorted::<1>(x),
            _ => sorted::<2>(x),
        },
        ("cumsum0" | "cumsum1", [x]) => {
            let (x, axis) = (tensor::<2>(x), usize::from(op == "cumsum1"));
            work(move || x.clone().cumsum(axis))
        }
        ("mlp_step" | "lenet5_step", [x, parameters @ ..]) => step(x, parameters),
        ("resnet18", [x, parameters @ ..]) => {
            let network = ResNet18::new(&mut Parameters(parameters.iter()));
            let x = tensor::<4>(x);
            work(move || network.forward(x.clone()))
        }
        ("encoder6", [x, parameters @ ..]) => {
            let mut parameters = Parameters(parameters.iter());
            let layers: Vec<_> = (0..6).map(|_| EncoderLayer::new(&mut parameters)).collect();
            let x = tensor::<3>(x);
            work(move || layers.iter().fold(x.clone(), |x, layer| layer.forward(x)))
        }
        _ => return None,
    })
}

fn energy(x: Tensor<1>) -> Tensor<1> {
    ((x - MU).square() * (0.5 * K)).sum()
}

/// Windows of 3 by 3 with stride 2 and padding 1.
fn stem_pool() -> MaxPoolOptions<2> {
    let mut pool = MaxPoolOptions::new([3, 3]);
    pool.stride = [2, 2];
    pool.padding = [(1, 1); 2];
    pool
}

fn product<const D: usize>(a: &Input, b: &Input) -> Box<dyn Work> {
    let (a, b) = (tensor::<D>(a), tensor::<D>(b));
    work(move || a.clone().matmul(b.clone()))
}

fn sorted<const D: usize>(x: &Input) -> Box<dyn Work> {
    let x = tensor::<D>(x);
    work(move || x.clone().sort(D - 1))
}

/// Weights are (inputs, outputs) here.
fn dense_weight(device: &Device, input: &Input) -> Tensor<2> {
    Tensor::from_data(on::<2>(device, input).transpose().into_data(), device)
}

/// A layer that is trained.
struct Layer<const D: usize>(Tensor<D>, Tensor<1>);

impl<const D: usize> Layer<D> {
    fn new(weight: Tensor<D>, bias: Tensor<1>) -> Self {
        Layer(weight.require_grad(), bias.require_grad())
    }

    fn descend(&mut self, gradients: &mut Gradients) {
        descend(&mut self.0, gradients);
        descend(&mut self.1, gradients);
    }
}

fn descend<const D: usize>(value: &mut Tensor<D>, gradients: &mut Gradients) {
    if let Some(gradient) = value.grad_remove(gradients) {
        let next = value.clone().inner() - gradient * RATE;
        *value = Tensor::from_inner(next).require_grad();
    }
}

/// A network whose weights of rank 4 are convolutions and of rank 2 dense layers.
struct Trained {
    convs: Vec<Layer<4>>,
    denses: Vec<Layer<2>>,
    loss: CrossEntropyLoss,
}

impl Trained {
    fn loss(&self, mut x: Tensor<4>, y: Tensor<1, Int>) -> Tensor<1> {
        for (i, Layer(weight, bias)) in self.convs.iter().enumerate() {
            let padding = if i == 0 { 2 } else { 0 };
            let options = ConvOptions::new([1, 1], [padding; 2], [1, 1], 1);
            let hidden = relu(conv2d(x, weight.clone(), Some(bias.clone()), options));
            x = max_pool2d(hidden, MaxPoolOptions::new([2, 2]));
        }
        let mut x = x.flatten::<2>(1, 3);
        for (i, Layer(weight, bias)) in self.denses.iter().enumerate() {
            x = linear(x, weight.clone(), Some(bias.clone()));
            if i + 1 < self.denses.len() {
                x = relu(x);
            }
        }
        self.loss.forward(x, y)
    }
}

/// Forward, backward and an update.
fn step(x: &Input, parameters: &[Input]) -> Box<dyn Work> {
    let device = Device::flex().autodiff();
    let mut network = Trained {
        convs: Vec::new(),
        denses: Vec::new(),
        loss: CrossEntropyLossConfig::new().init(&device),
    };
    for pair in parameters.chunks_exact(2) {
        let bias = on(&device, &pair[1]);
        match pair[0].sizes.len() {
            4 => network.convs.push(Layer::new(on(&device, &pair[0]), bias)),
            _ => network
                .denses
                .push(Layer::new(dense_weight(&device, &pair[0]), bias)),
        }
    }
    let targets: Vec<i32> = classes(x.sizes[0]).map(|class| class as i32).collect();
    let y = Tensor::<1, Int>::from_data(targets.as_slice(), &device);
    let mut sizes = [1; 4];
    sizes[..x.sizes.len()].copy_from_slice(x.sizes);
    let x: Tensor<4> = Tensor::from_data(TensorData::new(x.values.to_vec(), sizes), &device);
    work(move || {
        let loss = network.loss(x.clone(), y.clone());
        let mut gradients = loss.backward();
        network
            .convs
            .iter_mut()
            .for_each(|layer| layer.descend(&mut gradients));
        network
            .denses
            .iter_mut()
            .for_each(|layer| layer.descend(&mut gradients));
        Scalar(loss.inner())
    })
}

/// Takes parameters in their order.
struct Parameters<'a>(std::slice::Iter<'a, Input<'a>>);

impl<'a> Parameters<'a> {
    fn input(&mut self) -> &'a Input<'a> {
        self.0.next().expect("as many parameters as the network has")
    }

    fn next<const D: usize>(&mut self) -> Tensor<D> {
        tensor(self.input())
    }
}

struct Dense(Tensor<2>, Tensor<1>);

impl Dense {
    fn new(parameters: &mut Parameters) -> Dense {
        let weight = dense_weight(&Device::flex(), parameters.input());
        Dense(weight, parameters.next())
    }

    fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        linear(x, self.0.clone(), Some(self.1.clone()))
    }
}

/// A convolution and its batch norm: scale, shift, mean, variance.
struct Conv {
    weight: Tensor<4>,
    norm: [Tensor<1>; 4],
    stride: usize,
}

impl Conv {
    fn new(parameters: &mut Parameters, stride: usize) -> Conv {
        Conv {
            weight: parameters.next(),
            norm: std::array::from_fn(|_| parameters.next()),
            stride,
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let padding = self.weight.dims()[2] / 2;
        let options = ConvOptions::new([self.stride; 2], [padding; 2], [1, 1], 1);
        let y = conv2d(x, self.weight.clone(), None, options);
        let [scale, shift, mean, var] = self.norm.clone();
        batch_norm(y, scale, shift, mean, var, EPS)
    }
}

struct ResNet18 {
    stem: Conv,
    blocks: Vec<(Conv, Conv, Option<Conv>)>,
    classes: Dense,
}

impl ResNet18 {
    fn new(parameters: &mut Parameters) -> ResNet18 {
        let stem = Conv::new(parameters, 2);
        let mut blocks = Vec::new();
        let mut inputs = 64;
        for (outputs, stride) in STAGES {
            for stride in [stride, 1] {
                let (a, b) = (Conv::new(parameters, stride), Conv::new(parameters, 1));
                let projection = (inputs != outputs).then(|| Conv::new(parameters, stride));
                blocks.push((a, b, projection));
                inputs = outputs;
            }
        }
        ResNet18 {
            stem,
            blocks,
            classes: Dense::new(parameters),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<2> {
        let mut x = max_pool2d(relu(self.stem.forward(x)), stem_pool());
        for (a, b, projection) in &self.blocks {
            let y = b.forward(relu(a.forward(x.clone())));
            x = relu(match projection {
                Some(projection) => y + projection.forward(x),
                None => y + x,
            });
        }
        self.classes
            .forward(x.mean_dims(&[2, 3]).squeeze_dims::<2>(&[2, 3]))
    }
}

struct EncoderLayer {
    qkv: [Dense; 3],
    out: Dense,
    wide: Dense,
    narrow: Dense,
    norms: [[Tensor<1>; 2]; 2],
}

impl EncoderLayer {
    fn new(parameters: &mut Parameters) -> EncoderLayer {
        EncoderLayer {
            qkv: std::array::from_fn(|_| Dense::new(parameters)),
            out: Dense::new(parameters),
            wide: Dense::new(parameters),
            narrow: Dense::new(parameters),
            norms: std::array::from_fn(|_| [parameters.next(), parameters.next()]),
        }
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, length, width] = x.dims();
        let [q, k, v] = self.qkv.each_ref().map(|dense| {
            let heads = dense.forward(x.clone());
            heads
                .reshape([batch, length, HEADS, width / HEADS])
                .swap_dims(1, 2)
        });
        let heads = attention(q, k, v, None, None, AttentionModuleOptions::default());
        let heads = heads.swap_dims(1, 2).reshape([batch, length, width]);
        let norm = |x, i: usize| {
            let [scale, shift] = self.norms[i].clone();
            layer_norm(x, scale, Some(shift), EPS)
        };
        let x = norm(x + self.out.forward(heads), 0);
        norm(x.clone() + self.narrow.forward(gelu(self.wide.forward(x))), 1)
    }
}
