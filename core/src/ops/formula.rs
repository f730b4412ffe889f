//! Functions that are written with others and know their own derivative.

use super::operand::{Operand, Scalar};
use super::promotion::{brought, cast, elementwise, float_of, join};
use crate::composite::{composite, composite_with_gradient};
use crate::graph::Type;
use crate::hal::DType;
use crate::hal::ir::Mixed;
use crate::ops::precision::{self, Class};
use crate::tensor::Tensor;
use crate::tensor::tag::OpTag;
use std::hash::Hash;

/// The dtype that formulas on `dtype` are computed in: f32 for narrower floats, so that they round once, and for integers. Dtypes for
/// storage stay, so that their ops refuse them.
pub(crate) fn widened(dtype: DType) -> DType {
    if dtype.is_storage() || dtype == DType::F64 {
        dtype
    } else {
        DType::F32
    }
}

/// A real function of every element, computed in f64 or f32; `slope(x, y)` is its derivative at x, where it is y.
///
/// The derivative is not left to the primitives because it is wrong or inexact where a formula has a branch, an `abs` or a
/// cancellation.
pub(crate) fn formula<A>(
    name: &'static str,
    mixed: Mixed,
    attributes: A,
    x: &Tensor,
    tag: OpTag,
    value: impl Fn(&Tensor) -> Tensor,
    slope: impl Fn(&Tensor, &Tensor) -> Tensor + Clone + Send + Sync + 'static,
) -> Tensor
where
    A: Hash + Eq + Clone + Send + Sync + 'static,
{
    let held = precision::adjusted(Class::of(mixed), tag, [x]);
    let [x] = held.operands([x]);
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

/// A real function of two numbers, computed in f64 or f32; `slopes` are its derivatives by both, from both and the value.
pub(crate) fn formula2(
    name: &'static str,
    mixed: Mixed,
    a: Operand<'_>,
    b: Operand<'_>,
    tag: OpTag,
    value: impl Fn(&Tensor, &Tensor) -> Tensor,
    slopes: impl Fn(&Tensor, &Tensor, &Tensor) -> [Tensor; 2] + Clone + Send + Sync + 'static,
) -> Tensor {
    let operands = precision::adjusted_operands(Class::of(mixed), tag, [a, b]);
    let ty = match join(&operands) {
        Ok(ty) => Type::new(ty.shape, float_of(ty.dtype)),
        Err(stop) => return stop.tensor(tag, &operands),
    };
    let wide = move |tensor: &Tensor| cast(tensor, widened(ty.dtype), tag);
    let body = |a: &Tensor, b: &Tensor| cast(&value(&wide(a), &wide(b)), ty.dtype, tag);
    let recorded = |operand: &Operand<'_>| operand.tensor().is_some_and(|tensor| tensor.history.is_some());
    if !operands.iter().any(recorded) {
        let choose = |dtype| Ok(float_of(dtype));
        return elementwise(name, mixed, (), operands, choose, tag, |[a, b]| body(a, b));
    }
    let (a, b) = match (brought(&operands[0], ty, tag), brought(&operands[1], ty, tag)) {
        (Ok(a), Ok(b)) => (a.into_owned(), b.into_owned()),
        (Err(stop), _) | (_, Err(stop)) => return stop.tensor(tag, &operands),
    };
    let rule = move |[a, b]: &[Tensor; 2], y: &Tensor, gradient: &Tensor| {
        [0, 1].map(|which| {
            let inputs = [a, b, y, gradient];
            Some(composite(
                "slope",
                &(name, which),
                inputs,
                tag,
                |[a, b, y, gradient]| {
                    let slope = &slopes(&wide(a), &wide(b), &wide(y))[which];
                    cast(&(wide(gradient) * slope), ty.dtype, tag)
                },
            ))
        })
    };
    composite_with_gradient(name, &ty.dtype, [&a, &b], tag, |[a, b]| body(a, b), rule)
}

/// A number with shape and dtype of a tensor, in no buffer.
pub(crate) fn like(x: &Tensor, value: f64) -> Tensor {
    match x.ty() {
        Ok(ty) => Tensor::constant(ty.shape, ty.dtype, Scalar::Float(value).cast_bits(ty.dtype)),
        Err(_) => x.clone(),
    }
}

/// Methods that are formulas without parameters: name, what mixed precision does with it, value at x, slope at x where the
/// value is y. They are rows of the registry too.
macro_rules! formulas {
    ($($(#[$doc:meta])* $name:ident: $mixed:ident = $value:expr, $slope:expr;)*) => {
        impl Tensor { $(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                // Pointers, so that `formula` is compiled once for all rows.
                const VALUE: fn(&Tensor) -> Tensor = $value;
                const SLOPE: fn(&Tensor, &Tensor) -> Tensor = $slope;
                let mixed = crate::hal::ir::Mixed::$mixed;
                formula(stringify!($name), mixed, (), self, OpTag::new(stringify!($name)), VALUE, SLOPE)
            }
        )* }

        pub(super) const ROWS: &[crate::ops::registry::NamedOp] = &[$(
            crate::ops::registry::NamedOp::unary(stringify!($name), crate::hal::ir::Mixed::$mixed, Tensor::$name),
        )*];
    };
}

pub(crate) use formulas;
