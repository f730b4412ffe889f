//! Normalisation.

use crate::init::Init;
use crate::{Layer, Module, Parameter, State, Training};
use thalweg::observe::parts;
use thalweg::{Context, Result, Tensor};

fn constant(shape: &[usize], value: f64, cx: &Context) -> Result<Parameter> {
    Ok(Parameter::new(Init::Constant(value).tensor(shape, cx)?))
}

/// Batch normalisation of `[n, channels, ..]` (Ioffe and Szegedy, ICML 2015): by the batch's statistics in training, by running ones
/// otherwise.
#[derive(Clone, Debug, Module)]
pub struct BatchNorm {
    /// Scale `[channels]`.
    pub weight: Parameter,
    /// Shift `[channels]`.
    pub bias: Parameter,
    /// Running mean `[channels]`.
    pub running_mean: State,
    /// Running variance `[channels]`.
    pub running_var: State,
    /// Share of the new batch in the running statistics.
    pub momentum: f64,
    /// Keeps the divisor from 0.
    pub eps: f64,
    training: Training,
}

impl BatchNorm {
    /// Momentum 0.1, eps 1e-5.
    ///
    /// # Errors
    /// Memory does not suffice.
    pub fn new(channels: usize, cx: &Context) -> Result<BatchNorm> {
        Ok(BatchNorm {
            weight: constant(&[channels], 1.0, cx)?,
            bias: constant(&[channels], 0.0, cx)?,
            running_mean: State::new(Init::Constant(0.0).tensor(&[channels], cx)?),
            running_var: State::new(Init::Constant(1.0).tensor(&[channels], cx)?),
            momentum: 0.1,
            eps: 1e-5,
            training: Training::default(),
        })
    }
}

impl Layer for BatchNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _scope = parts::enter(self);
        let (weight, bias) = (self.weight.value(), self.bias.value());
        let (mean, variance) = (self.running_mean.value(), self.running_var.value());
        if !self.training.0 {
            return x.batch_norm(&mean, &variance, weight, bias, self.eps);
        }
        let normal = x.batch_norm_train(weight, bias, self.eps);
        let (mean, variance) = normal.running(&mean, &variance, self.momentum);
        self.running_mean.set(mean.detach());
        self.running_var.set(variance.detach());
        normal.output
    }
}

/// Layer normalisation over the last axes (Ba et al., 2016).
#[derive(Clone, Debug, Module)]
pub struct LayerNorm {
    /// Scale, of the normalised extents.
    pub weight: Parameter,
    /// Shift, of the normalised extents.
    pub bias: Parameter,
    /// Keeps the divisor from 0.
    pub eps: f64,
}

impl LayerNorm {
    /// Over the last axes, which have the extents `normalized`; eps 1e-5.
    ///
    /// # Errors
    /// Memory does not suffice.
    pub fn new(normalized: &[usize], cx: &Context) -> Result<LayerNorm> {
        Ok(LayerNorm {
            weight: constant(normalized, 1.0, cx)?,
            bias: constant(normalized, 0.0, cx)?,
            eps: 1e-5,
        })
    }
}

impl Layer for LayerNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _scope = parts::enter(self);
        match self.weight.shape() {
            Ok(normalized) => x.layer_norm(normalized, self.weight.value(), self.bias.value(), self.eps),
            Err(_) => self.weight.value().clone(),
        }
    }
}

/// Root mean square normalisation over the last axis (Zhang and Sennrich, NeurIPS 2019).
#[derive(Clone, Debug, Module)]
pub struct RmsNorm {
    /// Scale, of the normalised extents.
    pub weight: Parameter,
    /// Keeps the divisor from 0.
    pub eps: f64,
}

impl RmsNorm {
    /// Over the last axis of extent `width`; eps 1e-6.
    ///
    /// # Errors
    /// Memory does not suffice.
    pub fn new(width: usize, cx: &Context) -> Result<RmsNorm> {
        Ok(RmsNorm {
            weight: constant(&[width], 1.0, cx)?,
            eps: 1e-6,
        })
    }
}

impl Layer for RmsNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _scope = parts::enter(self);
        match self.weight.shape() {
            Ok(normalized) => x.rms_norm(normalized, self.weight.value(), self.eps),
            Err(_) => self.weight.value().clone(),
        }
    }
}

/// Group normalisation of `[n, channels, ..]` (Wu and He, ECCV 2018).
#[derive(Clone, Debug, Module)]
pub struct GroupNorm {
    /// Scale `[channels]`.
    pub weight: Parameter,
    /// Shift `[channels]`.
    pub bias: Parameter,
    /// Groups of channels.
    pub groups: usize,
    /// Keeps the divisor from 0.
    pub eps: f64,
}

impl GroupNorm {
    /// Eps 1e-5.
    ///
    /// # Errors
    /// Memory does not suffice.
    pub fn new(groups: usize, channels: usize, cx: &Context) -> Result<GroupNorm> {
        Ok(GroupNorm {
            weight: constant(&[channels], 1.0, cx)?,
            bias: constant(&[channels], 0.0, cx)?,
            groups,
            eps: 1e-5,
        })
    }
}

impl Layer for GroupNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _scope = parts::enter(self);
        x.group_norm(self.groups, self.weight.value(), self.bias.value(), self.eps)
    }
}

/// Instance normalisation of `[n, channels, ..]` (Ulyanov et al., 2016), without scale and shift.
#[derive(Clone, Copy, Debug, Module)]
pub struct InstanceNorm {
    /// Keeps the divisor from 0.
    pub eps: f64,
}

impl Default for InstanceNorm {
    fn default() -> InstanceNorm {
        InstanceNorm { eps: 1e-5 }
    }
}

impl Layer for InstanceNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _scope = parts::enter(self);
        x.instance_norm(None, None, self.eps)
    }
}
