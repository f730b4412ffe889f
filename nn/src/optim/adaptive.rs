//! Optimizers with a rate for each element.

use super::{Optimizer, Update, running};
use thalweg::{Tensor, options};

/// Adam (Kingma and Ba, ICLR 2015), or AdamW (Loshchilov and Hutter, ICLR 2019) with a decay of its own.
#[derive(Clone, Copy, Debug)]
pub struct Adam {
    lr: f64,
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
    decoupled: bool,
}

impl Adam {
    /// Betas 0.9 and 0.999, eps 1e-8, no decay.
    pub fn new(lr: f64) -> Adam {
        Adam {
            lr,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 0.0,
            decoupled: false,
        }
    }

    /// AdamW: the decay shrinks the parameter itself; 0.01 unless another is set.
    pub fn w(lr: f64) -> Adam {
        Adam {
            weight_decay: 0.01,
            decoupled: true,
            ..Adam::new(lr)
        }
    }
}

options! { Adam {
    /// Memory of the mean.
    beta1: f64,
    /// Memory of the squares.
    beta2: f64,
    /// Keeps the divisor from 0.
    eps: f64,
    /// L2 penalty, or decay for [`Adam::w`].
    weight_decay: f64,
}}

impl Optimizer for Adam {
    fn learning_rate(&self) -> f64 {
        self.lr
    }

    fn slots(&self) -> usize {
        2
    }

    fn scalars(&self, step: &Tensor, lr: &Tensor) -> Vec<Tensor> {
        // 1 - beta^step, without the cancellation that f32 would suffer.
        let correction = |beta: f64| -(step * beta.ln()).expm1();
        vec![
            lr / correction(self.beta1),
            correction(self.beta2).sqrt(),
            1.0 - lr * self.weight_decay,
        ]
    }

    fn update(&self, given: &Update<'_>) -> (Tensor, Vec<Tensor>) {
        let (grad, value) = if self.decoupled {
            (given.grad.clone(), given.value * &given.scalars[2])
        } else {
            (given.decayed(self.weight_decay), given.value.clone())
        };
        let mean = running(&given.slots[0], self.beta1, &grad);
        let square = running(&given.slots[1], self.beta2, &(&grad * &grad));
        let divisor = square.sqrt() / &given.scalars[1] + self.eps;
        (value - &mean / divisor * &given.scalars[0], vec![mean, square])
    }
}

/// RMSprop (Tieleman and Hinton 2012), as PyTorch has it.
#[derive(Clone, Copy, Debug)]
pub struct RmsProp {
    lr: f64,
    alpha: f64,
    eps: f64,
    momentum: f64,
    centered: bool,
    weight_decay: f64,
}

impl RmsProp {
    /// Alpha 0.99, eps 1e-8.
    pub fn new(lr: f64) -> RmsProp {
        RmsProp {
            lr,
            alpha: 0.99,
            eps: 1e-8,
            momentum: 0.0,
            centered: false,
            weight_decay: 0.0,
        }
    }
}

options! { RmsProp {
    /// Memory of the squares.
    alpha: f64,
    /// Keeps the divisor from 0.
    eps: f64,
    /// Share of the last update that goes on.
    momentum: f64,
    /// Divides by the deviation instead of the root mean square.
    centered: bool,
    /// L2 penalty.
    weight_decay: f64,
}}

impl Optimizer for RmsProp {
    fn learning_rate(&self) -> f64 {
        self.lr
    }

    fn slots(&self) -> usize {
        1 + usize::from(self.momentum != 0.0) + usize::from(self.centered)
    }

    fn update(&self, given: &Update<'_>) -> (Tensor, Vec<Tensor>) {
        let grad = given.decayed(self.weight_decay);
        let square = running(&given.slots[0], self.alpha, &(&grad * &grad));
        let mut kept = vec![square.clone()];
        let mut spread = square;
        if self.centered {
            let mean = running(&given.slots[1], self.alpha, &grad);
            // Rounding can take a variance of 0 below it.
            spread = (spread - &mean * &mean).maximum(0.0);
            kept.push(mean);
        }
        let mut direction = grad / (spread.sqrt() + self.eps);
        if self.momentum != 0.0 {
            direction = &given.slots[kept.len()] * self.momentum + direction;
            kept.push(direction.clone());
        }
        (given.value - direction * &given.scalars[0], kept)
    }
}

