//! Gradient descent.

use super::{Optimizer, Update};
use thalweg::{Tensor, options};

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
    fn learning_rate(&self) -> f64 {
        self.lr
    }

    fn slots(&self) -> usize {
        usize::from(self.momentum != 0.0)
    }

    fn scalars(&self, step: &Tensor, lr: &Tensor) -> Vec<Tensor> {
        if self.dampening == 0.0 {
            return vec![lr.clone()];
        }
        // The first update takes the whole gradient into the momentum, as PyTorch does.
        let share = step.le(1.0).where_cond(step.ones_like(), 1.0 - self.dampening);
        vec![lr.clone(), share]
    }

    fn update(&self, given: &Update<'_>) -> (Tensor, Vec<Tensor>) {
        let grad = given.decayed(self.weight_decay);
        let lr = &given.scalars[0];
        let Some(velocity) = given.slots.first() else {
            return (given.value - grad * lr, Vec::new());
        };
        let fresh = match given.scalars.get(1) {
            Some(share) => &grad * share,
            None => grad.clone(),
        };
        let velocity = velocity * self.momentum + fresh;
        let direction = if self.nesterov {
            grad + &velocity * self.momentum
        } else {
            velocity.clone()
        };
        (given.value - direction * lr, vec![velocity])
    }
}
