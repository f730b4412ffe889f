//! Functions of one number that devices have themselves.

use super::promotion::{cast, float_of};
use crate::composite::composite;
use crate::graph::Op;
use crate::hal::DType;
use crate::hal::ir::ScalarOp;
use crate::ops::precision::{self, Class};
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};

const fn class(op: ScalarOp) -> Class {
    match op {
        ScalarOp::Exp | ScalarOp::Expm1 | ScalarOp::Log | ScalarOp::Log1p => Class::Full,
        _ => Class::Other,
    }
}

/// `op` on every element of a tensor of a dtype that it takes.
fn primitive(x: &Tensor, op: ScalarOp, tag: OpTag) -> Tensor {
    let held = precision::adjusted(class(op), tag, [x]);
    let [x] = held.operands([x]);
    apply(Op::Map(op), &[x], tag)
}

/// `op` on every element; integers become f32.
pub(crate) fn real(x: &Tensor, op: ScalarOp, tag: OpTag) -> Tensor {
    let held = precision::adjusted(class(op), tag, [x]);
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
    let held = precision::adjusted(class(op), tag, [x]);
    let [x] = held.operands([x]);
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
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, -2.0], [2], &cx);
    /// assert_eq!(x.neg().to_vec::<f32>()?, [-1.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    neg = primitive Neg;
    /// `|x|`. The least signed integer stays itself.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, -2.0], [2], &cx);
    /// assert_eq!(x.abs().to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    abs = primitive Abs;
    /// -1, 0 or 1 with the sign of x; NaN stays NaN, a signed zero itself.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[-3.0_f32, 0.0, 2.0], [3], &cx);
    /// assert_eq!(x.sign().to_vec::<f32>()?, [-1.0, 0.0, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    sign = primitive Sign;
    /// The greatest integral value not above x. Integers stay as they are.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[-1.5_f32, 1.5], [2], &cx);
    /// assert_eq!(x.floor().to_vec::<f32>()?, [-2.0, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    floor = rounding Floor;
    /// The least integral value not below x. Integers stay as they are.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[-1.5_f32, 1.5], [2], &cx);
    /// assert_eq!(x.ceil().to_vec::<f32>()?, [-1.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ceil = rounding Ceil;
    /// The integral part. Integers stay as they are.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[-1.5_f32, 1.5], [2], &cx);
    /// assert_eq!(x.trunc().to_vec::<f32>()?, [-1.0, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    trunc = rounding Trunc;
    /// The nearest integral value, ties to even. Integers stay as they are.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.5_f32, 1.5, 2.6], [3], &cx);
    /// assert_eq!(x.round().to_vec::<f32>()?, [0.0, 2.0, 3.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    round = rounding Round;
    /// Square root, correctly rounded; NaN below 0. Integers become f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 4.0], [2], &cx);
    /// assert_eq!(x.sqrt().to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    sqrt = real Sqrt;
    /// e^x. Integers become f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32], [1], &cx);
    /// assert_eq!(x.exp().to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    exp = real Exp;
    /// e^x - 1, exact to the last digits near 0. Integers become f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32, 1e-10], [2], &cx);
    /// assert_eq!(x.expm1().to_vec::<f32>()?, [0.0, 1e-10]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    expm1 = real Expm1;
    /// Natural logarithm; -inf at 0, NaN below. Integers become f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 0.0], [2], &cx);
    /// assert_eq!(x.log().to_vec::<f32>()?, [0.0, f32::NEG_INFINITY]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    log = real Log;
    /// ln(1 + x), exact to the last digits near 0; -inf at -1, NaN below. Integers become f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32, 1e-10], [2], &cx);
    /// assert_eq!(x.log1p().to_vec::<f32>()?, [0.0, 1e-10]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    log1p = real Log1p;
    /// Sine of radians. Integers become f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32], [1], &cx);
    /// assert_eq!(x.sin().to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    sin = real Sin;
    /// Cosine of radians. Integers become f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32], [1], &cx);
    /// assert_eq!(x.cos().to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    cos = real Cos;
    /// Hyperbolic tangent. Integers become f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32, 20.0], [2], &cx);
    /// assert_eq!(x.tanh().to_vec::<f32>()?, [0.0, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    tanh = real Tanh;
    /// Error function. Integers become f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0.0_f32, 9.0], [2], &cx);
    /// assert_eq!(x.erf().to_vec::<f32>()?, [0.0, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    erf = real Erf;
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