/// Adagrad (Duchi et al., JMLR 2011).
#[derive(Clone, Copy, Debug)]
pub struct Adagrad {
    lr: f64,
    eps: f64,
    lr_decay: f64,
    weight_decay: f64,
}

impl Adagrad {
    /// Eps 1e-10.
    pub fn new(lr: f64) -> Adagrad {
        Adagrad {
            lr,
            eps: 1e-10,
            lr_decay: 0.0,
            weight_decay: 0.0,
        }
    }
}

options! { Adagrad {
    /// Keeps the divisor from 0.
    eps: f64,
    /// The rate of update n is divided by `1 + (n - 1)` times this.
    lr_decay: f64,
    /// L2 penalty.
    weight_decay: f64,
}}

impl Optimizer for Adagrad {
    fn learning_rate(&self) -> f64 {
        self.lr
    }

    fn slots(&self) -> usize {
        1
    }

    fn scalars(&self, step: &Tensor, lr: &Tensor) -> Vec<Tensor> {
        vec![lr / ((step - 1.0) * self.lr_decay + 1.0)]
    }

    fn update(&self, given: &Update<'_>) -> (Tensor, Vec<Tensor>) {
        let grad = given.decayed(self.weight_decay);
        let sum = &given.slots[0] + &grad * &grad;
        let direction = grad / (sum.sqrt() + self.eps);
        (given.value - direction * &given.scalars[0], vec![sum])
    }
}

/// Lion (Chen et al., NeurIPS 2023): the sign of an interpolated momentum.
#[derive(Clone, Copy, Debug)]
pub struct Lion {
    lr: f64,
    beta1: f64,
    beta2: f64,
    weight_decay: f64,
}

impl Lion {
    /// Betas 0.9 and 0.99, no decay.
    pub fn new(lr: f64) -> Lion {
        Lion {
            lr,
            beta1: 0.9,
            beta2: 0.99,
            weight_decay: 0.0,
        }
    }
}

options! { Lion {
    /// Weight of the momentum in the direction.
    beta1: f64,
    /// Memory of the momentum.
    beta2: f64,
    /// Decay of the parameter itself.
    weight_decay: f64,
}}

impl Optimizer for Lion {
    fn learning_rate(&self) -> f64 {
        self.lr
    }

    fn slots(&self) -> usize {
        1
    }

    fn scalars(&self, _: &Tensor, lr: &Tensor) -> Vec<Tensor> {
        vec![lr.clone(), 1.0 - lr * self.weight_decay]
    }

    fn update(&self, given: &Update<'_>) -> (Tensor, Vec<Tensor>) {
        let direction = running(&given.slots[0], self.beta1, given.grad).sign();
        let momentum = running(&given.slots[0], self.beta2, given.grad);
        let value = given.value * &given.scalars[1];
        (value - direction * &given.scalars[0], vec![momentum])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg::Context;

    /// The same gradient for long, whose variance is 0.
    #[test]
    fn centered_rms_prop_stays_finite() {
        let cx = Context::new("cpu").unwrap();
        let rule = RmsProp::new(1e-3).centered(true);
        let grads: Vec<f32> = (1..=64).map(|i| i as f32 * 0.173_f32).collect();
        let grad = Tensor::from_slice(&grads, 64, &cx);
        let rate = [Tensor::scalar(1e-3_f32, &cx)];
        let (mut value, mut slots) = (grad.zeros_like(), vec![grad.zeros_like(); rule.slots()]);
        for _ in 0..1500 {
            (value, slots) = rule.update(&Update {
                value: &value,
                grad: &grad,
                slots: &slots,
                scalars: &rate,
            });
        }
        assert!(value.isfinite().all().item::<bool>().unwrap(), "{value}");
    }
}
