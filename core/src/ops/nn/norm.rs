//! Normalization layers.

use crate::graph::Type;
use crate::hal::DType;
use crate::ops::checked::{checked, composite_of, wide};
use crate::ops::precision::{self, Class};
use crate::ops::{cast, float_of};
use crate::tensor::Tensor;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::{IntoShape, Shape};
use crate::tensor::tag::OpTag;
use smallvec::SmallVec;

type AxisList = SmallVec<[i32; 8]>;

impl Tensor {
    /// `(x - mean) / sqrt(var + eps) · weight + bias` over the last axes, whose extents are `normalized`; `weight` and `bias`
    /// have that shape. The variance is that of the elements (divided by their number), computed from the centred values.
    /// Keeps shape and dtype; f16 and bf16 are computed in f32. Ba et al., Layer Normalization (2016).
    #[must_use]
    #[track_caller]
    pub fn layer_norm<'a>(
        &self,
        normalized: impl IntoShape,
        weight: impl Into<Option<&'a Tensor>>,
        bias: impl Into<Option<&'a Tensor>>,
        eps: f64,
    ) -> Tensor {
        let tag = OpTag::new("layer_norm");
        let held = precision::adjusted(Class::Full, tag, [self]);
        let [this] = held.operands([self]);
        let (weight, bias) = (weight.into(), bias.into());
        checked(tag, [this], [weight, bias], |[ty], [weight_ty, bias_ty]| {
            let (shape, axes) = trailing(ty, normalized.into_shape()?)?;
            for (what, given) in [("weight", weight_ty), ("bias", bias_ty)] {
                check_scale(what, given, &shape)?;
            }
            let dtype = float_of(ty.dtype);
            let key = (axes.len(), eps.to_bits());
            Ok(composite_of(
                "layer_norm",
                &key,
                [this],
                [weight, bias],
                tag,
                |[x], [weight, bias]| {
                    let out = standardized(&cast(x, wide(dtype), tag), &axes, eps);
                    affine(out, weight.cloned(), bias.cloned(), dtype, tag)
                },
            ))
        })
    }

    /// `x / sqrt(mean(x²) + eps) · weight` over the last axes, whose extents are `normalized`; `weight` has that shape.
    /// Dtypes as [`Tensor::layer_norm`]. Zhang and Sennrich, Root Mean Square Layer Normalization (2019).
    #[must_use]
    #[track_caller]
    pub fn rms_norm<'a>(
        &self,
        normalized: impl IntoShape,
        weight: impl Into<Option<&'a Tensor>>,
        eps: f64,
    ) -> Tensor {
        let tag = OpTag::new("rms_norm");
        let held = precision::adjusted(Class::Full, tag, [self]);
        let [this] = held.operands([self]);
        let weight = weight.into();
        checked(tag, [this], [weight], |[ty], [weight_ty]| {
            let (shape, axes) = trailing(ty, normalized.into_shape()?)?;
            check_scale("weight", weight_ty, &shape)?;
            let dtype = float_of(ty.dtype);
            let key = (axes.len(), eps.to_bits());
            Ok(composite_of(
                "rms_norm",
                &key,
                [this],
                [weight],
                tag,
                |[x], [weight]| {
                    let x = cast(x, wide(dtype), tag);
                    let scale = ((&x * &x).mean_keepdims(&*axes) + eps).rsqrt();
                    affine(x * scale, weight.cloned(), None, dtype, tag)
                },
            ))
        })
    }

    /// Layer norm over each of `groups` groups of channels and all of space: x `[n, c, space..]`, `weight` and `bias` `[c]`.
    /// Dtypes as [`Tensor::layer_norm`]. Wu and He, Group Normalization (2018).
    #[must_use]
    #[track_caller]
    pub fn group_norm<'a>(
        &self,
        groups: usize,
        weight: impl Into<Option<&'a Tensor>>,
        bias: impl Into<Option<&'a Tensor>>,
        eps: f64,
    ) -> Tensor {
        group_norm(
            self,
            "group_norm",
            Some(groups),
            [weight.into(), bias.into()],
            eps,
            OpTag::new("group_norm"),
        )
    }

    /// Norm over the space of each channel of each sample: x `[n, c, space..]`, `weight` and `bias` `[c]`. Dtypes as
    /// [`Tensor::layer_norm`]. Ulyanov et al., Instance Normalization (2016).
    #[must_use]
    #[track_caller]
    pub fn instance_norm<'a>(
        &self,
        weight: impl Into<Option<&'a Tensor>>,
        bias: impl Into<Option<&'a Tensor>>,
        eps: f64,
    ) -> Tensor {
        group_norm(
            self,
            "instance_norm",
            None,
            [weight.into(), bias.into()],
            eps,
            OpTag::new("instance_norm"),
        )
    }

    /// `x / (k + alpha·s)^beta`, `s` the mean of x² over `size` channels around, zeros beyond the ends: x `[n, c, space..]`.
    /// Krizhevsky et al., ImageNet Classification with Deep Convolutional Neural Networks (2012).
    #[must_use]
    #[track_caller]
    pub fn local_response_norm(&self, size: usize, alpha: f64, beta: f64, k: f64) -> Tensor {
        let tag = OpTag::new("local_response_norm");
        let held = precision::adjusted(Class::Full, tag, [self]);
        let [this] = held.operands([self]);
        checked(tag, [this], [], |[ty], []| {
            if ty.shape.len() < 2 || size == 0 {
                return Err(Refusal::new(format!("{size} channels of {}", ty.shape)));
            }
            let dtype = float_of(ty.dtype);
            let key = (size, alpha.to_bits(), beta.to_bits(), k.to_bits());
            Ok(composite_of(
                "local_response_norm",
                &key,
                [this],
                [],
                tag,
                |[x], []| {
                    let x = cast(x, wide(dtype), tag);
                    let squares = super::windows::padded(&(&x * &x), 1, size / 2, (size - 1) / 2, 0.0, tag);
                    let sums = super::windows::windows(&squares, 1, size, 1, 1, tag).sum_axes(-1);
                    let out = &x / (sums * (alpha / size as f64) + k).pow(beta);
                    cast(&out, dtype, tag)
                },
            ))
        })
    }
}

