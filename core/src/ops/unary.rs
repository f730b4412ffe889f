//! Functions of one number that devices have themselves.

use super::promotion::{cast, float_of};
use crate::graph::Op;
use crate::hal::DType;
use crate::hal::ir::ScalarOp;
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply, composite};

/// `op` on every element of a tensor of a dtype that it takes.
fn primitive(x: &Tensor, op: ScalarOp, tag: OpTag) -> Tensor {
    apply(Op::Map(op), &[x], tag)
}

/// `op` on every element; integers become f32.
pub(crate) fn real(x: &Tensor, op: ScalarOp, tag: OpTag) -> Tensor {
    match x.dtype() {
        Ok(dtype) if !dtype.is_float() => composite("real", &op, [x], tag, |[x]| {
            primitive(&cast(x, float_of(dtype), tag), op, tag)
        }),
        _ => primitive(x, op, tag),
    }
}

/// `op` on floats; integers and truth values stay as they are.
fn rounding(x: &Tensor, op: ScalarOp, tag: OpTag) -> Tensor {
    match x.dtype() {
        Ok(dtype) if !dtype.is_float() => x.clone(),
        _ => primitive(x, op, tag),
    }
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident = $how:ident $op:ident;)*) => {
        impl Tensor { $(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                $how(self, ScalarOp::$op, OpTag::new(stringify!($name)))
            }
        )* }
    };
}

unary! {
    /// `-x`. Integers wrap; bool is refused (use [`logical_not`](Tensor::logical_not)).
    neg = primitive Neg;
    /// `|x|`. The least signed integer stays itself.
    abs = primitive Abs;
    /// -1, 0 or 1 with the sign of x; NaN stays NaN, a signed zero itself.
    sign = primitive Sign;
    /// The greatest integral value not above x. Integers stay as they are.
    floor = rounding Floor;
    /// The least integral value not below x. Integers stay as they are.
    ceil = rounding Ceil;
    /// The integral part. Integers stay as they are.
    trunc = rounding Trunc;
    /// The nearest integral value, ties to even. Integers stay as they are.
    round = rounding Round;
    /// Square root, correctly rounded; NaN below 0. Integers become f32.
    sqrt = real Sqrt;
    /// e^x. Integers become f32.
    exp = real Exp;
    /// e^x - 1, exact to the last digits near 0. Integers become f32.
    expm1 = real Expm1;
    /// Natural logarithm; -inf at 0, NaN below. Integers become f32.
    log = real Log;
    /// ln(1 + x), exact to the last digits near 0; -inf at -1, NaN below. Integers become f32.
    log1p = real Log1p;
    /// Sine of radians. Integers become f32.
    sin = real Sin;
    /// Cosine of radians. Integers become f32.
    cos = real Cos;
    /// Hyperbolic tangent. Integers become f32.
    tanh = real Tanh;
    /// Error function. Integers become f32.
    erf = real Erf;
}

impl Tensor {
    /// Bitwise complement of integers, logical of bool.
    #[track_caller]
    pub fn bitwise_not(&self) -> Tensor {
        primitive(self, ScalarOp::Not, OpTag::new("bitwise_not"))
    }

    /// Whether an element is zero, as bool.
    #[track_caller]
    pub fn logical_not(&self) -> Tensor {
        let tag = OpTag::new("logical_not");
        match self.dtype() {
            Ok(DType::Bool) => primitive(self, ScalarOp::Not, tag),
            _ => tag.scope(|| self.eq(0)),
        }
    }
}
