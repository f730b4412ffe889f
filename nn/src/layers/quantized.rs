//! Layers that compute with integers of 8 bits.

use super::{Conv2d, Dense};
use crate::{Layer, Module, Parameter, State};
use thalweg::hal::Status;
use thalweg::observe::parts;
use thalweg::ops::ConvOptions;
use thalweg::{Context, DType, Error, Result, Tensor};

/// A layer that notes the least and the greatest number of its inputs, for [`QuantizedDense::calibrated`] and
/// [`QuantizedConv2d::calibrated`]; otherwise it is that layer.
///
/// ```
/// use thalweg::{Context, Tensor};
/// use thalweg_nn::{Calibration, Dense, Layer, QuantizedDense};
/// let cx = Context::new("cpu")?;
/// let layer = Calibration::new(Dense::new(3, 5, &cx)?, &cx);
/// for batch in [[0.5_f32, -1.0, 2.0], [0.0, 1.0, 3.0]] {
///     layer.forward(&Tensor::from_slice(&batch, [1, 3], &cx));
/// }
/// assert_eq!((layer.low.value().item::<f32>()?, layer.high.value().item::<f32>()?), (-1.0, 3.0));
/// let quantized = QuantizedDense::calibrated(&layer)?;
/// # let _ = quantized;
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct Calibration<L: Layer> {
    /// The layer.
    pub layer: L,
    /// The least number of all inputs so far, f32; 0 before the first, as 0 is always in the range.
    pub low: State,
    /// The greatest number of all inputs so far, f32.
    pub high: State,
}

impl<L: Layer> Calibration<L> {
    /// The range of what was seen.
    fn range(&self) -> Result<Range> {
        let (low, high) = (self.low.value(), self.high.value());
        if low.item::<f32>()? >= high.item::<f32>()? {
            let message = "no inputs were noted; call `forward` of the calibration with some first";
            return Err(Error::backend(Status::InvalidArgument, message.to_owned()).in_op("calibrated"));
        }
        let (scale, zero_point) = Tensor::quantization(&low, &high, DType::U8);
        Ok(Range {
            zero_point: (zero_point.item::<u8>()? > 0).then(|| State::new(zero_point)),
            scale: State::new(scale),
        })
    }

    /// A layer that has seen nothing yet.
    pub fn new(layer: L, cx: &Context) -> Calibration<L> {
        let nothing = || State::new(Tensor::scalar(0.0_f32, cx));
        Calibration {
            layer,
            low: nothing(),
            high: nothing(),
        }
    }
}

impl<L: Layer> Layer for Calibration<L> {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _scope = parts::enter(self);
        let seen = x.detach().cast(DType::F32);
        self.low.set(self.low.value().minimum(seen.min()));
        self.high.set(self.high.value().maximum(seen.max()));
        self.layer.forward(x)
    }
}

/// How a layer's input becomes u8.
#[derive(Clone, Debug, Module)]
struct Range {
    scale: State,
    /// Absent where it is 0, as behind a ReLU: nothing need be taken off then.
    zero_point: Option<State>,
}

/// A [`Dense`] that multiplies integers of 8 bits with sums in i32: the weight is i8 with a scale for each output, the input becomes
/// u8. Jacob et al., Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference (CVPR 2018).
///
/// An element of the input is off by half a step, 1/510 of the input's range, and one of the weight by 1/254 of the row's greatest
/// size, at most. Results are those of the rounded operands to the precision of f32. There is no gradient.
///
/// ```
/// use thalweg::{Context, DType, Tensor};
/// use thalweg_nn::{Dense, Layer, QuantizedDense};
/// let cx = Context::new("cpu")?;
/// let layer = QuantizedDense::dynamic(&Dense::new(3, 5, &cx)?)?;
/// assert_eq!(*layer.forward(&Tensor::zeros([2, 3], DType::F32, &cx)).shape()?, [2, 5]);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct QuantizedDense {
    /// i8 `[outputs, inputs]`, from -127 to 127.
    pub weight: State,
    /// f32 `[outputs]`: what 1 in a row of the weight stands for.
    pub scale: State,
    /// f32 `[outputs]`.
    pub bias: Option<State>,
    /// Sums of the rows of the weight, i32, by which the input's zero point counts.
    sums: State,
    /// The input's range, if it is fixed.
    range: Option<Range>,
    /// With a fixed range: what 1 in the sums of a row stands for, and what is added to it.
    line: Option<(State, State)>,
}

