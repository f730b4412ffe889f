//! Arithmetic on pairs.

use super::operand::{IntoOperand, Operand, Scalar};
use super::precision::{Class, adjusted_operands};
use super::promotion::{float_of, map, unchanged};
use crate::exec::again_pair;
use crate::hal::DType;
use crate::hal::ir::ScalarOp;
use crate::tensor::failure::Refusal;
use crate::tensor::tag::OpTag;
use crate::tensor::{Repr, Tensor};

/// A sum, difference or product. Truth values add with `or` and multiply with `and`.
pub(crate) fn arithmetic(op: ScalarOp, a: Operand<'_>, b: Operand<'_>, tag: OpTag) -> Tensor {
    let [a, b] = adjusted_operands(Class::Other, tag, [a, b]);
    // What ran before for operands of these types needs no other dtype or shape, and is not of truth values.
    let result = match (a.tensor(), b.tensor()) {
        (Some(x), Some(y)) => again_pair(op, [x, y], tag),
        (Some(x), None) => beside(x, &b).and_then(|y| again_pair(op, [x, &y], tag)),
        (None, Some(y)) => beside(y, &a).and_then(|x| again_pair(op, [&x, y], tag)),
        (None, None) => None,
    };
    match result {
        Some(result) => result,
        None => plain(op, a, b, tag),
    }
}

/// A number that meets floats in a buffer: it takes their dtype and shape.
#[inline]
fn beside(tensor: &Tensor, number: &Operand<'_>) -> Option<Tensor> {
    match (&tensor.repr, number) {
        (Repr::Value(value), Operand::Scalar(scalar)) if value.dtype.is_float() => Some(Tensor::constant(
            value.layout.shape,
            value.dtype,
            scalar.bits(value.dtype).ok()?,
        )),
        _ => None,
    }
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
    map(ScalarOp::Div, [a, b], |dtype| Ok(float_of(dtype)), tag)
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
        map(
            ScalarOp::Max,
            [self.into_operand(), other.into_operand()],
            unchanged,
            tag,
        )
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
        map(
            ScalarOp::Min,
            [self.into_operand(), other.into_operand()],
            unchanged,
            tag,
        )
    }
}
