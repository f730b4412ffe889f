//! Activations as layers.

use crate::{Layer, Module};
use thalweg::Tensor;

macro_rules! activations {
    ($($(#[$doc:meta])* $name:ident: |$x:ident| $value:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, Module)]
        pub struct $name;

        impl Layer for $name {
            #[track_caller]
            fn forward(&self, $x: &Tensor) -> Tensor {
                $value
            }
        }
    )* };
}

activations! {
    /// `max(x, 0)`.
    Relu: |x| x.relu();
    /// `x Φ(x)`, by the error function.
    Gelu: |x| x.gelu();
    /// `x σ(x)`.
    Silu: |x| x.silu();
    /// `1 / (1 + e^-x)`.
    Sigmoid: |x| x.sigmoid();
    /// Hyperbolic tangent.
    Tanh: |x| x.tanh();
    /// Softmax along the last axis.
    Softmax: |x| x.softmax(-1);
}

/// `x`, times `slope` where it is below 0.
#[derive(Clone, Copy, Debug, Module)]
pub struct LeakyRelu {
    /// Slope below 0.
    pub slope: f64,
}

impl Layer for LeakyRelu {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        x.leaky_relu(self.slope)
    }
}