impl Range {
    /// The input as u8, the scale and the zero point, by this range or else by the input's own.
    #[track_caller]
    fn quantized(range: Option<&Range>, x: &Tensor) -> (Tensor, Tensor, Option<Tensor>) {
        let (scale, zero) = match range {
            Some(range) => (range.scale.value(), range.zero_point.as_ref().map(State::value)),
            None => {
                let (scale, zero) = Tensor::quantization(&x.min(), &x.max(), DType::U8);
                (scale, Some(zero))
            }
        };
        (x.quantize(&scale, zero.as_ref(), DType::U8), scale, zero)
    }

    /// Takes the tensors of `other` where they hold the same numbers; whether they do.
    fn share(of: &mut Option<Range>, other: Option<&Range>) -> Result<bool> {
        let (Some(own), Some(other)) = (of, other) else {
            return Ok(false);
        };
        let zero = |range: &Range| match &range.zero_point {
            Some(zero) => zero.value().item::<u8>(),
            None => Ok(0),
        };
        let same = own.scale.value().item::<f32>()? == other.scale.value().item::<f32>()?;
        let same = same && zero(own)? == zero(other)?;
        if same {
            *own = other.clone();
        }
        Ok(same)
    }
}

/// A weight as i8, and a scale for each element of its first axis.
fn rows(weight: &Tensor) -> Result<(Tensor, Tensor)> {
    let weight = weight.detach().cast(DType::F32);
    let shape = weight.shape()?;
    let rows = weight.reshape([shape[0], shape.iter().skip(1).product()]);
    let size = rows.abs().max_keepdims(1);
    let scale = size.eq(0.0).where_cond(1.0, size / 127.0);
    let rows = rows.quantize(&scale, None, DType::I8).reshape(shape);
    let scale = scale.squeeze_axes(1);
    rows.shape()?;
    scale.shape()?;
    Ok((rows, scale))
}

fn state(bias: Option<&Parameter>) -> Option<State> {
    bias.map(|bias| State::new(bias.detach().cast(DType::F32)))
}

impl QuantizedDense {
    /// The layer with an input whose range is that of each batch, found when it runs.
    ///
    /// # Errors
    /// Memory does not suffice.
    pub fn dynamic(layer: &Dense) -> Result<QuantizedDense> {
        QuantizedDense::of(layer, None)
    }

    /// The layer with an input of the range that was noted; what lies outside saturates.
    ///
    /// # Errors
    /// Memory does not suffice; nothing but zeros was noted.
    pub fn calibrated(seen: &Calibration<Dense>) -> Result<QuantizedDense> {
        QuantizedDense::of(&seen.layer, Some(seen.range()?))
    }

    fn of(layer: &Dense, range: Option<Range>) -> Result<QuantizedDense> {
        let (weight, scale) = rows(&layer.weight)?;
        let sums = weight.cast(DType::I32).sum_axes(1).cast(DType::I32);
        let line = range.as_ref().map(|range| {
            let factor = range.scale.value().cast(DType::F64) * scale.cast(DType::F64);
            let zero = range.zero_point.as_ref().map(State::value);
            let below = zero.map(|zero| zero.cast(DType::F64) * sums.cast(DType::F64) * &factor);
            let bias = layer.bias.as_ref().map(|bias| bias.detach().cast(DType::F64));
            let added = match (bias, below) {
                (Some(bias), Some(below)) => bias - below,
                (Some(bias), None) => bias,
                (None, Some(below)) => -below,
                (None, None) => factor.zeros_like(),
            };
            (factor.cast(DType::F32), added.cast(DType::F32))
        });
        if let Some((factor, added)) = &line {
            factor.shape()?;
            added.shape()?;
        }
        Ok(QuantizedDense {
            weight: State::new(weight),
            scale: State::new(scale),
            bias: state(layer.bias.as_ref()),
            sums: State::new(sums),
            range,
            line: line.map(|(factor, added)| (State::new(factor), State::new(added))),
        })
    }

