//! Taps that lie further and further apart.

use thalweg::ops::ConvOptions;
use thalweg::{Context, Result, Tensor};
use thalweg_nn::{Conv1d, Dense, Layer, Module};

/// A temporal convolutional network (Bai, Kolter and Koltun, 2018) whose residual blocks have one convolution each:
/// `[b, 64, times]` to 10 classes.
#[derive(Clone, Debug, Module)]
pub(crate) struct Tcn {
    blocks: Vec<Conv1d>,
    classes: Dense,
}

impl Tcn {
    const WIDTH: usize = 64;
    const BLOCKS: usize = 6;
    pub(crate) const TIMES: usize = 1024;
    /// Of a block, for one series.
    pub(crate) const BLOCK: f64 = (Tcn::TIMES * Tcn::WIDTH * Tcn::WIDTH * 3) as f64;
    /// For one series.
    pub(crate) const PRODUCTS: f64 = Tcn::BLOCKS as f64 * Tcn::BLOCK;

    pub(crate) fn new(cx: &Context) -> Result<Tcn> {
        let block = |at: usize| {
            let options = ConvOptions::new().padding(1 << at).dilation(1 << at);
            Conv1d::new(Tcn::WIDTH, Tcn::WIDTH, [3], options, cx)
        };
        Ok(Tcn {
            blocks: (0..Tcn::BLOCKS).map(block).collect::<Result<_>>()?,
            classes: Dense::new(Tcn::WIDTH, 10, cx)?,
        })
    }
}

impl Layer for Tcn {
    fn forward(&self, x: &Tensor) -> Tensor {
        let blocks = self.blocks.iter();
        let x = blocks.fold(x.clone(), |x, block| &x + block.forward(&x).relu());
        self.classes.forward(&x.mean_axes([2]))
    }
}
