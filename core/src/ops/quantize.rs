//! Integers that stand for real numbers: `real = (integer − zero point) · scale`.

use super::cast;
use super::checked::{checked, composite_of};
use crate::composite::composite;
use crate::graph::Type;
use crate::hal::DType;
use crate::tensor::Tensor;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::Shape;
use crate::tensor::tag::OpTag;

impl Tensor {
    /// `round(x / scale) + zero_point` as integers of `dtype` of at most 16 bits, ties to even, saturated; NaN gives 0. Computed in f32,
    /// in f64 where an operand has it. ONNX's QuantizeLinear.
    ///
    /// The scale and the zero point broadcast to the tensor, so one of `[n, 1]` is one for each row. An extent that divides the
    /// tensor's has one for each block: a scale of `[n, 4]` and a tensor of `[n, 128]` have blocks of 32 columns.
    ///
    /// ```
    /// # use thalweg::{Context, DType, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.25_f32, 0.75, -9.0, 100.0], [4], &cx);
    /// let (scale, zero) = (Tensor::scalar(0.5_f32, &cx), Tensor::scalar(3_u8, &cx));
    /// let q = x.quantize(&scale, &zero, DType::U8);
    /// assert_eq!(q.to_vec::<u8>()?, [3, 5, 0, 203]);
    /// assert_eq!(q.dequantize(&scale, &zero).to_vec::<f32>()?, [0.0, 1.0, -1.5, 100.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn quantize<'a>(
        &self,
        scale: &Tensor,
        zero_point: impl Into<Option<&'a Tensor>>,
        dtype: DType,
    ) -> Tensor {
        let tag = OpTag::new("quantize");
        let zero = zero_point.into();
        checked(tag, [self, scale], [zero], |[x, s], [z]| {
            if !x.dtype.is_float() || !s.dtype.is_float() {
                return Err(Refusal::new(format!("{} by a scale of {}", x.dtype, s.dtype))
                    .help("both are floats; `dequantize` makes them of integers"));
            }
            if !dtype.is_integer() || dtype.size() > 2 {
                return Err(Refusal::new(format!("to {dtype}")).help("take i8, u8, i16 or u16"));
            }
            let wide = computed(&[x.dtype, s.dtype]);
            let blocks = Blocks::of(x, s, z)?;
            let key = (dtype, wide, blocks);
            Ok(composite_of(
                "quantize",
                &key,
                [self, scale],
                [zero],
                tag,
                |[x, scale], [zero]| {
                    let ([x, scale], zero) = blocks.split([x, scale], zero);
                    let mut q = (cast(&x, wide, tag) / cast(&scale, wide, tag)).round();
                    if let Some(zero) = zero {
                        q += cast(&zero, wide, tag);
                    }
                    blocks.joined(cast(&q, dtype, tag))
                },
            ))
        })
    }

    /// `(x − zero_point) · scale` of integers, in the dtype of the scale. Broadcasting and blocks as [`Tensor::quantize`]. ONNX's
    /// DequantizeLinear.
    #[must_use]
    #[track_caller]
    pub fn dequantize<'a>(&self, scale: &Tensor, zero_point: impl Into<Option<&'a Tensor>>) -> Tensor {
        let tag = OpTag::new("dequantize");
        let zero = zero_point.into();
        checked(tag, [self, scale], [zero], |[x, s], [z]| {
            if !x.dtype.is_integer() || x.dtype.size() > 4 || !s.dtype.is_float() {
                return Err(Refusal::new(format!("{} by a scale of {}", x.dtype, s.dtype))
                    .help("integers of at most 32 bits by a float"));
            }
            let wide = computed(&[s.dtype]);
            let blocks = Blocks::of(x, s, z)?;
            let key = (s.dtype, wide, blocks);
            Ok(composite_of(
                "dequantize",
                &key,
                [self, scale],
                [zero],
                tag,
                |[x, scale], [zero]| {
                    let ([x, scale], zero) = blocks.split([x, scale], zero);
                    let x = match zero {
                        // Exact, where floats would round great numbers first.
                        Some(zero) => cast(&x, DType::I32, tag) - cast(&zero, DType::I32, tag),
                        None => x,
                    };
                    let real = cast(&x, wide, tag) * cast(&scale, wide, tag);
                    blocks.joined(cast(&real, s.dtype, tag))
                },
            ))
        })
    }

    /// The scale, in f32 or f64, and the zero point, in `dtype`, by which integers of `dtype` (i8, u8, i16, u16) cover the numbers from `low`
    /// to `high`, element by element. 0 is always covered, and an integer stands for it exactly. A range of 0 alone has the scale 1.
    /// With the least and the greatest element of a tensor and u8, that is ONNX's DynamicQuantizeLinear.
    ///
    /// ```
    /// # use thalweg::{Context, DType, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[-64.0_f32, 0.5, 191.0], [3], &cx);
    /// let (scale, zero) = Tensor::quantization(&x.min(), &x.max(), DType::U8);
    /// assert_eq!((scale.item::<f32>()?, zero.item::<u8>()?), (1.0, 64));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn quantization(low: &Tensor, high: &Tensor, dtype: DType) -> (Tensor, Tensor) {
        let tag = OpTag::new("quantization");
        let checked = |zero: bool| {
            checked(tag, [low, high], [], |[l, h], []| {
                let Some((least, most)) = bounds(dtype).filter(|_| dtype.size() <= 2) else {
                    return Err(Refusal::new(format!("to {dtype}")).help("take i8, u8, i16 or u16"));
                };
                if !l.dtype.is_float() || !h.dtype.is_float() || l.shape != h.shape {
                    return Err(Refusal::new(format!(
                        "a range from {} {} to {} {}",
                        l.dtype, l.shape, h.dtype, h.shape
                    ))
                    .help("both are floats of one shape"));
                }
                let key = (dtype, computed(&[l.dtype, h.dtype]), zero);
                Ok(composite(
                    "quantization",
                    &key,
                    [low, high],
                    tag,
                    |[low, high]| {
                        let low = cast(low, key.1, tag).minimum(0.0);
                        let high = cast(high, key.1, tag).maximum(0.0);
                        let range = (high - &low) / (most - least);
                        let scale = range.eq(0.0).where_cond(1.0, &range);
                        match zero {
                            false => scale,
                            true => cast(&(least - low / scale).round(), dtype, tag),
                        }
                    },
                ))
            })
        };
        (checked(false), checked(true))
    }
}

