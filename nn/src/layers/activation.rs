//! Activations, and other ops of one tensor, as layers.

use super::pool::whole;
use crate::init::Init;
use crate::{Layer, Module, Parameter};
use thalweg::observe::parts;
use thalweg::{Context, Result, Tensor};

whole! {
    /// `max(x, 0)`.
    Relu: |x| x.relu();
    /// `min(max(x, 0), 6)`.
    Relu6: |x| x.relu6();
    /// `x Φ(x)`, by the error function.
    Gelu: |x| x.gelu();
    /// `x σ(x)`.
    Silu: |x| x.silu();
    /// `x tanh(ln(1 + e^x))` (Misra, BMVC 2020).
    Mish: |x| x.mish();
    /// [`Tensor::selu`]: an ELU whose output keeps mean 0 and variance 1 (Klambauer et al., NeurIPS 2017).
    Selu: |x| x.selu();
    /// `ln(1 + e^x)`.
    Softplus: |x| x.softplus();
    /// `1 / (1 + e^-x)`.
    Sigmoid: |x| x.sigmoid();
    /// Sigmoid in three straight pieces.
    Hardsigmoid: |x| x.hardsigmoid();
    /// `x` times the sigmoid in three straight pieces (Howard et al., ICCV 2019).
    Hardswish: |x| x.hardswish();
    /// Hyperbolic tangent.
    Tanh: |x| x.tanh();
    /// Softmax along the last axis.
    Softmax: |x| x.softmax(-1);
    /// Logarithm of the softmax along the last axis.
    LogSoftmax: |x| x.log_softmax(-1);
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
        let _scope = parts::enter(self);
        x.leaky_relu(self.slope)
    }
}

/// `x`, or `alpha (e^x - 1)` where it is below 0 (Clevert et al., ICLR 2016).
#[derive(Clone, Copy, Debug, Module)]
pub struct Elu {
    /// What it falls to, negated.
    pub alpha: f64,
}

impl Layer for Elu {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _scope = parts::enter(self);
        x.elu(self.alpha)
    }
}

/// `x`, times a learned slope where it is below 0 (He et al., ICCV 2015).
#[derive(Clone, Debug, Module)]
pub struct Prelu {
    /// Slopes `[channels]`, or one for all.
    pub weight: Parameter,
}

impl Prelu {
    /// Slopes of 0.25 for `channels`, which may be 1.
    ///
    /// # Errors
    /// Memory does not suffice.
    pub fn new(channels: usize, cx: &Context) -> Result<Prelu> {
        Ok(Prelu {
            weight: Parameter::new(Init::Constant(0.25).tensor(&[channels], cx)?),
        })
    }
}

impl Layer for Prelu {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _scope = parts::enter(self);
        x.prelu(&self.weight)
    }
}
