//! candle-core and candle-nn on the CPU.

use crate::{Answer, CHUNK, EPS, HEADS, Input, K, MU, RATE, STAGES, Work, classes, work};
use candle_core::{D, DType, Device, Result, Tensor, Var};
use candle_nn::attention::{AttnMask, flash_attn};
use candle_nn::{
    BatchNorm, Conv2d, Conv2dConfig, LayerNorm, Linear, Module, ModuleT, Optimizer, SGD, loss, ops,
};

impl Answer for Tensor {
    fn read(&self) -> (Vec<usize>, Vec<f32>) {
        let flat = self.flatten_all().and_then(|x| x.to_dtype(DType::F32));
        let values = flat.and_then(|x| x.to_vec1()).expect("a result can be read");
        (self.dims().to_vec(), values)
    }
}

fn tensor(input: &Input) -> Result<Tensor> {
    Tensor::from_slice(input.values, input.sizes, &Device::Cpu)
}

pub(crate) fn prepare(op: &str, inputs: &[Input]) -> Option<Box<dyn Work>> {
    let made = match op {
        "mlp_step" | "lenet5_step" => step(inputs),
        "energy_chunked" => chunked(&inputs[0]),
        "embedding" => embedding(inputs),
        "resnet18" => inference::<ResNet18>(inputs),
        "encoder6" => inference::<Encoder>(inputs),
        _ => single(op, inputs).transpose()?,
    };
    Some(made.expect("the inputs fit the op"))
}

fn repeated(mut compute: impl FnMut() -> Result<Tensor> + 'static) -> Box<dyn Work> {
    work(move || compute().expect("the inputs fit the op"))
}

fn single(op: &str, inputs: &[Input]) -> Result<Option<Box<dyn Work>>> {
    let compute: fn(&[Tensor]) -> Result<Tensor> = match op {
        "energy" => |t| energy(&t[0]),
        "softmax" => |t| ops::softmax_last_dim(&t[0]),
        "layernorm" => |t| ops::layer_norm(&t[0], &t[1], &t[2], EPS as f32),
        "add" => |t| &t[0] + &t[1],
        "gelu" => |t| t[0].gelu_erf(),
        "matmul" if inputs[1].sizes.len() == 1 => |t| t[0].mv(&t[1]),
        "matmul" | "matmul_bf16" => |t| t[0].matmul(&t[1]),
        "sum0" => |t| t[0].sum(0),
        "sum1" => |t| t[0].sum(1),
        "argmax" => |t| t[0].argmax(0),
        "transpose" => |t| t[0].t()?.contiguous(),
        "sort" => |t| Ok(t[0].sort_last_dim(true)?.0),
        "cumsum0" => |t| t[0].cumsum(0),
        "cumsum1" => |t| t[0].cumsum(1),
        "conv" => |t| convolved(t, 1),
        "conv_stride2" => |t| convolved(t, 2),
        "maxpool" => |t| pooled(&t[0]),
        "attention" => |t| attended(t, AttnMask::None),
        "attention_causal" => |t| attended(t, AttnMask::causal()),
        _ => return Ok(None),
    };
    let of = |input| match op {
        "matmul_bf16" => tensor(input)?.to_dtype(DType::BF16),
        _ => tensor(input),
    };
    let tensors = inputs.iter().map(of).collect::<Result<Vec<_>>>()?;
    Ok(Some(repeated(move || compute(&tensors))))
}

fn energy(x: &Tensor) -> Result<Tensor> {
    ((x - MU)?.sqr()? * (0.5 * K))?.sum_all()
}

/// Of host memory, a chunk at a time.
fn chunked(x: &Input) -> Result<Box<dyn Work>> {
    let data = x.values.to_vec();
    Ok(repeated(move || {
        let chunks = data.chunks_exact(CHUNK);
        let energies = chunks.map(|chunk| energy(&Tensor::from_slice(chunk, CHUNK, &Device::Cpu)?));
        energies
            .reduce(|total, next| total? + next?)
            .expect("there is a chunk")
    }))
}

