//! Arithmetic on pairs.

use super::operand::{IntoOperand, Operand, Scalar};
use super::precision::{Class, adjusted_operands, is_active};
use super::promotion::{float_of, map, unchanged};
use crate::exec::again_pair;
use crate::hal::DType;
use crate::hal::ir::ScalarOp;
use crate::tensor::failure::Refusal;
use crate::tensor::tag::OpTag;
use crate::tensor::{Repr, Tensor};

/// An op on a pair: as it ran before, or `otherwise`.
#[inline]
fn pair(
    op: ScalarOp,
    a: Operand<'_>,
    b: Operand<'_>,
    tag: OpTag,
    otherwise: impl Fn(Operand<'_>, Operand<'_>) -> Tensor,
) -> Tensor {
    if is_active() {
        let [a, b] = adjusted_operands(Class::of(op.mixed()), tag, [a, b]);
        return known(op, &a, &b, tag, &|| otherwise(a.clone(), b.clone()));
    }
    known(op, &a, &b, tag, &|| otherwise(a.clone(), b.clone()))
}

/// The result of an op that ran before for operands of these types: they need no other dtype or shape then, and are no truth
/// values. Integers have a quotient of another kind, which is not meant here.
fn known(
    op: ScalarOp,
    a: &Operand<'_>,
    b: &Operand<'_>,
    tag: OpTag,
    otherwise: &dyn Fn() -> Tensor,
) -> Tensor {
    let (tensor, number) = match (a.tensor(), b.tensor()) {
        (Some(x), Some(y)) if op != ScalarOp::Div || is_float(x) && is_float(y) => {
            return again_pair(op, [x, y], tag, otherwise);
        }
        (Some(x), None) => (x, b),
        (None, Some(y)) => (y, a),
        _ => return otherwise(),
    };
    // A number that meets floats in a buffer takes their dtype and shape.
    let (Repr::Value(value), Operand::Scalar(scalar)) = (&tensor.repr, number) else {
        return otherwise();
    };
    match scalar.bits(value.dtype) {
        Ok(bits) if value.dtype.is_float() => {
            let number = Tensor::constant(value.layout.shape, value.dtype, bits);
            let pair = match b {
                Operand::Scalar(_) => [tensor, &number],
                Operand::Borrowed(_) | Operand::Owned(_) => [&number, tensor],
            };
            again_pair(op, pair, tag, otherwise)
        }
        _ => otherwise(),
    }
}

fn is_float(tensor: &Tensor) -> bool {
    match &tensor.repr {
        Repr::Value(value) => value.dtype.is_float(),
        Repr::Constant(constant) => constant.ty.dtype.is_float(),
        Repr::Lazy(_) | Repr::Failed(_) => false,
    }
}

/// A sum, difference or product. Truth values add with `or` and multiply with `and`.
pub(crate) fn arithmetic(op: ScalarOp, a: Operand<'_>, b: Operand<'_>, tag: OpTag) -> Tensor {
    pair(op, a, b, tag, |a, b| plain(op, a, b, tag))
}

fn plain(op: ScalarOp, a: Operand<'_>, b: Operand<'_>, tag: OpTag) -> Tensor {
    let truth = |operand: &Operand<'_>| match operand.tensor() {
        Some(tensor) => tensor.ty().is_ok_and(|ty| ty.dtype == DType::Bool),
        None => matches!(operand, Operand::Scalar(Scalar::Bool(_))),
    };
    let boolean = truth(&a) && truth(&b);
    match op {
        ScalarOp::Add if boolean => map(ScalarOp::Or, [a, b], unchanged, tag),
        ScalarOp::Mul if boolean => map(ScalarOp::And, [a, b], unchanged, tag),
        ScalarOp::Sub => map(op, [a, b], refuse_bool, tag),
        _ => map(op, [a, b], unchanged, tag),
    }
}

fn refuse_bool(dtype: DType) -> Result<DType, Refusal> {
    match dtype {
        DType::Bool => {
            Err(Refusal::new("bool has no difference").help("use `logical_xor`, or cast to an integer"))
        }
        _ => Ok(dtype),
    }
}

/// True division.
pub(crate) fn divide(a: Operand<'_>, b: Operand<'_>, tag: OpTag) -> Tensor {
    pair(ScalarOp::Div, a, b, tag, |a, b| {
        map(ScalarOp::Div, [a, b], |dtype| Ok(float_of(dtype)), tag)
    })
}

/// The greater or the lesser.
fn extreme(op: ScalarOp, a: Operand<'_>, b: Operand<'_>, tag: OpTag) -> Tensor {
    pair(op, a, b, tag, |a, b| map(op, [a, b], unchanged, tag))
}

impl Tensor {
    /// `self + other`. Integers wrap; for bool it is `or`.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0], [2], &cx);
    /// assert_eq!(x.add(1).to_vec::<f32>()?, [2.0, 3.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn add<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        arithmetic(
            ScalarOp::Add,
            self.into_operand(),
            other.into_operand(),
            OpTag::new("add"),
        )
    }

    /// `self - other`. Integers wrap; bool is refused.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0], [2], &cx);
    /// assert_eq!(x.sub(1).to_vec::<f32>()?, [0.0, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn sub<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        arithmetic(
            ScalarOp::Sub,
            self.into_operand(),
            other.into_operand(),
            OpTag::new("sub"),
        )
    }

    /// `self * other`. Integers wrap; for bool it is `and`.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0], [2], &cx);
    /// assert_eq!(x.mul(2).to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn mul<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        arithmetic(
            ScalarOp::Mul,
            self.into_operand(),
            other.into_operand(),
            OpTag::new("mul"),
        )
    }

    /// `self / other`, the real quotient: integers become f32.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0], [2], &cx);
    /// assert_eq!(x.div(2).to_vec::<f32>()?, [0.5, 1.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn div<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        divide(self.into_operand(), other.into_operand(), OpTag::new("div"))
    }

    /// The greater of each pair; NaN if either is NaN.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[-1.0_f32, 2.0], [2], &cx);
    /// assert_eq!(x.maximum(0).to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn maximum<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        let tag = OpTag::new("maximum");
        extreme(ScalarOp::Max, self.into_operand(), other.into_operand(), tag)
    }

    /// The lesser of each pair; NaN if either is NaN.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[-1.0_f32, 2.0], [2], &cx);
    /// assert_eq!(x.minimum(0).to_vec::<f32>()?, [-1.0, 0.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn minimum<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        let tag = OpTag::new("minimum");
        extreme(ScalarOp::Min, self.into_operand(), other.into_operand(), tag)
    }
}
