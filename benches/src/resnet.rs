//! ResNet-18 over any layers for its convolutions and for its classes.

use thalweg::ops::{ConvOptions, PoolOptions};
use thalweg::{Context, Result, Tensor};
use thalweg_nn::{BatchNorm, Conv2d, Dense, Flatten, GlobalAvgPool, Layer, Module};

/// ResNet-18 (He et al., CVPR 2016) for 224 × 224 images and 1000 classes.
#[derive(Clone, Debug, Module)]
pub(crate) struct ResNet18<C: Layer = Normed, D: Layer = Dense> {
    stem: C,
    pub(crate) blocks: Vec<Block<C>>,
    classes: D,
}

/// Two convolutions beside the identity, or beside a projection where the shape changes.
#[derive(Clone, Debug, Module)]
pub(crate) struct Block<C: Layer> {
    pub(crate) first: C,
    second: C,
    pub(crate) projection: Option<C>,
}

/// A convolution without a bias, and what normalises it.
#[derive(Clone, Debug, Module)]
pub(crate) struct Normed {
    pub(crate) conv: Conv2d,
    pub(crate) norm: BatchNorm,
}

impl Normed {
    /// With padding by half the taps.
    pub(crate) fn new(
        inputs: usize,
        outputs: usize,
        taps: usize,
        options: ConvOptions,
        cx: &Context,
    ) -> Result<Normed> {
        let mut conv = Conv2d::new(inputs, outputs, [taps, taps], options.padding(taps / 2), cx)?;
        conv.bias = None;
        let norm = BatchNorm::new(outputs, cx)?;
        Ok(Normed { conv, norm })
    }
}

impl Layer for Normed {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.norm.forward(&self.conv.forward(x))
    }
}

impl ResNet18 {
    pub(crate) fn new(cx: &Context) -> Result<ResNet18> {
        let every = |stride: usize| ConvOptions::new().stride(stride);
        let stem = Normed::new(3, 64, 7, every(2), cx)?;
        let mut blocks = Vec::new();
        let mut inputs = 64;
        for (outputs, stride) in [(64, 1), (128, 2), (256, 2), (512, 2)] {
            for stride in [stride, 1] {
                blocks.push(Block {
                    first: Normed::new(inputs, outputs, 3, every(stride), cx)?,
                    second: Normed::new(outputs, outputs, 3, every(1), cx)?,
                    projection: (inputs != outputs)
                        .then(|| Normed::new(inputs, outputs, 1, every(stride), cx))
                        .transpose()?,
                });
                inputs = outputs;
            }
        }
        let classes = Dense::new(512, 1000, cx)?;
        Ok(ResNet18 {
            stem,
            blocks,
            classes,
        })
    }
}

impl<C: Layer, D: Layer> ResNet18<C, D> {
    /// The network with other layers.
    pub(crate) fn map<E: Layer, F: Layer>(
        &self,
        mut conv: impl FnMut(&C) -> Result<E>,
        dense: impl FnOnce(&D) -> Result<F>,
    ) -> Result<ResNet18<E, F>> {
        let stem = conv(&self.stem)?;
        let mut blocks = Vec::new();
        for block in &self.blocks {
            blocks.push(Block {
                first: conv(&block.first)?,
                second: conv(&block.second)?,
                projection: block.projection.as_ref().map(&mut conv).transpose()?,
            });
        }
        let classes = dense(&self.classes)?;
        Ok(ResNet18 {
            stem,
            blocks,
            classes,
        })
    }
}

impl<C: Layer, D: Layer> Layer for ResNet18<C, D> {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.stem.forward(x).relu();
        let x = x.max_pool2d(PoolOptions::new(3).stride(2).padding(1));
        let x = self.blocks.iter().fold(x, |x, block| block.forward(&x));
        self.classes.forward(&Flatten.forward(&GlobalAvgPool.forward(&x)))
    }
}

impl<C: Layer> Layer for Block<C> {
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = self.second.forward(&self.first.forward(x).relu());
        match &self.projection {
            None => (y + x).relu(),
            Some(projection) => (y + projection.forward(x)).relu(),
        }
    }
}
