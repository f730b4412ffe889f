//! Convolutions.

use super::BatchNorm;
use super::dense::bias;
use crate::init::{Fans, Init};
use crate::{Layer, Module, Parameter};
use thalweg::hal::Status;
use thalweg::observe::parts;
use thalweg::ops::{ConvOptions, ConvTransposeOptions};
use thalweg::{Context, Error, Result, Tensor};

/// The number of groups, which divides the channels.
fn divided(groups: usize, inputs: usize, outputs: usize) -> Result<usize> {
    if groups > 0 && inputs.is_multiple_of(groups) && outputs.is_multiple_of(groups) {
        return Ok(groups);
    }
    let message = format!("{inputs} inputs and {outputs} outputs in {groups} groups");
    Err(Error::backend(Status::InvalidArgument, message).in_op("convolution"))
}

macro_rules! convolution {
    ($name:ident, $axes:literal, $op:ident, $options:ty, $transposed:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Debug, Module)]
        pub struct $name {
            /// `[outputs, inputs / groups, taps..]`, transposed `[inputs, outputs / groups, taps..]`.
            pub weight: Parameter,
            /// `[outputs]`.
            pub bias: Option<Parameter>,
            /// Stride, padding, dilation, groups.
            pub options: $options,
        }

        impl $name {
            /// A layer with weight and bias drawn by [`Init::FanIn`]; `size` is the number of taps along each axis.
            ///
            /// # Errors
            /// Memory does not suffice; channels that groups do not divide.
            pub fn new(
                inputs: usize,
                outputs: usize,
                size: [usize; $axes],
                options: $options,
                cx: &Context,
            ) -> Result<$name> {
                let groups = divided(options.group_count(), inputs, outputs)?;
                let mut shape = if $transposed {
                    vec![inputs, outputs / groups]
                } else {
                    vec![outputs, inputs / groups]
                };
                shape.extend(size);
                let weight = Init::FanIn.tensor(&shape, cx)?;
                let fans = Fans::of(&weight.shape()?);
                Ok($name {
                    weight: Parameter::new(weight),
                    bias: bias(outputs, fans, cx)?,
                    options,
                })
            }
        }

        impl Layer for $name {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Tensor {
                let _scope = parts::enter(self);
                x.$op(&self.weight, self.bias.as_deref(), self.options)
            }
        }
    };
}

convolution!(
    Conv1d,
    1,
    conv1d,
    ConvOptions,
    false,
    "Convolution along one axis: `[n, inputs, l]` to `[n, outputs, l']`."
);
convolution!(
    Conv2d,
    2,
    conv2d,
    ConvOptions,
    false,
    "Convolution along two axes: `[n, inputs, h, w]` to `[n, outputs, h', w']`."
);
convolution!(
    Conv3d,
    3,
    conv3d,
    ConvOptions,
    false,
    "Convolution along three axes: `[n, inputs, d, h, w]` to `[n, outputs, d', h', w']`."
);
convolution!(
    ConvTranspose1d,
    1,
    conv_transpose1d,
    ConvTransposeOptions,
    true,
    "Transposed convolution along one axis: `[n, inputs, l]` to `[n, outputs, l']`."
);
convolution!(
    ConvTranspose2d,
    2,
    conv_transpose2d,
    ConvTransposeOptions,
    true,
    "Transposed convolution along two axes: `[n, inputs, h, w]` to `[n, outputs, h', w']`."
);
convolution!(
    ConvTranspose3d,
    3,
    conv_transpose3d,
    ConvTransposeOptions,
    true,
    "Transposed convolution along three axes: `[n, inputs, d, h, w]` to `[n, outputs, d', h', w']`."
);

impl Conv2d {
    /// The convolution that computes what this one and `norm` behind it compute by running statistics: each output channel times
    /// `w / sqrt(variance + eps)`, and a bias. For inference, and in front of [`QuantizedConv2d`](crate::QuantizedConv2d).
    ///
    /// ```
    /// use thalweg::{Context, DType, Tensor, ops::ConvOptions};
    /// use thalweg_nn::{BatchNorm, Conv2d, Layer};
    /// let cx = Context::new("cpu")?;
    /// let layer = Conv2d::new(3, 8, [3, 3], ConvOptions::new(), &cx)?.with_norm(&BatchNorm::new(8, &cx)?)?;
    /// assert_eq!(*layer.forward(&Tensor::ones([1, 3, 5, 5], DType::F32, &cx)).shape()?, [1, 8, 3, 3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// `norm` has other channels than the convolution has outputs.
    pub fn with_norm(&self, norm: &BatchNorm) -> Result<Conv2d> {
        let (weight, outputs) = (self.weight.detach(), self.weight.shape()?[0]);
        let channels = norm.weight.shape()?;
        if *channels != [outputs] {
            let message = format!("{outputs} outputs in front of a norm of {channels}");
            return Err(Error::backend(Status::InvalidArgument, message).in_op("with_norm"));
        }
        let factor = norm.weight.detach() / (norm.running_var.value() + norm.eps).sqrt();
        let mean = norm.running_mean.value();
        let mean = match &self.bias {
            Some(bias) => mean - bias.detach(),
            None => mean,
        };
        let bias = norm.bias.detach() - mean * &factor;
        let weight = weight * factor.reshape([outputs, 1, 1, 1]);
        weight.shape()?;
        bias.shape()?;
        Ok(Conv2d {
            weight: Parameter::new(weight),
            bias: Some(Parameter::new(bias)),
            options: self.options,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_divide_the_channels() {
        let cx = Context::new("cpu").unwrap();
        let (plain, turned) = (ConvOptions::new(), ConvTransposeOptions::new());
        for (inputs, outputs, groups) in [(3, 4, 2), (4, 3, 2), (4, 4, 0)] {
            let text = format!("{inputs} inputs and {outputs} outputs in {groups} groups");
            let layer = Conv2d::new(inputs, outputs, [3, 3], plain.groups(groups), &cx);
            assert!(layer.unwrap_err().to_string().contains(&text));
            let layer = ConvTranspose1d::new(inputs, outputs, [3], turned.groups(groups), &cx);
            assert!(layer.unwrap_err().to_string().contains(&text));
        }
        let layer = Conv1d::new(4, 6, [3], plain.groups(2), &cx).unwrap();
        assert_eq!(*layer.weight.shape().unwrap(), [6, 2, 3]);
    }
}
