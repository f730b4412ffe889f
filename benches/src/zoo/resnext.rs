//! Convolutions in groups of a few channels.

use crate::resnet::Normed;
use thalweg::ops::{ConvOptions, PoolOptions};
use thalweg::{Context, Result, Tensor};
use thalweg_nn::{Dense, GlobalAvgPool, Layer, Module};

const GROUPS: usize = 32;

/// ResNeXt-50 (Xie et al., CVPR 2017) of 32 groups for 224 × 224 images and 1000 classes.
#[derive(Clone, Debug, Module)]
pub(crate) struct ResNext {
    stem: Normed,
    blocks: Vec<Block>,
    classes: Dense,
}

/// Narrow, in groups, wide; beside the identity, or beside a projection where the shape changes.
#[derive(Clone, Debug, Module)]
struct Block {
    narrow: Normed,
    groups: Normed,
    wide: Normed,
    projection: Option<Normed>,
}

impl ResNext {
    /// For one image.
    pub(crate) const PRODUCTS: f64 = 4_230_479_872.0;

    pub(crate) fn new(cx: &Context) -> Result<ResNext> {
        let plain = ConvOptions::new;
        let stem = Normed::new(3, 64, 7, plain().stride(2), cx)?;
        let (mut blocks, mut inputs) = (Vec::new(), 64);
        for (width, count, stride) in [(128, 3, 1), (256, 4, 2), (512, 6, 2), (1024, 3, 2)] {
            for at in 0..count {
                let stride = plain().stride(if at == 0 { stride } else { 1 });
                let outputs = 2 * width;
                blocks.push(Block {
                    narrow: Normed::new(inputs, width, 1, plain(), cx)?,
                    groups: Normed::new(width, width, 3, stride.groups(GROUPS), cx)?,
                    wide: Normed::new(width, outputs, 1, plain(), cx)?,
                    projection: (at == 0)
                        .then(|| Normed::new(inputs, outputs, 1, stride, cx))
                        .transpose()?,
                });
                inputs = outputs;
            }
        }
        Ok(ResNext {
            stem,
            blocks,
            classes: Dense::new(inputs, 1000, cx)?,
        })
    }
}

impl Layer for ResNext {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.stem.forward(x).relu();
        let x = x.max_pool2d(PoolOptions::new(3).stride(2).padding(1));
        let x = self.blocks.iter().fold(x, |x, block| block.forward(&x));
        self.classes.forward(&GlobalAvgPool.forward(&x))
    }
}

impl Layer for Block {
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = self.groups.forward(&self.narrow.forward(x).relu()).relu();
        let beside = self.projection.as_ref().map(|projection| projection.forward(x));
        (self.wide.forward(&y) + beside.as_ref().unwrap_or(x)).relu()
    }
}
