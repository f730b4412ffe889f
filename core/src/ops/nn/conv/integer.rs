//! Convolutions of integers of 8 bits.

use super::{ConvOptions, batched, taps, with_batch};
use crate::hal::DType;
use crate::ops::cast;
use crate::ops::checked::{checked, composite_of};
use crate::ops::nn::spatial::product;
use crate::ops::nn::windows::{padded_bits, windows};
use crate::tensor::Tensor;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::Shape;
use crate::tensor::tag::OpTag;

impl Tensor {
    /// The convolution of i8 or u8 with weights of i8 or u8, alike or mixed, with the sums in full: x `[n, c, space..]` or
    /// `[c, space..]` with weights `[co, c / groups, taps..]` of one to three spatial axes gives i32. ONNX's ConvInteger.
    ///
    /// The zero points are the integers that stand for 0, and are taken off each element first: `zero`, one number, off those of
    /// this tensor, whose padding stands for 0 as well; `weight_zero` off the weights, one for all or one for each output channel (`[co]`).
    /// Sums are exact modulo 2³², as those of [`Tensor::matmul_integer`], to which the windows go as columns.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor, ops::ConvOptions};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[10_u8, 12, 14], [1, 1, 3], &cx);
    /// let w = Tensor::from_slice(&[1_i8, -3], [1, 1, 2], &cx);
    /// let zero = Tensor::scalar(10_u8, &cx);
    /// let y = x.conv_integer(&w, &zero, None, ConvOptions::new().padding(1));
    /// assert_eq!(y.to_vec::<i32>()?, [0, -6, -10, 4]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn conv_integer<'a, 'b>(
        &self,
        weight: &Tensor,
        zero: impl Into<Option<&'a Tensor>>,
        weight_zero: impl Into<Option<&'b Tensor>>,
        options: ConvOptions,
    ) -> Tensor {
        let tag = OpTag::new("conv_integer");
        let zeros: [Option<&Tensor>; 2] = [zero.into(), weight_zero.into()];
        checked(tag, [self, weight], zeros, |[x, w], [x_zero, w_zero]| {
            let bytes = |dtype| matches!(dtype, DType::I8 | DType::U8);
            if !bytes(x.dtype) || !bytes(w.dtype) {
                return Err(
                    Refusal::new(format!("input of {} with weights of {}", x.dtype, w.dtype))
                        .help("both are i8 or u8; `quantize` makes them of floats"),
                );
            }
            let axes = w.shape.len().wrapping_sub(2);
            if !(1..=3).contains(&axes) {
                return Err(Refusal::new(format!("weights {}", w.shape))
                    .help("they are [outputs, channels, taps..] of one to three spatial axes"));
            }
            let (taps, has_batch) = (taps(w, axes)?, batched(x, axes)?);
            let attributes = options.attributes(&taps)?;
            let (groups, outputs, inputs) = (attributes.groups, w.shape[0], w.shape[1]);
            let front = x.shape.len() - axes;
            if groups == 0 || outputs % groups != 0 || x.shape[front - 1] != inputs.saturating_mul(groups) {
                return Err(Refusal::new(format!(
                    "input {} with weights {} in {groups} groups",
                    x.shape, w.shape
                )));
            }
            for (what, zero, each) in [("input", x_zero, 1), ("weights", w_zero, outputs)] {
                let Some(zero) = zero else { continue };
                if !zero.dtype.is_integer()
                    || !matches!(&zero.shape[..], [] | [1]) && zero.shape[..] != [each]
                {
                    return Err(
                        Refusal::new(format!("zero points {} {} of {what}", zero.dtype, zero.shape))
                            .help("they are integers: one, or one for each output channel of the weights"),
                    );
                }
            }
            let batch = if has_batch { x.shape[0] } else { 1 };
            let (mut padded, mut low) = (vec![batch, x.shape[front - 1]], vec![0; 2]);
            let mut space = Vec::new();
            for (axis, &taps) in taps.iter().enumerate() {
                let around = attributes.low[axis].saturating_add(attributes.high[axis]);
                let extent = x.shape[front + axis].saturating_add(around);
                let span = (taps - 1)
                    .saturating_mul(attributes.dilation[axis])
                    .saturating_add(1);
                if extent < span {
                    return Err(Refusal::new(format!(
                        "weights span {span} elements, the padded input {} has {extent}",
                        x.shape
                    )));
                }
                padded.push(extent);
                low.push(attributes.low[axis]);
                space.push((extent - span) / attributes.stride[axis] + 1);
            }
            let padded = Shape::checked(&padded)?;
            let depth = product(&[inputs, product(&taps)?])?;
            let columns = Shape::checked(&[batch, groups, depth, product(&space)?])?;
            let out = Shape::checked(&[&[batch, outputs], &space[..]].concat())?;
            let body = |[x, w]: [&Tensor; 2], [x_zero, w_zero]: [Option<&Tensor>; 2]| {
                let x_dtype = x.ty().map_or(DType::U8, |ty| ty.dtype);
                let mut x = with_batch(x, has_batch);
                // What stands for 0 is a value, and padding is not: elements are moved by it, modulo 256, while they are padded.
                let moved = x_zero.filter(|_| x.ty().is_ok_and(|ty| ty.shape != padded));
                let moved = moved.map(|zero| cast(&zero.reshape(()), x_dtype, tag));
                if let Some(zero) = &moved {
                    x -= zero;
                }
                x = padded_bits(&x, &low, &padded, 0, tag);
                for (axis, &taps) in taps.iter().enumerate() {
                    let (stride, dilation) = (attributes.stride[axis], attributes.dilation[axis]);
                    x = windows(&x, 2 + axis, taps, stride, dilation, tag);
                }
                if let Some(zero) = &moved {
                    x += zero;
                }
                let order = [0, 1]
                    .into_iter()
                    .chain(2 + axes..2 + 2 * axes)
                    .chain(2..2 + axes);
                let order: Vec<i32> = order.map(|axis| axis as i32).collect();
                let x = x.permute(&order[..]).reshape(columns);
                let w = w.reshape([groups, outputs / groups, depth]);
                let w_zero = w_zero.map(|zero| match zero.ty() {
                    Ok(ty) if ty.shape.elements() == outputs => zero.reshape([groups, outputs / groups, 1]),
                    _ => zero.reshape(()),
                });
                let sums = {
                    let x_zero = x_zero.map(|zero| zero.reshape(()));
                    w.matmul_integer(&x, w_zero.as_ref(), x_zero.as_ref())
                        .reshape(out)
                };
                if has_batch { sums } else { sums.squeeze_axes(0) }
            };
            Ok(composite_of(
                "conv_integer",
                &(options, axes),
                [self, weight],
                zeros,
                tag,
                body,
            ))
        })
    }
}
