//! Convolutions.

mod integer;

use super::spatial::{MAX_SPATIAL, Padding, PerAxis};
use crate::graph::{ConvAttributes, Op, Type};
use crate::ops::checked::{checked, composite_of};
use crate::ops::precision::{self, Class};
use crate::options;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::Shape;
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};

/// How a convolution walks its input: stride 1, no padding, dilation 1 and one group unless said otherwise.
///
/// ```
/// use thalweg::ops::ConvOptions;
/// let options = ConvOptions::new().stride(2).padding([1, 2]);
/// assert_ne!(options, ConvOptions::default());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvOptions {
    stride: PerAxis,
    padding: Padding,
    dilation: PerAxis,
    groups: usize,
}

impl Default for ConvOptions {
    fn default() -> ConvOptions {
        ConvOptions {
            stride: 1.into(),
            padding: Padding::valid(),
            dilation: 1.into(),
            groups: 1,
        }
    }
}

options! { ConvOptions {
    /// Elements of the input from one output to the next.
    stride: impl Into<PerAxis>,
    /// Zeros around the input.
    padding: impl Into<Padding>,
    /// Elements of the input from one tap to the next.
    dilation: impl Into<PerAxis>,
    /// Groups of channels that are convolved apart from each other.
    groups: usize,
} }

impl ConvOptions {
    /// The defaults.
    pub fn new() -> ConvOptions {
        ConvOptions::default()
    }

    /// The number of groups.
    pub fn group_count(&self) -> usize {
        self.groups
    }

    fn attributes(&self, taps: &[usize]) -> Result<ConvAttributes, Refusal> {
        let stride = self.stride.positive(taps.len(), "stride")?;
        let dilation = self.dilation.positive(taps.len(), "dilation")?;
        let [low, high] = self.padding.sides(taps, &stride, &dilation)?;
        Ok(ConvAttributes {
            groups: self.groups,
            stride,
            dilation,
            low,
            high,
            fast: false,
        })
    }
}

/// How a transposed convolution spreads its input: stride 1, no padding, dilation 1 and one group unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvTransposeOptions {
    stride: PerAxis,
    padding: PerAxis,
    output_padding: PerAxis,
    dilation: PerAxis,
    groups: usize,
}

impl Default for ConvTransposeOptions {
    fn default() -> ConvTransposeOptions {
        ConvTransposeOptions {
            stride: 1.into(),
            padding: 0.into(),
            output_padding: 0.into(),
            dilation: 1.into(),
            groups: 1,
        }
    }
}

options! { ConvTransposeOptions {
    /// Elements of the output from one input to the next.
    stride: impl Into<PerAxis>,
    /// Elements that are cut off on both sides of the output.
    padding: impl Into<PerAxis>,
    /// Elements that the output has more at its end; fewer than the stride or the dilation.
    output_padding: impl Into<PerAxis>,
    /// Elements of the output from one tap to the next.
    dilation: impl Into<PerAxis>,
    /// Groups of channels that are convolved apart from each other.
    groups: usize,
} }

impl ConvTransposeOptions {
    /// The defaults.
    pub fn new() -> ConvTransposeOptions {
        ConvTransposeOptions::default()
    }

    /// The number of groups.
    pub fn group_count(&self) -> usize {
        self.groups
    }

    /// The convolution whose gradient this is, the shape of its input, and that shape with the zeros behind it.
    fn spread(
        &self,
        x: Type,
        weight: Type,
        taps: &[usize],
    ) -> Result<(ConvAttributes, Shape, Shape), Refusal> {
        let axes = taps.len();
        let space = &x.shape[x.shape.len() - axes..];
        let channels = x.shape[x.shape.len() - axes - 1];
        if channels != weight.shape[0] {
            return Err(Refusal::new(format!(
                "input {} has {channels} channels, weights {} take {}",
                x.shape, weight.shape, weight.shape[0]
            )));
        }
        let stride = self.stride.positive(axes, "stride")?;
        let dilation = self.dilation.positive(axes, "dilation")?;
        let low = self.padding.of(axes, "padding")?;
        let more = self.output_padding.of(axes, "output padding")?;
        let mut high = low;
        let batch = if x.shape.len() == axes + 2 { x.shape[0] } else { 1 };
        let mut extents = vec![batch, weight.shape[1] * self.groups];
        let mut padded = extents.clone();
        for axis in 0..axes {
            if more[axis] >= stride[axis].max(dilation[axis]) {
                return Err(Refusal::new(format!(
                    "output padding {} with stride {} and dilation {}: it is less than one of them",
                    more[axis], stride[axis], dilation[axis]
                )));
            }
            // Of what is cut off at the end, `shown` elements come back; behind those are zeros.
            let shown = more[axis].min(low[axis]);
            high[axis] = low[axis] - shown;
            let full = space[axis].saturating_sub(1) * stride[axis] + (taps[axis] - 1) * dilation[axis] + 1;
            let cut = low[axis] + high[axis];
            if space[axis] == 0 || full <= cut {
                return Err(Refusal::new(format!(
                    "of {} elements by {} taps nothing is left after a padding of {cut}",
                    space[axis], taps[axis]
                )));
            }
            extents.push(full - cut);
            padded.push(full - cut + more[axis] - shown);
        }
        let attributes = ConvAttributes {
            groups: self.groups,
            stride,
            dilation,
            low,
            high,
            fast: false,
        };
        Ok((attributes, Shape::checked(&extents)?, Shape::checked(&padded)?))
    }
}