fn embedding(inputs: &[Input]) -> Result<Box<dyn Work>> {
    let rows = inputs[1].values.iter().map(|&row| row as u32);
    let (table, rows) = (tensor(&inputs[0])?, Tensor::from_iter(rows, &Device::Cpu)?);
    Ok(repeated(move || table.embedding(&rows)))
}

/// With padding by half the taps, and groups as large as the weight says.
fn convolved(t: &[Tensor], stride: usize) -> Result<Tensor> {
    let groups = t[0].dim(1)? / t[1].dim(1)?;
    t[0].conv2d(&t[1], t[1].dim(3)? / 2, stride, 1, groups)
}

/// Windows of 3 by 3 with stride 2 and padding 1.
fn pooled(x: &Tensor) -> Result<Tensor> {
    let x = x.pad_with_same(D::Minus1, 1, 1)?.pad_with_same(D::Minus2, 1, 1)?;
    x.max_pool2d_with_stride(3, 2)
}

/// The library's layout is batch, positions, heads, width.
fn attended(t: &[Tensor], mask: AttnMask) -> Result<Tensor> {
    let laid = |x: &Tensor| x.transpose(0, 1)?.unsqueeze(0);
    let scale = 1.0 / (t[0].dim(D::Minus1)? as f32).sqrt();
    flash_attn::<f32>(
        &laid(&t[0])?,
        &laid(&t[1])?,
        &laid(&t[2])?,
        scale,
        mask,
        None,
        None,
    )?
    .squeeze(0)
}

fn convolution(weight: Tensor, bias: Option<Tensor>, stride: usize, padding: usize) -> Conv2d {
    let config = Conv2dConfig {
        stride,
        padding,
        ..Conv2dConfig::default()
    };
    Conv2d::new(weight, bias, config)
}

/// Forward, backward and an update of a network whose weights of rank 4 are convolutions and of rank 2 dense layers.
fn step(inputs: &[Input]) -> Result<Box<dyn Work>> {
    enum Layer {
        Conv(Conv2d),
        Dense(Linear),
    }
    let x = tensor(&inputs[0])?;
    let rows = x.dim(0)?;
    let y = Tensor::from_iter(classes(rows), &Device::Cpu)?;
    let parameters = inputs[1..].iter().map(|p| Var::from_tensor(&tensor(p)?));
    let parameters = parameters.collect::<Result<Vec<_>>>()?;
    let layers = parameters.chunks_exact(2).enumerate().map(|(i, pair)| {
        let (weight, bias) = (pair[0].as_tensor().clone(), Some(pair[1].as_tensor().clone()));
        match weight.rank() {
            4 => Layer::Conv(convolution(weight, bias, 1, if i == 0 { 2 } else { 0 })),
            _ => Layer::Dense(Linear::new(weight, bias)),
        }
    });
    let layers: Vec<_> = layers.collect();
    let mut descent = SGD::new(parameters, RATE)?;
    Ok(repeated(move || {
        let mut x = x.clone();
        for (i, layer) in layers.iter().enumerate() {
            x = match layer {
                Layer::Conv(conv) => conv.forward(&x)?.relu()?.max_pool2d(2)?,
                Layer::Dense(dense) => dense.forward(&x.flatten_from(1)?)?,
            };
            if matches!(layer, Layer::Dense(_)) && i + 1 < layers.len() {
                x = x.relu()?;
            }
        }
        let loss = loss::cross_entropy(&x, &y)?;
        descent.backward_step(&loss)?;
        Ok(loss.detach())
    }))
}

/// Takes parameters in their order.
struct Parameters<'a>(std::slice::Iter<'a, Input<'a>>);

impl Parameters<'_> {
    fn next(&mut self) -> Result<Tensor> {
        tensor(self.0.next().expect("as many parameters as the network has"))
    }

    fn dense(&mut self) -> Result<Linear> {
        Ok(Linear::new(self.next()?, Some(self.next()?)))
    }

    fn norm(&mut self) -> Result<LayerNorm> {
        Ok(LayerNorm::new(self.next()?, self.next()?, EPS))
    }
}

trait Network: Module + Sized + 'static {
    fn new(parameters: &mut Parameters) -> Result<Self>;
}