/// The last axes of `ty`, whose extents `shape` says.
fn trailing(ty: Type, shape: Shape) -> Result<(Shape, AxisList), Refusal> {
    let rank = ty.shape.len();
    if shape.is_empty() || !ty.shape.ends_with(&shape) {
        return Err(Refusal::new(format!(
            "normalized shape {shape} is not at the end of {}",
            ty.shape
        )));
    }
    Ok((
        shape,
        (rank - shape.len()..rank).map(|axis| axis as i32).collect(),
    ))
}

fn check_scale(what: &str, given: Option<Type>, shape: &[usize]) -> Result<(), Refusal> {
    match given {
        Some(given) if *given.shape != *shape => Err(Refusal::new(format!(
            "{what} has the shape {}, not {shape:?}",
            given.shape
        ))),
        _ => Ok(()),
    }
}

/// The elements less their mean, by their standard deviation.
fn standardized(x: &Tensor, axes: &[i32], eps: f64) -> Tensor {
    let centred = x - x.mean_keepdims(axes);
    let variance = (&centred * &centred).mean_keepdims(axes);
    centred * (variance + eps).rsqrt()
}

fn affine(x: Tensor, weight: Option<Tensor>, bias: Option<Tensor>, dtype: DType, tag: OpTag) -> Tensor {
    let scaled = match weight {
        Some(weight) => x * cast(&weight, wide(dtype), tag),
        None => x,
    };
    let moved = match bias {
        Some(bias) => scaled + cast(&bias, wide(dtype), tag),
        None => scaled,
    };
    cast(&moved, dtype, tag)
}

/// `groups` of `None` is one for each channel.
fn group_norm(
    x: &Tensor,
    name: &'static str,
    groups: Option<usize>,
    scales: [Option<&Tensor>; 2],
    eps: f64,
    tag: OpTag,
) -> Tensor {
    let held = precision::adjusted(Class::Full, tag, [x]);
    let [x] = held.operands([x]);
    checked(tag, [x], scales, |[ty], [weight_ty, bias_ty]| {
        let shape = ty.shape;
        if shape.len() < 2 {
            return Err(Refusal::new(format!(
                "{shape} has no channels; it is batch, channels, then space"
            )));
        }
        let channels = shape[1];
        let groups = groups.unwrap_or(channels);
        if groups == 0 || !channels.is_multiple_of(groups) {
            return Err(Refusal::new(format!("{channels} channels in {groups} groups")));
        }
        check_scale("weight", weight_ty, &[channels])?;
        check_scale("bias", bias_ty, &[channels])?;
        let dtype = float_of(ty.dtype);
        let space: usize = shape[2..].iter().product();
        let per_group = channels / groups;
        let grouped = Shape::checked(&[shape[0], groups, per_group, space])?;
        Ok(composite_of(
            name,
            &(groups, eps.to_bits()),
            [x],
            scales,
            tag,
            |[x], scales| {
                let x = cast(&x.reshape(grouped), wide(dtype), tag);
                let [weight, bias] =
                    scales.map(|scale| scale.map(|scale| scale.reshape([groups, per_group, 1])));
                affine(standardized(&x, &[2, 3], eps), weight, bias, dtype, tag).reshape(shape)
            },
        ))
    })
}
