//! Channels that are dealt out to two halves.

use crate::resnet::Normed;
use thalweg::ops::{ConvOptions, PoolOptions};
use thalweg::{Context, Result, Tensor};
use thalweg_nn::{Dense, GlobalAvgPool, Layer, Module};

/// ShuffleNetV2 (Ma et al., ECCV 2018) of width 1 for 224 × 224 images and 1000 classes.
#[derive(Clone, Debug, Module)]
pub(crate) struct ShuffleNet {
    stem: Normed,
    blocks: Vec<Block>,
    last: Normed,
    classes: Dense,
}

/// Half of the channels through three convolutions; the others as they are, or through two that make the grid coarser.
#[derive(Clone, Debug, Module)]
struct Block {
    wide: Normed,
    channels: Normed,
    narrow: Normed,
    beside: Option<Beside>,
}

/// By channel, and all of them.
#[derive(Clone, Debug, Module)]
struct Beside {
    channels: Normed,
    narrow: Normed,
}

impl ShuffleNet {
    /// For one image.
    pub(crate) const PRODUCTS: f64 = 144_907_992.0;

    pub(crate) fn new(cx: &Context) -> Result<ShuffleNet> {
        let plain = ConvOptions::new;
        let stem = Normed::new(3, 24, 3, plain().stride(2), cx)?;
        let (mut blocks, mut inputs) = (Vec::new(), 24);
        for (outputs, count) in [(116, 4), (232, 8), (464, 4)] {
            let half = outputs / 2;
            for at in 0..count {
                let (first, stride) = if at == 0 { (inputs, 2) } else { (half, 1) };
                let apart = |width: usize| plain().stride(stride).groups(width);
                let beside = || -> Result<Beside> {
                    Ok(Beside {
                        channels: Normed::new(inputs, inputs, 3, apart(inputs), cx)?,
                        narrow: Normed::new(inputs, half, 1, plain(), cx)?,
                    })
                };
                blocks.push(Block {
                    wide: Normed::new(first, half, 1, plain(), cx)?,
                    channels: Normed::new(half, half, 3, apart(half), cx)?,
                    narrow: Normed::new(half, half, 1, plain(), cx)?,
                    beside: (at == 0).then(beside).transpose()?,
                });
            }
            inputs = outputs;
        }
        Ok(ShuffleNet {
            stem,
            blocks,
            last: Normed::new(inputs, 1024, 1, plain(), cx)?,
            classes: Dense::new(1024, 1000, cx)?,
        })
    }
}

impl Layer for ShuffleNet {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.stem.forward(x).relu();
        let x = x.max_pool2d(PoolOptions::new(3).stride(2).padding(1));
        let x = self.blocks.iter().fold(x, |x, block| block.forward(&x));
        let x = self.last.forward(&x).relu();
        self.classes.forward(&GlobalAvgPool.forward(&x))
    }
}

impl Layer for Block {
    fn forward(&self, x: &Tensor) -> Tensor {
        let (kept, through) = match &self.beside {
            Some(Beside { channels, narrow }) => (narrow.forward(&channels.forward(x)).relu(), x.clone()),
            None => {
                let halves = x.chunk(2, 1);
                (halves[0].clone(), halves[1].clone())
            }
        };
        let y = self.channels.forward(&self.wide.forward(&through).relu());
        let both = Tensor::concat(&[kept, self.narrow.forward(&y).relu()], 1);
        // Channels of the two halves in turns.
        let halves = both.unflatten(1, [2, -1]);
        halves.transpose(1, 2).flatten_axes(1, 2)
    }
}
