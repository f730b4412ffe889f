//! Optimizers: new parameters from old ones and gradients.
//!
//! An update is written with tensor ops and keeps no state of its own, so that it is part of the compiled training step.
//! What changes from step to step and is the same for all elements (learning rate, bias corrections) is computed on the host
//! and comes as scalars.

use thalweg::{DType, Tensor};

/// A rule for one parameter.
pub trait Optimizer: Send + Sync {
    /// Tensors kept for each parameter, zero at the start.
    fn slots(&self) -> usize;

    /// What is the same for all elements in step `step` (from 1) at learning rate `lr`.
    fn scalars(&self, step: u64, lr: f64) -> Vec<f64> {
        let _ = step;
        vec![lr]
    }

    /// The new value and the new slots of a parameter. Scalars are those of [`Optimizer::scalars`], of the parameter's dtype.
    fn update(
        &self,
        value: &Tensor,
        grad: &Tensor,
        slots: &[Tensor],
        scalars: &[Tensor],
    ) -> (Tensor, Vec<Tensor>);

    /// The learning rate unless a schedule says otherwise.
    fn learning_rate(&self) -> f64;
}

/// Adds `decay * value` to a gradient.
fn decayed(value: &Tensor, grad: &Tensor, decay: f64) -> Tensor {
    if decay == 0.0 {
        grad.clone()
    } else {
        grad + value * decay
    }
}

