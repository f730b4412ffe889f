//! An image to an image, with groups that are normalised and attention on the coarsest grid.

use thalweg::ops::{ConvOptions, InterpolateOptions};
use thalweg::{Context, Result, Tensor};
use thalweg_nn::{Conv2d, Dense, GlobalAvgPool, GroupNorm, Layer, Module, MultiHeadAttention};

/// The U-Net of denoising diffusion (Ho et al., NeurIPS 2020) on two grids, without the time, and classes from the mean of
/// what it makes.
#[derive(Clone, Debug, Module)]
pub(crate) struct Denoiser {
    stem: Conv2d,
    fine: Vec<Residual>,
    coarser: Conv2d,
    coarse: Vec<Residual>,
    seen: Attended,
    finer: Conv2d,
    joined: Vec<Residual>,
    classes: Dense,
}

/// Two normalised convolutions beside the identity, or beside a projection where the channels change.
#[derive(Clone, Debug, Module)]
struct Residual {
    norms: Vec<GroupNorm>,
    convs: Vec<Conv2d>,
    projection: Option<Conv2d>,
}

/// Attention over places.
#[derive(Clone, Debug, Module)]
struct Attended {
    norm: GroupNorm,
    attention: MultiHeadAttention,
}

const GROUPS: usize = 8;
/// Rows of the coarse grid, and its columns.
const COARSE: usize = 16;
const HEADS: usize = 6;

fn conv(inputs: usize, outputs: usize, taps: usize, stride: usize, cx: &Context) -> Result<Conv2d> {
    let options = ConvOptions::new().padding(taps / 2).stride(stride);
    Conv2d::new(inputs, outputs, [taps, taps], options, cx)
}

impl Residual {
    fn new(inputs: usize, outputs: usize, cx: &Context) -> Result<Residual> {
        let projection = (inputs != outputs).then(|| conv(inputs, outputs, 1, 1, cx));
        Ok(Residual {
            norms: vec![
                GroupNorm::new(GROUPS, inputs, cx)?,
                GroupNorm::new(GROUPS, outputs, cx)?,
            ],
            convs: vec![
                conv(inputs, outputs, 3, 1, cx)?,
                conv(outputs, outputs, 3, 1, cx)?,
            ],
            projection: projection.transpose()?,
        })
    }
}

impl Denoiser {
    /// For one image of 32 × 32.
    pub(crate) const PRODUCTS: f64 = 1_606_190_016.0;

    pub(crate) fn new(cx: &Context) -> Result<Denoiser> {
        let [fine, coarse] = [96, 192];
        Ok(Denoiser {
            stem: conv(3, fine, 3, 1, cx)?,
            fine: vec![Residual::new(fine, fine, cx)?, Residual::new(fine, fine, cx)?],
            coarser: conv(fine, fine, 3, 2, cx)?,
            coarse: vec![
                Residual::new(fine, coarse, cx)?,
                Residual::new(coarse, coarse, cx)?,
            ],
            seen: Attended {
                norm: GroupNorm::new(GROUPS, coarse, cx)?,
                attention: MultiHeadAttention::new(coarse, HEADS, cx)?,
            },
            finer: conv(coarse, coarse, 3, 1, cx)?,
            joined: vec![
                Residual::new(coarse + fine, fine, cx)?,
                Residual::new(fine, fine, cx)?,
            ],
            classes: Dense::new(fine, 10, cx)?,
        })
    }
}

impl Layer for Denoiser {
    fn forward(&self, x: &Tensor) -> Tensor {
        let through = |blocks: &[Residual], x: Tensor| blocks.iter().fold(x, |x, block| block.forward(&x));
        let side = through(&self.fine, self.stem.forward(x));
        let x = through(&self.coarse, self.coarser.forward(&side));
        let x = self.seen.forward(&x).interpolate(InterpolateOptions::factor(2.0));
        let x = Tensor::concat(&[self.finer.forward(&x), side], 1);
        let x = through(&self.joined, x);
        self.classes.forward(&GlobalAvgPool.forward(&x))
    }
}

impl Layer for Residual {
    fn forward(&self, x: &Tensor) -> Tensor {
        let parts = self.norms.iter().zip(&self.convs);
        let y = parts.fold(x.clone(), |y, (norm, conv)| {
            conv.forward(&norm.forward(&y).silu())
        });
        match &self.projection {
            Some(projection) => y + projection.forward(x),
            None => y + x,
        }
    }
}

impl Layer for Attended {
    fn forward(&self, x: &Tensor) -> Tensor {
        let places = self.norm.forward(x).flatten_axes(2, 3).permute([0, 2, 1]);
        let y = self.attention.forward(&places).permute([0, 2, 1]);
        x + y.unflatten(2, [COARSE, COARSE])
    }
}
