//! Losses of two classes.

use super::regression::loss;
use super::{Reduction, joined, widened};
use crate::ops::checked::{checked, composite_of};
use crate::ops::precision::{self, Class};
use crate::tensor::Tensor;
use crate::tensor::tag::OpTag;

impl Tensor {
    /// `-w·(y·ln x + (1 - y)·ln(1 - x))` for probabilities x and targets y in 0..1; logarithms end at -100. Operands broadcast
    /// and are promoted; f16 and bf16 are computed in f32. [`Tensor::binary_cross_entropy_with_logits`] is more exact.
    #[must_use]
    #[track_caller]
    pub fn binary_cross_entropy<'a>(
        &self,
        target: &Tensor,
        weight: impl Into<Option<&'a Tensor>>,
        reduction: Reduction,
    ) -> Tensor {
        let tag = OpTag::new("binary_cross_entropy");
        let held = precision::adjusted(Class::Full, tag, [self, target]);
        let [this, target] = held.operands([self, target]);
        let weight = weight.into();
        checked(tag, [this, target], [weight], |[x, y], [_]| {
            let dtype = joined(x, y)?;
            let operands = [this, target];
            Ok(composite_of(
                "binary_cross_entropy",
                &reduction,
                operands,
                [weight],
                tag,
                |operands, [weight]| {
                    let [x, y] = widened(operands, dtype, tag);
                    let (yes, no) = (x.log().maximum(-100.0), (-&x).log1p().maximum(-100.0));
                    let losses = (&y - 1.0) * no - &y * yes;
                    let losses = match weight {
                        Some(weight) => losses * weight,
                        None => losses,
                    };
                    reduction.of(&losses, dtype, tag)
                },
            ))
        })
    }

    /// Binary cross entropy of `sigmoid(x)`, computed as `(1 - y)·x + l·(ln(1 + exp(-|x|)) + max(-x, 0))`, which neither
    /// overflows nor cancels; `l = 1 + (p - 1)·y` with the weight p of positive targets. `weight` and `positive` broadcast.
    #[must_use]
    #[track_caller]
    pub fn binary_cross_entropy_with_logits<'a>(
        &self,
        target: &Tensor,
        weight: impl Into<Option<&'a Tensor>>,
        positive: impl Into<Option<&'a Tensor>>,
        reduction: Reduction,
    ) -> Tensor {
        let tag = OpTag::new("binary_cross_entropy_with_logits");
        let held = precision::adjusted(Class::Full, tag, [self, target]);
        let [this, target] = held.operands([self, target]);
        let weights = [weight.into(), positive.into()];
        checked(tag, [this, target], weights, |[x, y], [_, _]| {
            let dtype = joined(x, y)?;
            let operands = [this, target];
            Ok(composite_of(
                "bce_with_logits",
                &reduction,
                operands,
                weights,
                tag,
                |operands, weights| {
                    let [x, y] = widened(operands, dtype, tag);
                    let [weight, positive] = weights;
                    let tail = (-x.abs()).exp().log1p() + (-&x).maximum(0.0);
                    let tail = match positive {
                        Some(positive) => ((positive - 1.0) * &y + 1.0) * tail,
                        None => tail,
                    };
                    let losses = (1.0 - &y) * &x + tail;
                    let losses = match weight {
                        Some(weight) => losses * weight,
                        None => losses,
                    };
                    reduction.of(&losses, dtype, tag)
                },
            ))
        })
    }

    /// `ln(1 + exp(-y·x))` for targets y of 1 or -1. Operands as [`Tensor::mse_loss`].
    #[must_use]
    #[track_caller]
    pub fn soft_margin_loss(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        let tag = OpTag::new("soft_margin_loss");
        loss(self, target, "soft_margin_loss", 0.0, reduction, tag, |x, y| {
            let z = -(x * y);
            (-z.abs()).exp().log1p() + z.maximum(0.0)
        })
    }

    /// `x` where the target is 1 and `max(margin - x, 0)` where it is -1. Operands as [`Tensor::mse_loss`].
    #[must_use]
    #[track_caller]
    pub fn hinge_embedding_loss(&self, target: &Tensor, margin: f64, reduction: Reduction) -> Tensor {
        let tag = OpTag::new("hinge_embedding_loss");
        loss(
            self,
            target,
            "hinge_embedding_loss",
            margin,
            reduction,
            tag,
            |x, y| {
                let (near, far) = (
                    y.ne(-1.0).where_cond(x, 0.0),
                    y.ne(1.0).where_cond((margin - x).maximum(0.0), 0.0),
                );
                near + far
            },
        )
    }

    /// `max(margin - y·x, 0)` for targets y of 1 or -1: the hinge loss. Operands as [`Tensor::mse_loss`].
    #[must_use]
    #[track_caller]
    pub fn hinge_loss(&self, target: &Tensor, margin: f64, reduction: Reduction) -> Tensor {
        let tag = OpTag::new("hinge_loss");
        loss(self, target, "hinge_loss", margin, reduction, tag, |x, y| {
            (margin - x * y).maximum(0.0)
        })
    }
}
