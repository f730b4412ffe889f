//! Networks of other kinds, each with parts that no other has: depthwise convolutions, a decoder over words, an image to an image.

mod convnext;
mod denoiser;
mod densenet;
mod efficientnet;
mod resnext;
mod shufflenet;
mod swin;
mod tcn;

pub(crate) use convnext::ConvNext;
pub(crate) use denoiser::Denoiser;
pub(crate) use densenet::DenseNet;
pub(crate) use efficientnet::EfficientNet;
pub(crate) use resnext::ResNext;
pub(crate) use shufflenet::ShuffleNet;
pub(crate) use swin::Swin;
pub(crate) use tcn::Tcn;

use crate::networks::numbers;
use crate::resnet::Normed;
use thalweg::ops::{AttentionOptions, ConvOptions, ConvTransposeOptions, PoolOptions};
use thalweg::{Context, Result, Tensor};
use thalweg_nn::{
    ConvTranspose2d, Dense, Embedding, GlobalAvgPool, Layer, LayerNorm, Module, Parameter,
    TransformerEncoderLayer,
};

/// MobileNetV2 (Sandler et al., CVPR 2018) for 224 × 224 images and 1000 classes.
#[derive(Clone, Debug, Module)]
pub(crate) struct MobileNet {
    stem: Normed,
    blocks: Vec<Inverted>,
    last: Normed,
    classes: Dense,
}

/// Wide, by channel, narrow; beside the identity where the shape stays.
#[derive(Clone, Debug, Module)]
struct Inverted {
    wide: Option<Normed>,
    channels: Normed,
    narrow: Normed,
    residual: bool,
}

fn relu6(x: &Tensor) -> Tensor {
    x.hardtanh(0.0, 6.0)
}

impl MobileNet {
    pub(crate) fn new(cx: &Context) -> Result<MobileNet> {
        let plain = ConvOptions::new;
        let stem = Normed::new(3, 32, 3, plain().stride(2), cx)?;
        let mut blocks = Vec::new();
        let mut inputs = 32;
        for (ratio, outputs, count, stride) in [
            (1, 16, 1, 1),
            (6, 24, 2, 2),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        ] {
            for at in 0..count {
                let stride = if at == 0 { stride } else { 1 };
                let hidden = inputs * ratio;
                let wide = (ratio > 1).then(|| Normed::new(inputs, hidden, 1, plain(), cx));
                blocks.push(Inverted {
                    wide: wide.transpose()?,
                    channels: Normed::new(hidden, hidden, 3, plain().stride(stride).groups(hidden), cx)?,
                    narrow: Normed::new(hidden, outputs, 1, plain(), cx)?,
                    residual: stride == 1 && inputs == outputs,
                });
                inputs = outputs;
            }
        }
        let last = Normed::new(inputs, 1280, 1, plain(), cx)?;
        let classes = Dense::new(1280, 1000, cx)?;
        Ok(MobileNet {
            stem,
            blocks,
            last,
            classes,
        })
    }
}

impl Layer for MobileNet {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = relu6(&self.stem.forward(x));
        let x = self.blocks.iter().fold(x, |x, block| block.forward(&x));
        let x = relu6(&self.last.forward(&x));
        self.classes.forward(&GlobalAvgPool.forward(&x))
    }
}

impl Layer for Inverted {
    fn forward(&self, x: &Tensor) -> Tensor {
        let wide = self.wide.as_ref().map(|wide| relu6(&wide.forward(x)));
        let y = relu6(&self.channels.forward(wide.as_ref().unwrap_or(x)));
        let y = self.narrow.forward(&y);
        if self.residual { y + x } else { y }
    }
}

/// A decoder of words as GPT-2 (Radford et al., 2019): `[b, positions]` to the scores `[b * positions, words]`.
#[derive(Clone, Debug, Module)]
pub(crate) struct Gpt {
    words: Embedding,
    places: Parameter,
    layers: Vec<TransformerEncoderLayer>,
    norm: LayerNorm,
    scores: Dense,
}

