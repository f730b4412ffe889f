//! Convolutions by channel between the layers of a transformer.

use thalweg::ops::ConvOptions;
use thalweg::{Context, Result, Tensor};
use thalweg_nn::{Conv2d, Dense, GlobalAvgPool, Layer, LayerNorm, Module, Parameter};

/// ConvNeXt (Liu et al., CVPR 2022) of the size called atto, for 224 × 224 images and 1000 classes, without dropped blocks.
#[derive(Clone, Debug, Module)]
pub(crate) struct ConvNext {
    stages: Vec<Stage>,
    norm: LayerNorm,
    classes: Dense,
}

/// A coarser grid, and blocks on it.
#[derive(Clone, Debug, Module)]
struct Stage {
    norm: LayerNorm,
    coarser: Conv2d,
    blocks: Vec<Block>,
}

/// By channel, normalised, wide, narrow and scaled, beside the identity.
#[derive(Clone, Debug, Module)]
struct Block {
    channels: Conv2d,
    norm: LayerNorm,
    wide: Dense,
    narrow: Dense,
    scale: Parameter,
}

/// What maps the channels of a place, on `[n, channels, h, w]`.
fn by_place(x: &Tensor, map: impl Fn(&Tensor) -> Tensor) -> Tensor {
    map(&x.permute([0, 2, 3, 1])).permute([0, 3, 1, 2])
}

impl ConvNext {
    /// For one image.
    pub(crate) const PRODUCTS: f64 = 547_332_480.0;

    pub(crate) fn new(cx: &Context) -> Result<ConvNext> {
        let mut stages = Vec::new();
        let mut inputs = 3;
        for (width, count) in [(40, 2), (80, 2), (160, 6), (320, 2)] {
            let first = stages.is_empty();
            let step = if first { 4 } else { 2 };
            let block = || -> Result<Block> {
                Ok(Block {
                    channels: Conv2d::new(
                        width,
                        width,
                        [7, 7],
                        ConvOptions::new().padding(3).groups(width),
                        cx,
                    )?,
                    norm: LayerNorm::new(&[width], cx)?,
                    wide: Dense::new(width, 4 * width, cx)?,
                    narrow: Dense::new(4 * width, width, cx)?,
                    scale: Parameter::new(Tensor::full([width], 0.5_f32, cx)),
                })
            };
            stages.push(Stage {
                norm: LayerNorm::new(&[if first { width } else { inputs }], cx)?,
                coarser: Conv2d::new(inputs, width, [step, step], ConvOptions::new().stride(step), cx)?,
                blocks: (0..count).map(|_| block()).collect::<Result<_>>()?,
            });
            inputs = width;
        }
        Ok(ConvNext {
            stages,
            norm: LayerNorm::new(&[inputs], cx)?,
            classes: Dense::new(inputs, 1000, cx)?,
        })
    }
}

impl Layer for ConvNext {
    fn forward(&self, x: &Tensor) -> Tensor {
        let mut x = x.clone();
        for (at, stage) in self.stages.iter().enumerate() {
            let normed = |x: &Tensor| by_place(x, |x| stage.norm.forward(x));
            // The first is normalised behind its convolution.
            x = if at == 0 {
                normed(&stage.coarser.forward(&x))
            } else {
                stage.coarser.forward(&normed(&x))
            };
            x = stage.blocks.iter().fold(x, |x, block| block.forward(&x));
        }
        let x = GlobalAvgPool.forward(&x);
        self.classes.forward(&self.norm.forward(&x))
    }
}

impl Layer for Block {
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = by_place(&self.channels.forward(x), |y| {
            let wide = self.wide.forward(&self.norm.forward(y)).gelu();
            self.narrow.forward(&wide) * self.scale.value()
        });
        x + y
    }
}
