//! Losses of numbers.

use super::{Reduction, joined, widened};
use crate::ops::checked::{checked, composite_of};
use crate::ops::precision::{self, Class};
use crate::tensor::Tensor;
use crate::tensor::failure::Refusal;
use crate::tensor::tag::OpTag;

impl Tensor {
    /// `(x - target)²`. Operands broadcast and are promoted; f16 and bf16 are computed in f32.
    #[must_use]
    #[track_caller]
    pub fn mse_loss(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        let tag = OpTag::new("mse_loss");
        loss(self, target, "mse_loss", 0.0, reduction, tag, |x, y| {
            let difference = x - y;
            &difference * &difference
        })
    }

    /// `|x - target|`. Operands as [`Tensor::mse_loss`].
    #[must_use]
    #[track_caller]
    pub fn l1_loss(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        let tag = OpTag::new("l1_loss");
        loss(self, target, "l1_loss", 0.0, reduction, tag, |x, y| (x - y).abs())
    }

    /// `0.5·d² / beta` where `d = |x - target|` is below beta, else `d - 0.5·beta`. Operands as [`Tensor::mse_loss`].
    /// Girshick, Fast R-CNN (2015).
    #[must_use]
    #[track_caller]
    pub fn smooth_l1_loss(&self, target: &Tensor, beta: f64, reduction: Reduction) -> Tensor {
        let tag = OpTag::new("smooth_l1_loss");
        if beta == 0.0 {
            return tag.scope(|| self.l1_loss(target, reduction));
        }
        loss(self, target, "smooth_l1_loss", beta, reduction, tag, |x, y| {
            let distance = (x - y).abs();
            let near = &distance * &distance * (0.5 / beta);
            distance.lt(beta).where_cond(near, &distance - 0.5 * beta)
        })
    }

    /// `0.5·d²` where `d = |x - target|` is at most delta, else `delta·(d - 0.5·delta)`. Operands as [`Tensor::mse_loss`].
    /// Huber, Robust Estimation of a Location Parameter (1964).
    #[must_use]
    #[track_caller]
    pub fn huber_loss(&self, target: &Tensor, delta: f64, reduction: Reduction) -> Tensor {
        let tag = OpTag::new("huber_loss");
        loss(self, target, "huber_loss", delta, reduction, tag, |x, y| {
            let distance = (x - y).abs();
            let near = &distance * &distance * 0.5;
            distance
                .le(delta)
                .where_cond(near, (&distance - 0.5 * delta) * delta)
        })
    }

    /// The Kullback-Leibler divergence `target·(ln target - x)` of logarithms of probabilities x from probabilities
    /// `target`, 0 where a target is 0. Sum it and divide by the batch for the divergence itself. Operands as
    /// [`Tensor::mse_loss`].
    #[must_use]
    #[track_caller]
    pub fn kl_div(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        let tag = OpTag::new("kl_div");
        loss(self, target, "kl_div", 0.0, reduction, tag, |x, y| {
            let nothing = y.eq(0.0);
            let entropy = nothing.where_cond(0.0, y * nothing.where_cond(1.0, y).log());
            entropy - y * x
        })
    }

    /// As [`Tensor::kl_div`] with logarithms of probabilities as targets.
    #[must_use]
    #[track_caller]
    pub fn kl_div_log_target(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        let tag = OpTag::new("kl_div_log_target");
        loss(self, target, "kl_div_log_target", 0.0, reduction, tag, |x, y| {
            y.exp() * (y - x)
        })
    }

    /// `exp(x) - target·x` for logarithms x of the rates of Poisson distributions, without the term that depends on
    /// the target alone. Operands as [`Tensor::mse_loss`].
    #[must_use]
    #[track_caller]
    pub fn poisson_nll_loss(&self, target: &Tensor, reduction: Reduction) -> Tensor {
        let tag = OpTag::new("poisson_nll_loss");
        loss(self, target, "poisson_nll_loss", 0.0, reduction, tag, |x, y| {
            x.exp() - y * x
        })
    }

    /// `0.5·(ln v + (x - target)² / v)` with `v = max(variance, eps)`: the logarithm of a normal density without its
    /// constant. Operands broadcast and are promoted.
    #[must_use]
    #[track_caller]
    pub fn gaussian_nll_loss(
        &self,
        target: &Tensor,
        variance: &Tensor,
        eps: f64,
        reduction: Reduction,
    ) -> Tensor {
        let tag = OpTag::new("gaussian_nll_loss");
        let held = precision::adjusted(Class::Full, tag, [self, target, variance]);
        let [this, target, variance] = held.operands([self, target, variance]);
        checked(tag, [this, target, variance], [], |[x, y, v], []| {
            let dtype = joined(x, y)?;
            if v.dtype != dtype {
                return Err(Refusal::new(format!("variances of {}, not {dtype}", v.dtype)).help("cast them"));
            }
            let key = (eps.to_bits(), reduction);
            let operands = [this, target, variance];
            Ok(composite_of(
                "gaussian_nll_loss",
                &key,
                operands,
                [],
                tag,
                |operands, []| {
                    let [x, y, v] = widened(operands, dtype, tag);
                    let (v, difference) = (v.maximum(eps), x - y);
                    let losses = (v.log() + &difference * &difference / &v) * 0.5;
                    reduction.of(&losses, dtype, tag)
                },
            ))
        })
    }
}

/// A loss of each pair of elements.
pub(super) fn loss(
    x: &Tensor,
    target: &Tensor,
    name: &'static str,
    parameter: f64,
    reduction: Reduction,
    tag: OpTag,
    body: impl Fn(&Tensor, &Tensor) -> Tensor,
) -> Tensor {
    let held = precision::adjusted(Class::Full, tag, [x, target]);
    let [x, target] = held.operands([x, target]);
    checked(tag, [x, target], [], |[x_ty, y_ty], []| {
        let dtype = joined(x_ty, y_ty)?;
        let key = (parameter.to_bits(), reduction);
        Ok(composite_of(name, &key, [x, target], [], tag, |operands, []| {
            let [x, y] = widened(operands, dtype, tag);
            reduction.of(&body(&x, &y), dtype, tag)
        }))
    })
}
