//! Gradients: reverse mode over the ops of graphs.
//!
//! [`grad`] and [`value_and_grad`] make a function of the gradient of a function; [`vjp`] gives the step back by itself. Their
//! gradients are values like others, so a gradient of a gradient is one too. Who likes it imperative marks tensors with
//! [`Tensor::requires_grad`](crate::Tensor::requires_grad) and calls [`Tensor::backward`](crate::Tensor::backward); that is for first gradients alone.
//!
//! Integers, truth values, and what is constant almost everywhere (rounding, comparisons, sign, argmax) have no gradient. Where
//! a function has a kink the choice is PyTorch's.

mod attention;
mod function;
mod imperative;
mod indexed;
mod jacobian;
mod math;
mod rule;
mod running;
mod scalar;
mod sum;
mod vjp;
mod walk;
mod window;

pub use crate::value::no_grad;
pub(crate) use attention::attention_weights;
pub use function::{Grad, Loss, ValueAndGrad, grad, value_and_grad};
pub use imperative::{Gradients, stop_gradient};
pub use jacobian::{hessian, jacobian};
pub(crate) use math::add;
pub use vjp::{Pullback, vjp};

#[cfg(test)]
mod tests;
