//! Layers that see all layers before them.

use crate::resnet::Normed;
use thalweg::ops::{ConvOptions, PoolOptions};
use thalweg::{Context, Result, Tensor};
use thalweg_nn::{BatchNorm, Conv2d, Dense, GlobalAvgPool, Layer, Module};

const GROWTH: usize = 32;

/// DenseNet-121 (Huang et al., CVPR 2017) for 224 × 224 images and 1000 classes.
#[derive(Clone, Debug, Module)]
pub(crate) struct DenseNet {
    stem: Normed,
    stages: Vec<Stage>,
    norm: BatchNorm,
    classes: Dense,
}

/// Layers on one grid, and what halves it and the channels.
#[derive(Clone, Debug, Module)]
struct Stage {
    layers: Vec<Grown>,
    coarser: Option<Before>,
}

/// A convolution, and what normalises its input.
#[derive(Clone, Debug, Module)]
struct Before {
    norm: BatchNorm,
    conv: Conv2d,
}

/// Channels beside those that it is made of.
#[derive(Clone, Debug, Module)]
struct Grown {
    narrow: Before,
    new: Before,
}

impl Before {
    fn new(inputs: usize, outputs: usize, taps: usize, cx: &Context) -> Result<Before> {
        let options = ConvOptions::new().padding(taps / 2);
        let mut conv = Conv2d::new(inputs, outputs, [taps, taps], options, cx)?;
        conv.bias = None;
        let norm = BatchNorm::new(inputs, cx)?;
        Ok(Before { norm, conv })
    }
}

impl Layer for Before {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.conv.forward(&self.norm.forward(x).relu())
    }
}

impl DenseNet {
    /// For one image.
    pub(crate) const PRODUCTS: f64 = 2_834_161_664.0;

    pub(crate) fn new(cx: &Context) -> Result<DenseNet> {
        let stem = Normed::new(3, 64, 7, ConvOptions::new().stride(2), cx)?;
        let (mut stages, mut width) = (Vec::new(), 64);
        for count in [6, 12, 24, 16] {
            let mut layers = Vec::new();
            for _ in 0..count {
                layers.push(Grown {
                    narrow: Before::new(width, 4 * GROWTH, 1, cx)?,
                    new: Before::new(4 * GROWTH, GROWTH, 3, cx)?,
                });
                width += GROWTH;
            }
            let coarser = (stages.len() < 3).then(|| Before::new(width, width / 2, 1, cx));
            width /= if coarser.is_some() { 2 } else { 1 };
            stages.push(Stage {
                layers,
                coarser: coarser.transpose()?,
            });
        }
        Ok(DenseNet {
            stem,
            stages,
            norm: BatchNorm::new(width, cx)?,
            classes: Dense::new(width, 1000, cx)?,
        })
    }
}

impl Layer for DenseNet {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.stem.forward(x).relu();
        let mut x = x.max_pool2d(PoolOptions::new(3).stride(2).padding(1));
        for stage in &self.stages {
            x = stage.layers.iter().fold(x, |x, layer| {
                let new = layer.new.forward(&layer.narrow.forward(&x));
                Tensor::concat(&[x, new], 1)
            });
            if let Some(coarser) = &stage.coarser {
                x = coarser.forward(&x).avg_pool2d(PoolOptions::new(2));
            }
        }
        let x = self.norm.forward(&x).relu();
        self.classes.forward(&GlobalAvgPool.forward(&x))
    }
}