/// The dtype that quantities of these dtypes are computed in.
fn computed(dtypes: &[DType]) -> DType {
    match dtypes.contains(&DType::F64) {
        true => DType::F64,
        false => DType::F32,
    }
}

/// The least and the greatest number of an integer dtype of at most 16 bits.
fn bounds(dtype: DType) -> Option<(f64, f64)> {
    match dtype {
        DType::I8 => Some((i8::MIN.into(), i8::MAX.into())),
        DType::U8 => Some((u8::MIN.into(), u8::MAX.into())),
        DType::I16 => Some((i16::MIN.into(), i16::MAX.into())),
        DType::U16 => Some((u16::MIN.into(), u16::MAX.into())),
        _ => None,
    }
}

/// How axes with several blocks are split, so that parameters broadcast.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Blocks {
    /// Shapes of the tensor, the scale and the zero point with the axes split, if any is.
    split: Option<[Shape; 3]>,
    /// The tensor's own shape.
    whole: Shape,
}

impl Blocks {
    fn of(x: Type, scale: Type, zero: Option<Type>) -> Result<Blocks, Refusal> {
        let refuse = |what: &str, shape: &Shape| {
            Err(Refusal::new(format!("a {what} {shape} of a tensor {}", x.shape))
                .help("each extent is 1 or divides the tensor's"))
        };
        let zero = match zero {
            Some(zero) if !zero.dtype.is_integer() => {
                return Err(Refusal::new(format!("a zero point of {}", zero.dtype)).help("it is an integer"));
            }
            Some(zero) => zero.shape,
            None => Shape::SCALAR,
        };
        let (mut extents, mut parameters) = (Vec::new(), [Vec::new(), Vec::new()]);
        let mut splits = false;
        for (axis, &extent) in x.shape.iter().enumerate() {
            // An extent of a parameter, whose axes are aligned at the last one.
            let of = |shape: &Shape| {
                let at = (axis + shape.len()).checked_sub(x.shape.len());
                at.map_or(1, |at| shape[at])
            };
            let counts = [of(&scale.shape), of(&zero)];
            let blocks = counts.into_iter().find(|&count| count != 1 && count != extent);
            match blocks {
                Some(count) if count > 0 && extent % count == 0 => {
                    splits = true;
                    extents.extend([count, extent / count]);
                    for (parameter, own) in parameters.iter_mut().zip(counts) {
                        match own {
                            _ if own == extent && own != count => parameter.extend([count, extent / count]),
                            _ => parameter.extend([own, 1]),
                        }
                    }
                }
                Some(_) => {
                    return refuse(
                        "scale or zero point",
                        if counts[0] == 1 { &zero } else { &scale.shape },
                    );
                }
                None => {
                    extents.push(extent);
                    parameters
                        .iter_mut()
                        .zip(counts)
                        .for_each(|(parameter, own)| parameter.push(own));
                }
            }
        }
        for (what, shape) in [("scale", &scale.shape), ("zero point", &zero)] {
            if shape.len() > x.shape.len() {
                return refuse(what, shape);
            }
        }
        let [of_scale, of_zero] = &parameters;
        Ok(Blocks {
            split: match splits {
                true => Some([
                    Shape::checked(&extents)?,
                    Shape::checked(of_scale)?,
                    Shape::checked(of_zero)?,
                ]),
                false => None,
            },
            whole: x.shape,
        })
    }

    fn split(&self, [x, scale]: [&Tensor; 2], zero: Option<&Tensor>) -> ([Tensor; 2], Option<Tensor>) {
        match &self.split {
            None => ([x.clone(), scale.clone()], zero.cloned()),
            Some([of_x, of_scale, of_zero]) => (
                [x.reshape(of_x), scale.reshape(of_scale)],
                zero.map(|zero| zero.reshape(of_zero)),
            ),
        }
    }

    fn joined(&self, tensor: Tensor) -> Tensor {
        match self.split {
            Some(_) => tensor.reshape(self.whole),
            None => tensor,
        }
    }
}