macro_rules! options {
    ($type:ident { $($(#[$doc:meta])* $name:ident: $kind:ty,)* }) => {
        impl $type {
            $($(#[$doc])*
            #[must_use]
            pub fn $name(mut self, $name: $kind) -> $type {
                self.$name = $name;
                self
            })*
        }
    };
}

/// Stochastic gradient descent with momentum (Polyak 1964) or Nesterov's form (Sutskever et al., ICML 2013), as PyTorch has it.
#[derive(Clone, Copy, Debug)]
pub struct Sgd {
    lr: f64,
    momentum: f64,
    dampening: f64,
    nesterov: bool,
    weight_decay: f64,
}

impl Sgd {
    /// Plain descent.
    pub fn new(lr: f64) -> Sgd {
        Sgd {
            lr,
            momentum: 0.0,
            dampening: 0.0,
            nesterov: false,
            weight_decay: 0.0,
        }
    }
}

options! { Sgd {
    /// Share of the last update that goes on.
    momentum: f64,
    /// Share of the gradient that is left out of the momentum.
    dampening: f64,
    /// Looks ahead along the momentum.
    nesterov: bool,
    /// L2 penalty.
    weight_decay: f64,
}}

impl Optimizer for Sgd {
    fn slots(&self) -> usize {
        usize::from(self.momentum != 0.0)
    }

    fn scalars(&self, step: u64, lr: f64) -> Vec<f64> {
        // The first step takes the whole gradient into the momentum, as PyTorch does.
        let share = if step == 1 { 1.0 } else { 1.0 - self.dampening };
        if self.momentum == 0.0 {
            vec![lr]
        } else {
            vec![lr, share]
        }
    }

    fn update(
        &self,
        value: &Tensor,
        grad: &Tensor,
        slots: &[Tensor],
        scalars: &[Tensor],
    ) -> (Tensor, Vec<Tensor>) {
        let grad = decayed(value, grad, self.weight_decay);
        let ([lr, share], [velocity]) = (scalars, slots) else {
            return (value - grad * &scalars[0], Vec::new());
        };
        let velocity = velocity * self.momentum + &grad * share;
        let direction = if self.nesterov {
            grad + &velocity * self.momentum
        } else {
            velocity.clone()
        };
        (value - direction * lr, vec![velocity])
    }

    fn learning_rate(&self) -> f64 {
        self.lr
    }
}

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
    fn slots(&self) -> usize {
        2
    }

    fn scalars(&self, step: u64, lr: f64) -> Vec<f64> {
        let steps = step as f64;
        let (first, second) = (1.0 - self.beta1.powf(steps), 1.0 - self.beta2.powf(steps));
        vec![lr / first, second.sqrt(), 1.0 - lr * self.weight_decay]
    }

    fn update(
        &self,
        value: &Tensor,
        grad: &Tensor,
        slots: &[Tensor],
        scalars: &[Tensor],
    ) -> (Tensor, Vec<Tensor>) {
        let grad = if self.decoupled {
            grad.clone()
        } else {
            decayed(value, grad, self.weight_decay)
        };
        let mean = &slots[0] * self.beta1 + &grad * (1.0 - self.beta1);
        let square = &slots[1] * self.beta2 + &grad * &grad * (1.0 - self.beta2);
        let divisor = square.sqrt() / &scalars[1] + self.eps;
        let kept = if self.decoupled && self.weight_decay != 0.0 {
            value * &scalars[2]
        } else {
            value.clone()
        };
        (kept - &mean / divisor * &scalars[0], vec![mean, square])
    }

    fn learning_rate(&self) -> f64 {
        self.lr
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
    fn slots(&self) -> usize {
        1 + usize::from(self.momentum != 0.0) + usize::from(self.centered)
    }

    fn update(
        &self,
        value: &Tensor,
        grad: &Tensor,
        slots: &[Tensor],
        scalars: &[Tensor],
    ) -> (Tensor, Vec<Tensor>) {
        let grad = decayed(value, grad, self.weight_decay);
        let square = &slots[0] * self.alpha + &grad * &grad * (1.0 - self.alpha);
        let mut kept = vec![square.clone()];
        let mut spread = square;
        if self.centered {
            let mean = &slots[1] * self.alpha + &grad * (1.0 - self.alpha);
            spread -= &mean * &mean;
            kept.push(mean);
        }
        let mut direction = grad / (spread.sqrt() + self.eps);
        if self.momentum != 0.0 {
            direction = &slots[slots.len() - 1] * self.momentum + direction;
            kept.push(direction.clone());
        }
        (value - direction * &scalars[0], kept)
    }

    fn learning_rate(&self) -> f64 {
        self.lr
    }
}

/// Adagrad (Duchi et al., JMLR 2011).
#[derive(Clone, Copy, Debug)]
pub struct Adagrad {
    lr: f64,
    eps: f64,
    weight_decay: f64,
}

impl Adagrad {
    /// Eps 1e-10.
    pub fn new(lr: f64) -> Adagrad {
        Adagrad {
            lr,
            eps: 1e-10,
            weight_decay: 0.0,
        }
    }
}

options! { Adagrad {
    /// Keeps the divisor from 0.
    eps: f64,
    /// L2 penalty.
    weight_decay: f64,
}}

impl Optimizer for Adagrad {
    fn slots(&self) -> usize {
        1
    }

    fn update(
        &self,
        value: &Tensor,
        grad: &Tensor,
        slots: &[Tensor],
        scalars: &[Tensor],
    ) -> (Tensor, Vec<Tensor>) {
        let grad = decayed(value, grad, self.weight_decay);
        let sum = &slots[0] + &grad * &grad;
        (value - grad / (sum.sqrt() + self.eps) * &scalars[0], vec![sum])
    }

    fn learning_rate(&self) -> f64 {
        self.lr
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
    fn slots(&self) -> usize {
        1
    }

    fn scalars(&self, _: u64, lr: f64) -> Vec<f64> {
        vec![lr, 1.0 - lr * self.weight_decay]
    }

    fn update(
        &self,
        value: &Tensor,
        grad: &Tensor,
        slots: &[Tensor],
        scalars: &[Tensor],
    ) -> (Tensor, Vec<Tensor>) {
        let direction = (&slots[0] * self.beta1 + grad * (1.0 - self.beta1)).sign();
        let momentum = &slots[0] * self.beta2 + grad * (1.0 - self.beta2);
        (value * &scalars[1] - direction * &scalars[0], vec![momentum])
    }

    fn learning_rate(&self) -> f64 {
        self.lr
    }
}

/// What happens to gradients before the update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clip {
    /// Limits each element to `-limit..=limit`.
    Value(f64),
    /// Scales all gradients so that their common L2 norm is at most this.
    Norm(f64),
}

impl Clip {
    /// The limited gradients.
    pub fn apply(self, grads: &[Tensor]) -> Vec<Tensor> {
        match self {
            Clip::Value(limit) => grads.iter().map(|grad| grad.clamp(-limit, limit)).collect(),
            Clip::Norm(limit) => {
                let squares = grads.iter().map(|grad| (grad * grad).sum().cast(DType::F32));
                let Some(total) = squares.reduce(|sum, square| sum + square) else {
                    return Vec::new();
                };
                // As PyTorch: never larger, and finite for a norm of 0.
                let factor = (limit / (total.sqrt() + 1e-6)).minimum(1.0);
                let of = |grad: &Tensor| match grad.dtype() {
                    Ok(dtype) => grad * factor.cast(dtype),
                    Err(_) => grad.clone(),
                };
                grads.iter().map(of).collect()
            }
        }
    }
}
