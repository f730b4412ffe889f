//! Optimizers: new parameters from old ones and gradients.
//!
//! An update is written with tensor ops and keeps no state of its own, so that it is part of the compiled training step.
//! What changes from step to step and is the same for all elements of a parameter (learning rate, bias corrections) is computed
//! once a step, from the learning rate and from how often each parameter was updated, and comes as scalars.

mod adaptive;
mod limits;
mod sgd;

pub use adaptive::{Adagrad, Adam, Lion, RmsProp};
pub use limits::{Clip, LossScale};
pub use sgd::Sgd;

use thalweg::Tensor;

/// A rule for one parameter.
///
/// ```
/// use thalweg::Tensor;
/// use thalweg_nn::optim::{Optimizer, Update};
///
/// /// Descends by the sign of the gradient.
/// struct SignDescent(f64);
///
/// impl Optimizer for SignDescent {
///     fn learning_rate(&self) -> f64 {
///         self.0
///     }
///
///     fn update(&self, given: &Update<'_>) -> (Tensor, Vec<Tensor>) {
///         (given.value - given.grad.sign() * &given.scalars[0], Vec::new())
///     }
/// }
/// ```
pub trait Optimizer: Send + Sync {
    /// The learning rate unless a schedule says otherwise.
    fn learning_rate(&self) -> f64;

    /// Its name in summaries.
    fn name(&self) -> &str {
        std::any::type_name::<Self>()
    }

    /// Tensors kept for each parameter, zero at the start.
    fn slots(&self) -> usize {
        0
    }

    /// What is the same for all elements of a parameter. `step` has for each parameter the number of its updates, this one
    /// included, and `lr` is the learning rate, a scalar of the same dtype, f32 or f64. Each result has one number for each
    /// parameter, or is a scalar for all of them.
    ///
    /// An update that is left out, as a [`LossScale`] does, is not counted, and a parameter that is trained from some step on
    /// counts from there.
    fn scalars(&self, step: &Tensor, lr: &Tensor) -> Vec<Tensor> {
        let _ = step;
        vec![lr.clone()]
    }

    /// The new value and the new slots of a parameter.
    fn update(&self, given: &Update<'_>) -> (Tensor, Vec<Tensor>);
}

/// What a parameter is updated by: tensors of its dtype, of f32 for parameters in f16 and bf16, whose new value is rounded.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// Its value.
    pub value: &'a Tensor,
    /// Its gradient.
    pub grad: &'a Tensor,
    /// What was kept for it.
    pub slots: &'a [Tensor],
    /// The numbers of [`Optimizer::scalars`] for it, each a scalar.
    pub scalars: &'a [Tensor],
}

impl Update<'_> {
    /// The gradient plus `decay` times the value.
    fn decayed(&self, decay: f64) -> Tensor {
        if decay == 0.0 {
            self.grad.clone()
        } else {
            self.grad + self.value * decay
        }
    }
}

/// A running mean: `memory` of the old one, the rest of what is new.
fn running(old: &Tensor, memory: f64, new: &Tensor) -> Tensor {
    old * memory + new * (1.0 - memory)
}
