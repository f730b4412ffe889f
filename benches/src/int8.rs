//! Networks of 8 bits, made of those of f32: batch norm is folded into convolutions, ranges are taken from a few inputs, then the
//! layers are replaced.

use crate::resnet::ResNet18;
use std::path::Path;
use thalweg::interchange::npy;
use thalweg::{Context, Error, Result, Tensor};
use thalweg_nn::module::{PartMut, VisitorMut};
use thalweg_nn::{
    Calibration, Conv2d, Dense, Layer, Module, QuantizedConv2d, QuantizedDense, TransformerEncoderLayer,
};

/// Encoder layers one after the other.
#[derive(Clone, Debug, Module)]
pub struct Encoder<D: Layer = Dense>(pub(crate) Vec<TransformerEncoderLayer<D>>);

impl<D: Layer> Layer for Encoder<D> {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.0.iter().fold(x.clone(), |x, layer| layer.forward(&x))
    }
}

impl Encoder {
    /// The six layers of 384 features and six heads.
    pub(crate) fn new(cx: &Context) -> Result<Encoder> {
        let layer = |_| TransformerEncoderLayer::new(384, 6, 4 * 384, cx);
        Ok(Encoder((0..6).map(layer).collect::<Result<_>>()?))
    }
}

/// The network with all dense layers of 8 bits, with ranges of `seen`.
pub(crate) fn encoder(net: &Encoder, seen: &[Tensor], cx: &Context) -> Result<Encoder<QuantizedDense>> {
    let noting =
        |layer: &TransformerEncoderLayer| layer.map_dense(|dense| Ok(Calibration::new(dense.clone(), cx)));
    let noting = Encoder(net.0.iter().map(noting).collect::<Result<_>>()?);
    for x in seen {
        noting.forward(x).shape()?;
    }
    let layers = noting.0.iter().map(TransformerEncoderLayer::quantized);
    Ok(Encoder(layers.collect::<Result<_>>()?))
}

/// The network with all convolutions and the dense layer of 8 bits, with ranges of `seen`.
pub(crate) fn resnet(
    net: &ResNet18,
    seen: &[Tensor],
    cx: &Context,
) -> Result<ResNet18<QuantizedConv2d, QuantizedDense>> {
    let noting: ResNet18<Calibration<Conv2d>, Calibration<Dense>> = net.map(
        |layer| Ok(Calibration::new(layer.conv.with_norm(&layer.norm)?, cx)),
        |dense| Ok(Calibration::new(dense.clone(), cx)),
    )?;
    for x in seen {
        noting.forward(x).shape()?;
    }
    let mut net = noting.map(QuantizedConv2d::calibrated, QuantizedDense::calibrated)?;
    for block in &mut net.blocks {
        if let Some(projection) = &mut block.projection {
            projection.share_range(&block.first)?;
        }
    }
    Ok(net)
}

/// A network of f32 and the same of 8 bits, with the inputs that they are tested with.
pub struct Pair {
    /// Its name in `benches/peers/networks.py`.
    pub name: &'static str,
    /// The outputs in f32.
    pub float: Box<dyn Fn(&Tensor) -> Tensor>,
    /// The outputs by layers of 8 bits.
    pub integer: Box<dyn Fn(&Tensor) -> Tensor>,
    /// Other inputs than those that ranges were taken from.
    pub inputs: Vec<Tensor>,
}

/// Inputs of `inputs.npy` that ranges are taken from, as in `benches/peers/int8.py`.
const SEEN: usize = 4;

/// The networks with the weights that `benches/peers/int8.py` wrote to a folder.
///
/// # Errors
/// A file cannot be read; those of the ops.
pub fn pairs(folder: &Path, cx: &Context) -> Result<Vec<Pair>> {
    let mut net = ResNet18::new(cx)?;
    let (seen, inputs) = read(&mut net, &folder.join("resnet18"), of_resnet, cx)?;
    let integer = resnet(&net, &seen, cx)?;
    let resnet = pair("resnet18", net, integer, inputs);
    let mut net = Encoder::new(cx)?;
    let (seen, inputs) = read(&mut net, &folder.join("encoder6"), of_encoder, cx)?;
    let integer = encoder(&net, &seen, cx)?;
    Ok(vec![resnet, pair("encoder6", net, integer, inputs)])
}

fn pair<F, I>(name: &'static str, float: F, integer: I, inputs: Vec<Tensor>) -> Pair
where
    F: Layer + Send + Sync + 'static,
    I: Layer + Send + Sync + 'static,
{
    let float = thalweg::jit(move |x: &Tensor| float.forward(x));
    let integer = thalweg::jit(move |x: &Tensor| integer.forward(x));
    Pair {
        name,
        float: Box::new(move |x| float.call(x)),
        integer: Box::new(move |x| integer.call(x)),
        inputs,
    }
}

/// Reads the parameters and states of a network, whose paths become names of files, and its inputs: those for ranges, and others.
fn read<N: Module>(
    net: &mut N,
    folder: &Path,
    name: impl Fn(&str) -> String,
    cx: &Context,
) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    net.set_training(false);
    let file = |name: String| npy::read(folder.join(format!("{name}.npy")), cx);
    let mut failed: Option<Error> = None;
    net.visit_mut(&mut VisitorMut::new(&mut |path, part| {
        let found = match part {
            PartMut::Parameter(parameter) => file(name(path)).map(|value| parameter.set_value(value)),
            PartMut::State(state) if path.contains("running") => {
                file(name(path)).map(|value| state.set(value))
            }
            PartMut::State(_) | PartMut::Training(_) => Ok(()),
        };
        failed = failed.take().or(found.err());
    }));
    if let Some(error) = failed {
        return Err(error);
    }
    let all = file("inputs".to_owned())?;
    let inputs = (0..all.shape()?[0] as i64).map(|at| all.narrow(0, at, 1).squeeze_axes(0));
    let mut seen: Vec<Tensor> = inputs.collect();
    let others = seen.split_off(SEEN.min(seen.len()));
    Ok((seen, others))
}

/// Replaces texts, one after the other.
fn renamed(path: &str, pairs: &[(&str, &str)]) -> String {
    (pairs.iter()).fold(path.to_owned(), |path, (from, to)| path.replace(from, to))
}

fn of_resnet(path: &str) -> String {
    let path = renamed(
        path,
        &[
            (".conv.weight", ".weight"),
            (".norm.weight", ".scale"),
            (".norm.bias", ".shift"),
            (".norm.running_", "."),
            (".first", ".a"),
            (".second", ".b"),
            (".projection", ".p"),
        ],
    );
    let block = path.strip_prefix("blocks.").and_then(|rest| rest.split_once('.'));
    match block.and_then(|(at, rest)| Some((at.parse::<usize>().ok()?, rest))) {
        Some((at, rest)) => format!("{}.{}.{rest}", at / 2, at % 2),
        None => path.replace("running_", ""),
    }
}

fn of_encoder(path: &str) -> String {
    let path = path.strip_prefix("0.").unwrap_or(path);
    renamed(
        path,
        &[
            (".around_attention.norm.weight", ".n1.scale"),
            (".around_attention.norm.bias", ".n1.shift"),
            (".around_feed_forward.norm.weight", ".n2.scale"),
            (".around_feed_forward.norm.bias", ".n2.shift"),
            (".attention.query", ".q"),
            (".attention.key", ".k"),
            (".attention.value", ".v"),
            (".attention.output", ".o"),
            (".feed_forward", ""),
        ],
    )
}
