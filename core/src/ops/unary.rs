//! Functions of one number that devices have themselves.

use super::promotion::{cast, float_of};
use crate::composite::composite;
use crate::graph::Op;
use crate::hal::DType;
use crate::hal::ir::ScalarOp;
use crate::ops::precision::{self, Class};
use crate::ops::registry::NamedOp;
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};

/// `op` on every element of a tensor of a dtype that it takes.
fn primitive(x: &Tensor, op: ScalarOp, tag: OpTag) -> Tensor {
    let held = precision::adjusted(Class::of(op.mixed()), tag, [x]);
    let [x] = held.operands([x]);
    apply(Op::Map(op), &[x], tag)
}

/// `op` on every element; integers become f32.
pub(crate) fn real(x: &Tensor, op: ScalarOp, tag: OpTag) -> Tensor {
    let held = precision::adjusted(Class::of(op.mixed()), tag, [x]);
    let [x] = held.operands([x]);
    match x.dtype() {
        Ok(dtype) if !dtype.is_float() => composite("real", &op, [x], tag, |[x]| {
            primitive(&cast(x, float_of(dtype), tag), op, tag)
        }),
        _ => primitive(x, op, tag),
    }
}

/// `op` on floats; integers and truth values stay as they are.
fn rounding(x: &Tensor, op: ScalarOp, tag: OpTag) -> Tensor {
    let held = precision::adjusted(Class::of(op.mixed()), tag, [x]);
    let [x] = held.operands([x]);
    match x.dtype() {
        Ok(dtype) if !dtype.is_float() => x.clone(),
        _ => primitive(x, op, tag),
    }
}

/// Methods that are scalar ops: comment, name, how integers are taken, op, and an example of two numbers that the
/// documentation shows and tests. They are rows of the registry too.
macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident = $how:ident $op:ident, [$a:expr, $b:expr] => [$c:expr, $d:expr];)*) => {
        impl Tensor { $(
            $(#[$doc])*
            ///
            /// ```
            /// # use thalweg::{Context, Tensor};
            /// # let cx = Context::new("cpu")?;
            #[doc = concat!("let x = Tensor::from_slice(&[", stringify!($a), "_f32, ", stringify!($b), "], [2], &cx);")]
            #[doc = concat!("assert_eq!(x.", stringify!($name), "().to_vec::<f32>()?, [", stringify!($c), ", ", stringify!($d), "]);")]
            /// # Ok::<(), thalweg::Error>(())
            /// ```
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                $how(self, ScalarOp::$op, OpTag::new(stringify!($name)))
            }
        )* }

        pub(super) const ROWS: &[NamedOp] = &[$(
            NamedOp::unary(stringify!($name), ScalarOp::$op.mixed(), Tensor::$name),
        )*];
    };
}

unary! {
    /// `-x`. Integers wrap; bool is refused (use [`logical_not`](Tensor::logical_not)).
    neg = primitive Neg, [1.0, -2.0] => [-1.0, 2.0];
    /// `|x|`. The least signed integer stays itself.
    abs = primitive Abs, [1.0, -2.0] => [1.0, 2.0];
    /// -1, 0 or 1 with the sign of x; NaN stays NaN, a signed zero itself.
    sign = primitive Sign, [-3.0, 2.0] => [-1.0, 1.0];
    /// The greatest integral value not above x. Integers stay as they are.
    floor = rounding Floor, [-1.5, 1.5] => [-2.0, 1.0];
    /// The least integral value not below x. Integers stay as they are.
    ceil = rounding Ceil, [-1.5, 1.5] => [-1.0, 2.0];
    /// The integral part. Integers stay as they are.
    trunc = rounding Trunc, [-1.5, 1.5] => [-1.0, 1.0];
    /// The nearest integral value, ties to even. Integers stay as they are.
    round = rounding Round, [0.5, 2.6] => [0.0, 3.0];
    /// Square root, correctly rounded; NaN below 0. Integers become f32.
    sqrt = real Sqrt, [1.0, 4.0] => [1.0, 2.0];
    /// e^x. Integers become f32.
    exp = real Exp, [0.0, -200.0] => [1.0, 0.0];
    /// e^x - 1, exact to the last digits near 0. Integers become f32.
    expm1 = real Expm1, [0.0, 1e-10] => [0.0, 1e-10];
    /// Natural logarithm; -inf at 0, NaN below. Integers become f32.
    log = real Log, [1.0, 0.0] => [0.0, f32::NEG_INFINITY];
    /// ln(1 + x), exact to the last digits near 0; -inf at -1, NaN below. Integers become f32.
    log1p = real Log1p, [0.0, 1e-10] => [0.0, 1e-10];
    /// Sine of radians. Integers become f32.
    sin = real Sin, [0.0, 1e-10] => [0.0, 1e-10];
    /// Cosine of radians. Integers become f32.
    cos = real Cos, [0.0, 1e-10] => [1.0, 1.0];
    /// Hyperbolic tangent. Integers become f32.
    tanh = real Tanh, [0.0, 20.0] => [0.0, 1.0];
    /// Error function. Integers become f32.
    erf = real Erf, [0.0, 9.0] => [0.0, 1.0];
    /// Cube root, of negative numbers too. Integers become f32.
    cbrt = real Cbrt, [8.0, -27.0] => [2.0, -3.0];
}

impl Tensor {
    /// Bitwise complement of integers, logical of bool.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0_u8, 15], [2], &cx);
    /// assert_eq!(x.bitwise_not().to_vec::<u8>()?, [255, 240]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn bitwise_not(&self) -> Tensor {
        primitive(self, ScalarOp::Not, OpTag::new("bitwise_not"))
    }

    /// Whether an element is zero, as bool.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32, 2.0], [2], &cx);
    /// assert_eq!(x.logical_not().to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn logical_not(&self) -> Tensor {
        let tag = OpTag::new("logical_not");
        match self.dtype() {
            Ok(DType::Bool) => primitive(self, ScalarOp::Not, tag),
            _ => tag.scope(|| self.eq(0)),
        }
    }
}
