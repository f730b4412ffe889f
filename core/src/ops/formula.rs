//! Functions that are written with others and know their own derivative.

use super::promotion::{cast, float_of};
use crate::hal::DType;
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, composite, composite_with_gradient};
use std::hash::Hash;

/// The dtype that formulas on `dtype` are computed in: f32 for narrower floats, so that they round once, and for integers.
pub(crate) fn widened(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        DType::F32
        | DType::F16
        | DType::BF16
        | DType::I64
        | DType::I32
        | DType::I16
        | DType::I8
        | DType::U64
        | DType::U32
        | DType::U16
        | DType::U8
        | DType::Bool => DType::F32,
    }
}

/// A real function of every element, computed in f64 or f32; `slope(x, y)` is its derivative at x, where it is y.
///
/// The derivative is not left to the primitives because it is wrong or inexact where a formula has a branch, an `abs` or a
/// cancellation.
pub(crate) fn formula<A>(
    name: &'static str,
    attributes: A,
    x: &Tensor,
    tag: OpTag,
    value: impl Fn(&Tensor) -> Tensor,
    slope: impl Fn(&Tensor, &Tensor) -> Tensor + Clone + Send + Sync + 'static,
) -> Tensor
where
    A: Hash + Eq + Clone + Send + Sync + 'static,
{
    let kept = attributes.clone();
    composite_with_gradient(
        name,
        &attributes,
        [x],
        tag,
        |[x]| {
            let Ok(dtype) = x.dtype() else { return x.clone() };
            let result = value(&cast(x, widened(dtype), tag));
            cast(&result, float_of(dtype), tag)
        },
        move |[x], y, gradient| {
            let slope = &slope;
            let product = composite(
                "slope",
                &(name, kept.clone()),
                [x, y, gradient],
                tag,
                |[x, y, gradient]| {
                    let Ok(dtype) = x.dtype() else { return x.clone() };
                    let wide = |tensor: &Tensor| cast(tensor, widened(dtype), tag);
                    cast(&(wide(gradient) * slope(&wide(x), &wide(y))), dtype, tag)
                },
            );
            [Some(product)]
        },
    )
}