fn inference<N: Network>(inputs: &[Input]) -> Result<Box<dyn Work>> {
    let x = tensor(&inputs[0])?;
    let network = N::new(&mut Parameters(inputs[1..].iter()))?;
    Ok(repeated(move || network.forward(&x)))
}

/// A convolution and its batch norm.
struct Conv(Conv2d, BatchNorm);

impl Conv {
    fn new(parameters: &mut Parameters, stride: usize) -> Result<Conv> {
        let weight = parameters.next()?;
        let (outputs, _, taps, _) = weight.dims4()?;
        let (scale, shift) = (parameters.next()?, parameters.next()?);
        let (mean, var) = (parameters.next()?, parameters.next()?);
        let norm = BatchNorm::new(outputs, mean, var, scale, shift, EPS)?;
        Ok(Conv(convolution(weight, None, stride, taps / 2), norm))
    }
}

impl Module for Conv {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.1.forward_t(&self.0.forward(x)?, false)
    }
}

struct ResNet18 {
    stem: Conv,
    blocks: Vec<(Conv, Conv, Option<Conv>)>,
    classes: Linear,
}

impl Network for ResNet18 {
    fn new(parameters: &mut Parameters) -> Result<ResNet18> {
        let stem = Conv::new(parameters, 2)?;
        let mut blocks = Vec::new();
        let mut inputs = 64;
        for (outputs, stride) in STAGES {
            for stride in [stride, 1] {
                let (a, b) = (Conv::new(parameters, stride)?, Conv::new(parameters, 1)?);
                let projection = (inputs != outputs).then(|| Conv::new(parameters, stride));
                blocks.push((a, b, projection.transpose()?));
                inputs = outputs;
            }
        }
        let classes = parameters.dense()?;
        Ok(ResNet18 {
            stem,
            blocks,
            classes,
        })
    }
}

impl Module for ResNet18 {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.stem.forward(x)?.relu()?;
        let x = x.pad_with_same(D::Minus1, 1, 1)?.pad_with_same(D::Minus2, 1, 1)?;
        let mut x = x.max_pool2d_with_stride(3, 2)?;
        for (a, b, projection) in &self.blocks {
            let y = b.forward(&a.forward(&x)?.relu()?)?;
            let beside = match projection {
                Some(projection) => projection.forward(&x)?,
                None => x,
            };
            x = (y + beside)?.relu()?;
        }
        self.classes.forward(&x.mean(D::Minus1)?.mean(D::Minus1)?)
    }
}

struct Encoder(Vec<EncoderLayer>);

struct EncoderLayer {
    qkv: [Linear; 3],
    out: Linear,
    wide: Linear,
    narrow: Linear,
    norms: [LayerNorm; 2],
}

impl Network for Encoder {
    fn new(parameters: &mut Parameters) -> Result<Encoder> {
        let layer = |_| {
            let p = &mut *parameters;
            Ok(EncoderLayer {
                qkv: [p.dense()?, p.dense()?, p.dense()?],
                out: p.dense()?,
                wide: p.dense()?,
                narrow: p.dense()?,
                norms: [p.norm()?, p.norm()?],
            })
        };
        Ok(Encoder((0..6).map(layer).collect::<Result<_>>()?))
    }
}

impl Module for Encoder {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.0.iter().try_fold(x.clone(), |x, layer| layer.forward(&x))
    }
}

impl Module for EncoderLayer {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let [batch, length, width] = x.dims3()?.into();
        let split = |dense: &Linear| {
            let heads = dense.forward(x)?.reshape((batch, length, HEADS, width / HEADS))?;
            heads.transpose(1, 2)?.contiguous()
        };
        let [q, k, v] = &self.qkv;
        let scores = (split(q)?.matmul(&split(k)?.t()?)? / ((width / HEADS) as f64).sqrt())?;
        let heads = ops::softmax_last_dim(&scores)?.matmul(&split(v)?)?;
        let heads = heads.transpose(1, 2)?.flatten_from(2)?;
        let x = self.norms[0].forward(&(x + self.out.forward(&heads)?)?)?;
        let y = self.narrow.forward(&self.wide.forward(&x)?.gelu_erf()?)?;
        self.norms[1].forward(&(x + y)?)
    }
}
