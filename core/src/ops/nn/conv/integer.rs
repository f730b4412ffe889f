//! Convolutions of integers of 8 bits.

#[cfg(test)]
mod tests;

use super::{ConvOptions, batched, taps, with_batch};
use crate::graph::{Op, Type, infer};
use crate::hal::DType;
use crate::ops::cast;
use crate::ops::checked::{checked, composite_of, summed};
use crate::ops::nn::windows::padded_bits;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::{Axes, Shape};
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};

impl Tensor {
    /// The convolution of i8 or u8 with weights of i8 or u8, alike or mixed, with the sums in full: x `[n, c, space..]` or
    /// `[c, space..]` with weights `[co, c / groups, taps..]` of one to three spatial axes gives i32. ONNX's ConvInteger.
    ///
    /// The zero points are the integers that stand for 0, and are taken off each element first: `zero`, one number, off those of
    /// this tensor, whose padding stands for 0 as well; `weight_zero` off the weights, one for all or one for each output channel (`[co]`).
    /// Sums are exact modulo 2³², as those of [`Tensor::matmul_integer`].
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
            let w_shape = w.shape;
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
            let mut terms = inputs;
            for (axis, &taps) in taps.iter().enumerate() {
                let around = attributes.low[axis].saturating_add(attributes.high[axis]);
                padded.push(x.shape[front + axis].saturating_add(around));
                low.push(attributes.low[axis]);
                terms = terms.saturating_mul(taps);
            }
            let padded = Shape::checked(&padded)?;
            let batched = Shape::checked(&[&[batch], &x.shape[front - 1..]].concat())?;
            infer(&Op::Conv(attributes), &[Type::new(batched, x.dtype), w])?;
            let body = |[x, w]: [&Tensor; 2], [x_zero, w_zero]: [Option<&Tensor>; 2]| {
                let x_dtype = x.ty().map_or(DType::U8, |ty| ty.dtype);
                let whole = |zero: &Tensor| cast(zero, DType::I32, tag);
                let mut attributes = attributes;
                let mut x = with_batch(x, has_batch);
                // What stands for 0 is a value, and padding is not: elements are moved by it, modulo 256, while they are padded.
                if let Some(zero) = x_zero
                    && batched != padded
                {
                    let zero = cast(&zero.reshape(()), x_dtype, tag);
                    x = padded_bits(&(x - &zero), &low, &padded, 0, tag) + zero;
                    (attributes.low, attributes.high) = ([0; 3], [0; 3]);
                }
                let mut out = apply(Op::Conv(attributes), &[&x, w], tag);
                let mut each = [1; 4];
                each[0] = outputs;
                let each = &each[..1 + axes];
                if let Some(zero) = x_zero {
                    let sums = summed(&whole(w), (1..2 + axes).collect::<Axes>(), DType::I32, tag);
                    out -= whole(zero).reshape(()) * sums.reshape(each);
                }
                let Some(w_zero) = w_zero else {
                    return if has_batch { out } else { out.squeeze_axes(0) };
                };
                let w_zero = match w_zero.ty() {
                    Ok(ty) if ty.shape.elements() == outputs => whole(w_zero).reshape(each),
                    _ => whole(w_zero).reshape(()),
                };
                // The sums of the windows: those of a convolution by ones, of one channel a group.
                let ones = Tensor::constant(w_shape.with(0, groups), DType::I8, 1);
                let sums = apply(Op::Conv(attributes), &[&x, &ones], tag);
                if let (Ok(all), Ok(of_groups)) = (out.ty(), sums.ty()) {
                    let shape = of_groups.shape;
                    let spread = [&[batch, groups, 1], &shape[2..]].concat();
                    let wide = [&[batch, groups, outputs / groups], &shape[2..]].concat();
                    let sums = sums.reshape(spread).expand(wide).reshape(all.shape);
                    out -= &w_zero * sums;
                }
                if let Some(zero) = x_zero {
                    out += whole(zero).reshape(()) * w_zero * (terms as i32);
                }
                if has_batch { out } else { out.squeeze_axes(0) }
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