impl Tensor {
    /// Convolution along one axis: x `[n, c, l]` or `[c, l]` with weights `[co, c / groups, k]` and a bias `[co]`, all of
    /// one floating dtype; f16 and bf16 sum in f32. The result is `[n, co, lo]`,
    /// `lo = (l + padding - dilation·(k - 1) - 1) / stride + 1`. It is the cross-correlation that the field calls
    /// convolution: `out[n, o, i] = bias[o] + Σ x[n, c, i·stride - low + t·dilation] · w[o, c, t]`.
    #[must_use]
    #[track_caller]
    pub fn conv1d<'a>(
        &self,
        weight: &Tensor,
        bias: impl Into<Option<&'a Tensor>>,
        options: ConvOptions,
    ) -> Tensor {
        conv(self, weight, bias.into(), options, 1, OpTag::new("conv1d"))
    }

    /// Convolution along two axes: x `[n, c, h, w]` or `[c, h, w]` with weights `[co, c / groups, kh, kw]`; otherwise as
    /// [`Tensor::conv1d`].
    #[must_use]
    #[track_caller]
    pub fn conv2d<'a>(
        &self,
        weight: &Tensor,
        bias: impl Into<Option<&'a Tensor>>,
        options: ConvOptions,
    ) -> Tensor {
        conv(self, weight, bias.into(), options, 2, OpTag::new("conv2d"))
    }

    /// Convolution along three axes: x `[n, c, d, h, w]` or `[c, d, h, w]` with weights `[co, c / groups, kd, kh, kw]`;
    /// otherwise as [`Tensor::conv1d`].
    #[must_use]
    #[track_caller]
    pub fn conv3d<'a>(
        &self,
        weight: &Tensor,
        bias: impl Into<Option<&'a Tensor>>,
        options: ConvOptions,
    ) -> Tensor {
        conv(self, weight, bias.into(), options, 3, OpTag::new("conv3d"))
    }

    /// Transposed convolution along one axis: x `[n, c, l]` or `[c, l]` with weights `[c, co / groups, k]` and a bias `[co]`.
    /// The result is `[n, co, lo]`, `lo = (l - 1)·stride - 2·padding + dilation·(k - 1) + output_padding + 1`; it is the
    /// gradient of the convolution of these weights by its input.
    #[must_use]
    #[track_caller]
    pub fn conv_transpose1d<'a>(
        &self,
        weight: &Tensor,
        bias: impl Into<Option<&'a Tensor>>,
        options: ConvTransposeOptions,
    ) -> Tensor {
        conv_transpose(
            self,
            weight,
            bias.into(),
            options,
            1,
            OpTag::new("conv_transpose1d"),
        )
    }

    /// Transposed convolution along two axes; see [`Tensor::conv_transpose1d`].
    #[must_use]
    #[track_caller]
    pub fn conv_transpose2d<'a>(
        &self,
        weight: &Tensor,
        bias: impl Into<Option<&'a Tensor>>,
        options: ConvTransposeOptions,
    ) -> Tensor {
        conv_transpose(
            self,
            weight,
            bias.into(),
            options,
            2,
            OpTag::new("conv_transpose2d"),
        )
    }

    /// Transposed convolution along three axes; see [`Tensor::conv_transpose1d`].
    #[must_use]
    #[track_caller]
    pub fn conv_transpose3d<'a>(
        &self,
        weight: &Tensor,
        bias: impl Into<Option<&'a Tensor>>,
        options: ConvTransposeOptions,
    ) -> Tensor {
        conv_transpose(
            self,
            weight,
            bias.into(),
            options,
            3,
            OpTag::new("conv_transpose3d"),
        )
    }
}

