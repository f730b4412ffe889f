//! Attention inside windows that are moved from layer to layer.

use thalweg::ops::{AttentionOptions, ConvOptions};
use thalweg::{Context, Result, Tensor};
use thalweg_nn::{Conv2d, Dense, Layer, LayerNorm, Module, Parameter, State};

/// Places of a window along an axis.
const WINDOW: usize = 7;

/// Swin-T (Liu et al., ICCV 2021) for 224 × 224 images and 1000 classes, without dropped blocks.
#[derive(Clone, Debug, Module)]
pub(crate) struct Swin {
    patches: Conv2d,
    first: LayerNorm,
    stages: Vec<Stage>,
    norm: LayerNorm,
    classes: Dense,
}

/// Blocks on one grid, and what makes it coarser.
#[derive(Clone, Debug, Module)]
struct Stage {
    blocks: Vec<Block>,
    coarser: Option<Coarser>,
}

/// Four neighbours as one place of twice the width.
#[derive(Clone, Debug, Module)]
struct Coarser {
    norm: LayerNorm,
    narrow: Dense,
}

/// Attention and two layers, each beside the identity.
#[derive(Clone, Debug, Module)]
struct Block {
    before: LayerNorm,
    parts: Dense,
    /// Scores of positions, `[heads, WINDOW², WINDOW²]`.
    bias: Parameter,
    joined: Dense,
    after: LayerNorm,
    wide: Dense,
    narrow: Dense,
    heads: usize,
    /// Along an axis.
    windows: usize,
    /// What separates places that the move brought together, `[windows, 1, WINDOW², WINDOW²]`.
    mask: Option<State>,
}

impl Swin {
    /// For one image.
    pub(crate) const PRODUCTS: f64 = 4_490_566_656.0;

    pub(crate) fn new(cx: &Context) -> Result<Swin> {
        let mut stages = Vec::new();
        let (mut width, mut grid) = (96, 56);
        for (count, heads) in [(2, 3), (2, 6), (6, 12), (2, 24)] {
            let block = |at: usize| -> Result<Block> {
                let moved = at % 2 == 1 && grid > WINDOW;
                Ok(Block {
                    before: LayerNorm::new(&[width], cx)?,
                    parts: Dense::new(width, 3 * width, cx)?,
                    bias: Parameter::new(crate::networks::numbers(
                        &[heads, WINDOW.pow(2), WINDOW.pow(2)],
                        cx,
                    )),
                    joined: Dense::new(width, width, cx)?,
                    after: LayerNorm::new(&[width], cx)?,
                    wide: Dense::new(width, 4 * width, cx)?,
                    narrow: Dense::new(4 * width, width, cx)?,
                    heads,
                    windows: grid / WINDOW,
                    mask: moved.then(|| State::new(mask(grid, cx))),
                })
            };
            let coarser = || -> Result<Coarser> {
                let mut narrow = Dense::new(4 * width, 2 * width, cx)?;
                narrow.bias = None;
                let norm = LayerNorm::new(&[4 * width], cx)?;
                Ok(Coarser { norm, narrow })
            };
            let last = stages.len() == 3;
            stages.push(Stage {
                blocks: (0..count).map(block).collect::<Result<_>>()?,
                coarser: (!last).then(coarser).transpose()?,
            });
            if !last {
                (width, grid) = (2 * width, grid / 2);
            }
        }
        Ok(Swin {
            patches: Conv2d::new(3, 96, [4, 4], ConvOptions::new().stride(4), cx)?,
            first: LayerNorm::new(&[96], cx)?,
            stages,
            norm: LayerNorm::new(&[width], cx)?,
            classes: Dense::new(width, 1000, cx)?,
        })
    }
}

/// Scores of -100 between places of a window that were apart before the move.
fn mask(grid: usize, cx: &Context) -> Tensor {
    let part = |at: usize| usize::from(at >= grid - WINDOW) + usize::from(at >= grid - WINDOW / 2);
    let (windows, places) = ((grid / WINDOW).pow(2), WINDOW.pow(2));
    let region = |window: usize, place: usize| {
        let axis = |window: usize, place: usize| part(window * WINDOW + place);
        let row = axis(window / (grid / WINDOW), place / WINDOW);
        3 * row + axis(window % (grid / WINDOW), place % WINDOW)
    };
    let mut scores = Vec::with_capacity(windows * places * places);
    for window in 0..windows {
        for (i, j) in (0..places * places).map(|at| (at / places, at % places)) {
            let apart = region(window, i) != region(window, j);
            scores.push(if apart { -100.0_f32 } else { 0.0 });
        }
    }
    Tensor::from_slice(&scores, [windows, 1, places, places], cx)
}

impl Layer for Swin {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.first.forward(&self.patches.forward(x).permute([0, 2, 3, 1]));
        let x = self.stages.iter().fold(x, |x, stage| stage.forward(&x));
        self.classes.forward(&self.norm.forward(&x).mean_axes([1, 2]))
    }
}

impl Layer for Stage {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.blocks.iter().fold(x.clone(), |x, block| block.forward(&x));
        let Some(coarser) = &self.coarser else {
            return x;
        };
        let near = x.unflatten(2, [-1, 2]).unflatten(1, [-1, 2]);
        let near = near.permute([0, 1, 3, 4, 2, 5]).flatten_axes(3, 5);
        coarser.narrow.forward(&coarser.norm.forward(&near))
    }
}

impl Block {
    fn attention(&self, x: &Tensor) -> Tensor {
        let half = (WINDOW / 2) as i64;
        let moved = |x: Tensor, by: i64| match self.mask {
            Some(_) => x.roll(by, 1).roll(by, 2),
            None => x,
        };
        let x = moved(self.before.forward(x), -half);
        let rows = x
            .unflatten(2, [-1, WINDOW as i64])
            .unflatten(1, [-1, WINDOW as i64]);
        let x = rows.transpose(2, 3).flatten_axes(3, 4).flatten_axes(1, 2);
        // Images, windows, places, parts, heads, width.
        let parts = self.parts.forward(&x).unflatten(3, [3, self.heads as i64, -1]);
        let part = |at: i64| parts.narrow(3, at, 1).squeeze_axes([3]).transpose(2, 3);
        let bias = self.bias.value();
        let bias = self
            .mask
            .as_ref()
            .map_or(bias.clone(), |mask| mask.value() + bias);
        let seen =
            part(0).scaled_dot_product_attention(&part(1), &part(2), AttentionOptions::new().mask(&bias));
        let joined = self.joined.forward(&seen.transpose(2, 3).flatten_axes(3, 4));
        let rows = joined
            .unflatten(2, [WINDOW as i64, -1])
            .unflatten(1, [self.windows as i64, -1]);
        moved(rows.transpose(2, 3).flatten_axes(3, 4).flatten_axes(1, 2), half)
    }
}

impl Layer for Block {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = x + self.attention(x);
        let wide = self.wide.forward(&self.after.forward(&x)).gelu();
        &x + self.narrow.forward(&wide)
    }
}