impl Gpt {
    pub(crate) const WORDS: usize = 8192;
    pub(crate) const POSITIONS: usize = 256;
    const WIDTH: usize = 384;
    const LAYERS: usize = 4;
    /// For one position.
    pub(crate) const PRODUCTS: f64 = {
        let width = Gpt::WIDTH as f64;
        let layer = 12.0 * width * width + 2.0 * Gpt::POSITIONS as f64 * width;
        Gpt::LAYERS as f64 * layer + width * Gpt::WORDS as f64
    };

    pub(crate) fn new(cx: &Context) -> Result<Gpt> {
        let width = Gpt::WIDTH;
        let layer = || -> Result<TransformerEncoderLayer> {
            let mut layer = TransformerEncoderLayer::new(width, width / 64, 4 * width, cx)?;
            layer.pre_norm = true;
            Ok(layer)
        };
        Ok(Gpt {
            words: Embedding::new(Gpt::WORDS, width, cx)?,
            places: Parameter::new(numbers(&[Gpt::POSITIONS, width], cx)),
            layers: (0..Gpt::LAYERS).map(|_| layer()).collect::<Result<_>>()?,
            norm: LayerNorm::new(&[width], cx)?,
            scores: Dense::new(width, Gpt::WORDS, cx)?,
        })
    }
}

impl Layer for Gpt {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.words.forward(x) + self.places.value();
        let causal = AttentionOptions::new().causal(true);
        let x = self.layers.iter().fold(x, |x, layer| layer.encode(&x, causal));
        let y = self.scores.forward(&self.norm.forward(&x));
        y.flatten_axes(0, 1)
    }
}

/// A U-Net (Ronneberger et al., MICCAI 2015) with two levels and its classes from the mean of what it makes.
#[derive(Clone, Debug, Module)]
pub(crate) struct UNet {
    down: Vec<Normed>,
    bottom: Normed,
    up: Vec<ConvTranspose2d>,
    joined: Vec<Normed>,
    classes: Dense,
}

impl UNet {
    /// For one image of 128 × 128.
    pub(crate) const PRODUCTS: f64 = 16384.0 * 32.0 * (27.0 + 576.0)
        + 4096.0 * 64.0 * (288.0 + 1152.0)
        + 1024.0 * 128.0 * 576.0
        + 4096.0 * 64.0 * 128.0
        + 16384.0 * 32.0 * 64.0;

    pub(crate) fn new(cx: &Context) -> Result<UNet> {
        let plain = ConvOptions::new;
        let widths = [32, 64];
        let up = |inputs: usize, outputs: usize| {
            ConvTranspose2d::new(inputs, outputs, [2, 2], ConvTransposeOptions::new().stride(2), cx)
        };
        Ok(UNet {
            down: vec![
                Normed::new(3, 32, 3, plain(), cx)?,
                Normed::new(32, 64, 3, plain(), cx)?,
            ],
            bottom: Normed::new(64, 128, 3, plain(), cx)?,
            up: vec![up(128, widths[1])?, up(64, widths[0])?],
            joined: vec![
                Normed::new(128, 64, 3, plain(), cx)?,
                Normed::new(64, 32, 3, plain(), cx)?,
            ],
            classes: Dense::new(32, 10, cx)?,
        })
    }
}

impl Layer for UNet {
    fn forward(&self, x: &Tensor) -> Tensor {
        let mut x = x.clone();
        let mut sides = Vec::new();
        for down in &self.down {
            let y = down.forward(&x).relu();
            x = y.max_pool2d(PoolOptions::new(2));
            sides.push(y);
        }
        x = self.bottom.forward(&x).relu();
        for (up, joined) in self.up.iter().zip(&self.joined) {
            let side = sides.pop().unwrap_or_else(|| x.clone());
            x = joined.forward(&Tensor::concat(&[up.forward(&x), side], 1)).relu();
        }
        self.classes.forward(&GlobalAvgPool.forward(&x))
    }
}