fn conv(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: ConvOptions,
    axes: usize,
    tag: OpTag,
) -> Tensor {
    let held = precision::adjusted(Class::Matrix, tag, [x, weight]);
    let [x, weight] = held.operands([x, weight]);
    let held_bias = bias.map(|bias| precision::adjusted(Class::Matrix, tag, [bias]));
    let bias = precision::optional(&held_bias, bias);
    let result = checked(tag, [x, weight], [bias], |[x_type, w_type], [bias_type]| {
        let taps = taps(w_type, axes)?;
        let batched = batched(x_type, axes)?;
        let attributes = options.attributes(&taps)?;
        check_bias(bias_type, w_type.shape[0])?;
        let body = |[x, weight]: [&Tensor; 2], [bias]: [Option<&Tensor>; 1]| {
            let out = apply(Op::Conv(attributes), &[&with_batch(x, batched), weight], tag);
            finish(out, bias, batched, axes)
        };
        Ok(composite_of(
            "conv",
            &(options, axes),
            [x, weight],
            [bias],
            tag,
            body,
        ))
    });
    held.result(result, tag)
}

fn conv_transpose(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: ConvTransposeOptions,
    axes: usize,
    tag: OpTag,
) -> Tensor {
    let held = precision::adjusted(Class::Matrix, tag, [x, weight]);
    let [x, weight] = held.operands([x, weight]);
    let held_bias = bias.map(|bias| precision::adjusted(Class::Matrix, tag, [bias]));
    let bias = precision::optional(&held_bias, bias);
    let result = checked(tag, [x, weight], [bias], |[x_type, w_type], [bias_type]| {
        let taps = taps(w_type, axes)?;
        let batched = batched(x_type, axes)?;
        check_bias(bias_type, w_type.shape[1] * options.groups)?;
        let (attributes, shape, padded) = options.spread(x_type, w_type, &taps)?;
        let body = |[x, weight]: [&Tensor; 2], [bias]: [Option<&Tensor>; 1]| {
            let op = Op::ConvGradInput(attributes, shape);
            let mut out = apply(op, &[&with_batch(x, batched), weight], tag);
            if padded != shape {
                let low = Shape::of(&[0; MAX_SPATIAL + 2][..axes + 2]);
                let pad = Op::Pad {
                    low,
                    shape: padded,
                    bits: 0,
                };
                out = apply(pad, &[&out], tag);
            }
            finish(out, bias, batched, axes)
        };
        Ok(composite_of(
            "conv_transpose",
            &(options, axes),
            [x, weight],
            [bias],
            tag,
            body,
        ))
    });
    held.result(result, tag)
}

fn taps(weight: Type, axes: usize) -> Result<Vec<usize>, Refusal> {
    if weight.shape.len() != axes + 2 {
        return Err(Refusal::new(format!(
            "weights {} have {} axes, not {}",
            weight.shape,
            weight.shape.len(),
            axes + 2
        )));
    }
    let taps = weight.shape[2..].to_vec();
    if taps.contains(&0) {
        return Err(Refusal::new(format!("weights {} without taps", weight.shape)));
    }
    Ok(taps)
}

/// Whether the input has a batch axis in front of channels and space.
pub(super) fn batched(x: Type, axes: usize) -> Result<bool, Refusal> {
    let rank = x.shape.len();
    if rank == axes + 2 || rank == axes + 1 {
        return Ok(rank == axes + 2);
    }
    Err(Refusal::new(format!(
        "input {} has {rank} axes; batch, channels and {axes} spatial ones are {}, {} without the batch",
        x.shape,
        axes + 2,
        axes + 1
    )))
}

fn with_batch(x: &Tensor, batched: bool) -> Tensor {
    if batched { x.clone() } else { x.unsqueeze(0) }
}

fn check_bias(bias: Option<Type>, channels: usize) -> Result<(), Refusal> {
    match bias {
        Some(bias) if *bias.shape != [channels] => Err(Refusal::new(format!(
            "bias {} for {channels} output channels",
            bias.shape
        ))),
        _ => Ok(()),
    }
}

fn finish(out: Tensor, bias: Option<&Tensor>, batched: bool, axes: usize) -> Tensor {
    let out = match bias {
        None => out,
        Some(bias) => out + (0..axes).fold(bias.clone(), |bias, _| bias.unsqueeze(-1)),
    };
    if batched { out } else { out.squeeze_axes(0) }
}
