//! Channels that are weighed by what the whole image says.

use crate::resnet::Normed;
use thalweg::ops::ConvOptions;
use thalweg::{Context, Result, Tensor};
use thalweg_nn::{Conv2d, Dense, GlobalAvgPool, Layer, Module};

/// EfficientNet-B0 (Tan and Le, ICML 2019) for 224 × 224 images and 1000 classes, without dropped blocks.
#[derive(Clone, Debug, Module)]
pub(crate) struct EfficientNet {
    stem: Normed,
    blocks: Vec<Block>,
    last: Normed,
    classes: Dense,
}

/// Wide, by channel, weighed (Hu et al., CVPR 2018), narrow; beside the identity where the shape stays.
#[derive(Clone, Debug, Module)]
struct Block {
    wide: Option<Normed>,
    channels: Normed,
    squeeze: Conv2d,
    excite: Conv2d,
    narrow: Normed,
    residual: bool,
}

impl EfficientNet {
    /// For one image.
    pub(crate) const PRODUCTS: f64 = 385_814_752.0;

    pub(crate) fn new(cx: &Context) -> Result<EfficientNet> {
        let plain = ConvOptions::new;
        let stem = Normed::new(3, 32, 3, plain().stride(2), cx)?;
        let mut blocks = Vec::new();
        let mut inputs = 32;
        for (ratio, outputs, count, stride, taps) in [
            (1, 16, 1, 1, 3),
            (6, 24, 2, 2, 3),
            (6, 40, 2, 2, 5),
            (6, 80, 3, 2, 3),
            (6, 112, 3, 1, 5),
            (6, 192, 4, 2, 5),
            (6, 320, 1, 1, 3),
        ] {
            for at in 0..count {
                let stride = if at == 0 { stride } else { 1 };
                let hidden = inputs * ratio;
                let wide = (ratio > 1).then(|| Normed::new(inputs, hidden, 1, plain(), cx));
                let by_channel = plain().stride(stride).groups(hidden);
                blocks.push(Block {
                    wide: wide.transpose()?,
                    channels: Normed::new(hidden, hidden, taps, by_channel, cx)?,
                    squeeze: Conv2d::new(hidden, inputs / 4, [1, 1], plain(), cx)?,
                    excite: Conv2d::new(inputs / 4, hidden, [1, 1], plain(), cx)?,
                    narrow: Normed::new(hidden, outputs, 1, plain(), cx)?,
                    residual: stride == 1 && inputs == outputs,
                });
                inputs = outputs;
            }
        }
        Ok(EfficientNet {
            stem,
            blocks,
            last: Normed::new(inputs, 1280, 1, plain(), cx)?,
            classes: Dense::new(1280, 1000, cx)?,
        })
    }
}

impl Layer for EfficientNet {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.stem.forward(x).silu();
        let x = self.blocks.iter().fold(x, |x, block| block.forward(&x));
        let x = self.last.forward(&x).silu();
        self.classes.forward(&GlobalAvgPool.forward(&x))
    }
}

impl Layer for Block {
    fn forward(&self, x: &Tensor) -> Tensor {
        let wide = self.wide.as_ref().map(|wide| wide.forward(x).silu());
        let y = self.channels.forward(wide.as_ref().unwrap_or(x)).silu();
        let squeezed = self.squeeze.forward(&y.mean_keepdims([2, 3])).silu();
        let y = self
            .narrow
            .forward(&(&y * self.excite.forward(&squeezed).sigmoid()));
        if self.residual { y + x } else { y }
    }
}
