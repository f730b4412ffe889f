//! Losses of outputs and targets, each the mean over the batch, as [`Model::new`](crate::Model::new) takes them.
//!
//! The ops on [`Tensor`] of the same names have options: weights of classes, label smoothing, other reductions. A closure passes
//! them: `|output: &Tensor, target: &Tensor| output.cross_entropy(target, ClassLossOptions::new().label_smoothing(0.1))`.

use thalweg::Tensor;
use thalweg::ops::{ClassLossOptions, Reduction};

macro_rules! losses {
    ($($(#[$doc:meta])* $name:ident: |$output:ident, $target:ident| $loss:expr;)*) => { $(
        $(#[$doc])*
        #[must_use]
        #[track_caller]
        pub fn $name($output: &Tensor, $target: &Tensor) -> Tensor {
            $loss
        }
    )* };
}

losses! {
    /// Scores `[n, classes, ..]` and class numbers `[n, ..]`, or probabilities of the scores' shape.
    cross_entropy: |output, target| output.cross_entropy(target, ClassLossOptions::new());
    /// Logarithms of probabilities `[n, classes, ..]` and class numbers `[n, ..]`.
    nll: |output, target| output.nll_loss(target, ClassLossOptions::new());
    /// Probabilities, and truths from 0 to 1 of the same shape.
    binary_cross_entropy: |output, target| output.binary_cross_entropy(target, None, Reduction::Mean);
    /// As [`binary_cross_entropy`] of the outputs' sigmoid, computed without overflow.
    binary_cross_entropy_with_logits: |output, target| {
        output.binary_cross_entropy_with_logits(target, None, None, Reduction::Mean)
    };
    /// Squared difference.
    mse: |output, target| output.mse_loss(target, Reduction::Mean);
    /// Absolute difference.
    mae: |output, target| output.l1_loss(target, Reduction::Mean);
    /// Squared difference up to 1, absolute difference from there on (Huber 1964).
    huber: |output, target| output.huber_loss(target, 1.0, Reduction::Mean);
    /// Logarithms of probabilities, and probabilities: their Kullback-Leibler divergence, meant over all elements.
    kl_div: |output, target| output.kl_div(target, Reduction::Mean);
}