    /// Takes the range of a layer that reads the same input, if it is the same, so that a compiled graph makes integers of that input
    /// once; whether it is the same. Results stay what they are.
    ///
    /// # Errors
    /// A range cannot be read.
    pub fn share_range(&mut self, other: &QuantizedDense) -> Result<bool> {
        Range::share(&mut self.range, other.range.as_ref())
    }
}

impl Layer for QuantizedDense {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _scope = parts::enter(self);
        let (x, scale, zero) = Range::quantized(self.range.as_ref(), x);
        let sums = x.matmul_integer(&self.weight.value().transpose(0, 1), None, None);
        if let Some((factor, added)) = &self.line {
            return sums.cast(DType::F32) * factor.value() + added.value();
        }
        let sums = match zero {
            Some(zero) => sums - zero.cast(DType::I32) * self.sums.value(),
            None => sums,
        };
        let out = sums.cast(DType::F32) * (scale * self.scale.value());
        match &self.bias {
            Some(bias) => out + bias.value(),
            None => out,
        }
    }
}

/// A [`Conv2d`] of integers of 8 bits with sums in i32; as [`QuantizedDense`], with a scale for each output channel.
///
/// ```
/// use thalweg::{Context, DType, Tensor, ops::ConvOptions};
/// use thalweg_nn::{Conv2d, Layer, QuantizedConv2d};
/// let cx = Context::new("cpu")?;
/// let layer = Conv2d::new(3, 8, [3, 3], ConvOptions::new().padding(1), &cx)?;
/// let y = QuantizedConv2d::dynamic(&layer)?.forward(&Tensor::ones([2, 3, 5, 5], DType::F32, &cx));
/// assert_eq!(*y.shape()?, [2, 8, 5, 5]);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct QuantizedConv2d {
    /// i8 `[outputs, inputs / groups, taps, taps]`, from -127 to 127.
    pub weight: State,
    /// f32 `[outputs]`: what 1 in a channel of the weight stands for.
    pub scale: State,
    /// f32 `[outputs]`.
    pub bias: Option<State>,
    /// Stride, padding, dilation, groups.
    pub options: ConvOptions,
    /// The input's range, if it is fixed.
    range: Option<Range>,
}

impl QuantizedConv2d {
    /// The layer with an input whose range is that of each batch, found when it runs.
    ///
    /// # Errors
    /// Memory does not suffice.
    pub fn dynamic(layer: &Conv2d) -> Result<QuantizedConv2d> {
        QuantizedConv2d::of(layer, None)
    }

    /// The layer with an input of the range that was noted; what lies outside saturates.
    ///
    /// # Errors
    /// Memory does not suffice; nothing but zeros was noted.
    pub fn calibrated(seen: &Calibration<Conv2d>) -> Result<QuantizedConv2d> {
        QuantizedConv2d::of(&seen.layer, Some(seen.range()?))
    }

    fn of(layer: &Conv2d, range: Option<Range>) -> Result<QuantizedConv2d> {
        let (weight, scale) = rows(&layer.weight)?;
        Ok(QuantizedConv2d {
            weight: State::new(weight),
            scale: State::new(scale),
            bias: state(layer.bias.as_ref()),
            options: layer.options,
            range,
        })
    }

    /// As [`QuantizedDense::share_range`].
    ///
    /// # Errors
    /// A range cannot be read.
    pub fn share_range(&mut self, other: &QuantizedConv2d) -> Result<bool> {
        Range::share(&mut self.range, other.range.as_ref())
    }
}

impl Layer for QuantizedConv2d {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _scope = parts::enter(self);
        let (x, scale, zero) = Range::quantized(self.range.as_ref(), x);
        let sums = x.conv_integer(&self.weight.value(), zero.as_ref(), None, self.options);
        let channels = |of: Tensor| of.unsqueeze(-1).unsqueeze(-1);
        let out = sums.cast(DType::F32) * channels(scale * self.scale.value());
        match &self.bias {
            Some(bias) => out + channels(bias.value()),
            None => out,
        }
    }
}
