//! What happens to losses and gradients before an update.

use crate::train::wide;
use thalweg::{Context, DType, Tensor};

/// A limit on gradients.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Clip {
    /// Limits each element to `-limit..=limit`.
    Value(f64),
    /// Scales all gradients so that their common L2 norm is at most this (Pascanu et al., ICML 2013).
    Norm(f64),
}

impl Clip {
    /// The limited gradients.
    pub fn apply(self, grads: &[Tensor]) -> Vec<Tensor> {
        match self {
            Clip::Value(limit) => grads.iter().map(|grad| grad.clamp(-limit, limit)).collect(),
            Clip::Norm(limit) => {
                let is_f64 = |grad: &Tensor| grad.dtype().is_ok_and(|dtype| dtype == DType::F64);
                let dtype = if grads.iter().any(is_f64) {
                    DType::F64
                } else {
                    DType::F32
                };
                let squares = grads.iter().map(|grad| {
                    let grad = grad.cast(dtype);
                    (&grad * &grad).sum()
                });
                let Some(total) = squares.reduce(|sum, square| sum + square) else {
                    return Vec::new();
                };
                // As PyTorch: never larger, and finite for a norm of 0.
                scaled(grads, &(limit / (total.sqrt() + 1e-6)).minimum(1.0))
            }
        }
    }
}

/// Gradients times a number.
fn scaled(grads: &[Tensor], factor: &Tensor) -> Vec<Tensor> {
    let of = |grad: &Tensor| match grad.dtype() {
        Ok(dtype) => grad * factor.cast(dtype),
        Err(_) => grad.clone(),
    };
    grads.iter().map(of).collect()
}

/// What the loss is multiplied by before gradients are taken, and gradients are divided by, so that small ones survive in f16
/// (Micikevicius et al., ICLR 2018). A step whose gradients are not all finite changes nothing but the scale: no parameter, nothing
/// that optimizers keep or count, and no statistics of layers. It is a step for schedules and the order of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossScale {
    start: f64,
    growth: f64,
    backoff: f64,
    interval: u64,
}

impl LossScale {
    /// Always the same scale.
    pub fn fixed(scale: f64) -> LossScale {
        LossScale {
            start: scale,
            growth: 1.0,
            backoff: 1.0,
            interval: 1,
        }
    }

    /// 65536 at first, half of it after gradients that are not finite, and twice as much, where that is finite in f32, after 2000
    /// steps in a row that were.
    pub fn dynamic() -> LossScale {
        LossScale {
            start: 65536.0,
            growth: 2.0,
            backoff: 0.5,
            interval: 2000,
        }
    }

    /// The scale of the first step.
    #[must_use]
    pub fn start(mut self, scale: f64) -> LossScale {
        self.start = scale;
        self
    }

    /// Good steps in a row before the scale grows.
    #[must_use]
    pub fn interval(mut self, steps: u64) -> LossScale {
        self.interval = steps.max(1);
        self
    }

    /// The scale, and the good steps since it changed, f32 `[2]`.
    pub(crate) fn state(self, cx: &Context) -> Tensor {
        Tensor::from_slice(&[self.start as f32, 0.0], 2, cx)
    }

    /// The loss times the scale, in f32 or f64.
    pub(crate) fn scale(loss: &Tensor, state: &Tensor) -> Tensor {
        match loss.dtype().map(wide) {
            Ok(dtype) => loss.cast(dtype) * state.select(0, 0).cast(dtype),
            Err(_) => loss.clone(),
        }
    }

    /// Gradients without the scale, whether all are finite, and the state of the next step. Gradients are of f32 or f64, as what f16
    /// holds only with a scale would be 0 in it without.
    pub(crate) fn unscale(self, grads: &[Tensor], state: &Tensor) -> (Vec<Tensor>, Tensor, Tensor) {
        let (scale, good) = (state.select(0, 0), state.select(0, 1));
        let unscaled = |grad: &Tensor| match grad.dtype() {
            Ok(dtype) => grad * (1.0 / scale.cast(dtype)),
            Err(_) => grad.clone(),
        };
        let grads: Vec<Tensor> = grads.iter().map(unscaled).collect();
        let finite = grads.iter().map(|grad| grad.isfinite().all());
        let finite = finite.reduce(|all, one| all.logical_and(&one));
        let finite = finite.unwrap_or_else(|| scale.isfinite());
        let good = good + 1.0;
        let full = good.ge(self.interval as f64);
        let grown = &scale * self.growth;
        let next = full.logical_and(grown.isfinite()).where_cond(grown, &scale);
        // A scale of 0 would never grow again.
        let less = (&scale * self.backoff).maximum(f64::from(f32::MIN_POSITIVE));
        let next = finite.where_cond(next, less);
        let good = finite.logical_and(full.logical_not()).where_cond(good, 0.0);
        (grads, finite, Tensor::stack(&[&next, &good], 0))
    }
}
