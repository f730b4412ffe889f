//! Comparisons and choices.

use super::operand::{IntoOperand, Operand};
use super::promotion::{Stop, broadcast, brought, compared, expanded, join, map};
use crate::graph::{Op, Type};
use crate::hal::ir::ScalarOp;
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};

fn compare(op: ScalarOp, a: Operand<'_>, b: Operand<'_>, tag: OpTag) -> Tensor {
    map(op, [a, b], compared, tag)
}

impl Tensor {
    /// `self == other`, element by element, as bool. NaN equals nothing.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0], [3], &cx);
    /// assert_eq!(x.eq(2).to_vec::<bool>()?, [false, true, false]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn eq<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        compare(
            ScalarOp::Eq,
            self.into_operand(),
            other.into_operand(),
            OpTag::new("eq"),
        )
    }

    /// `self != other`, element by element, as bool. NaN differs from everything.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0], [3], &cx);
    /// assert_eq!(x.ne(2).to_vec::<bool>()?, [true, false, true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn ne<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        compare(
            ScalarOp::Ne,
            self.into_operand(),
            other.into_operand(),
            OpTag::new("ne"),
        )
    }

    /// `self < other`, element by element, as bool; false with NaN.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0], [3], &cx);
    /// assert_eq!(x.lt(2).to_vec::<bool>()?, [true, false, false]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn lt<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        compare(
            ScalarOp::Lt,
            self.into_operand(),
            other.into_operand(),
            OpTag::new("lt"),
        )
    }

    /// `self <= other`, element by element, as bool; false with NaN.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0], [3], &cx);
    /// assert_eq!(x.le(2).to_vec::<bool>()?, [true, true, false]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn le<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        compare(
            ScalarOp::Le,
            self.into_operand(),
            other.into_operand(),
            OpTag::new("le"),
        )
    }

    /// `self > other`, element by element, as bool; false with NaN.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0], [3], &cx);
    /// assert_eq!(x.gt(2).to_vec::<bool>()?, [false, false, true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn gt<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        compare(
            ScalarOp::Lt,
            other.into_operand(),
            self.into_operand(),
            OpTag::new("gt"),
        )
    }

    /// `self >= other`, element by element, as bool; false with NaN.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0], [3], &cx);
    /// assert_eq!(x.ge(2).to_vec::<bool>()?, [false, true, true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn ge<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        compare(
            ScalarOp::Le,
            other.into_operand(),
            self.into_operand(),
            OpTag::new("ge"),
        )
    }

    /// `yes` where the element of `self` (bool) is true, else `no`: NumPy's and PyTorch's `where`. The three broadcast;
    /// the dtype is the common one of `yes` and `no`.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[-1.0_f32, 2.0], [2], &cx);
    /// assert_eq!(x.gt(0).where_cond(&x, 0).to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn where_cond<'a, 'b>(&self, yes: impl IntoOperand<'a>, no: impl IntoOperand<'b>) -> Tensor {
        select(
            self,
            yes.into_operand(),
            no.into_operand(),
            OpTag::new("where_cond"),
        )
    }
}

/// [`Tensor::where_cond`] under another name.
pub(crate) fn select(condition: &Tensor, yes: Operand<'_>, no: Operand<'_>, tag: OpTag) -> Tensor {
    let values = [yes, no];
    let (ty, shape) = match (join(&values), condition.ty()) {
        (Ok(ty), Ok(known)) => match broadcast(&[known.shape, ty.shape]) {
            Ok(shape) => (Type::new(shape, ty.dtype), shape),
            Err(refusal) => return Stop::Refused(refusal).tensor(tag, &[Operand::Borrowed(condition)]),
        },
        (_, Err(_)) => return condition.clone(),
        (Err(stop), _) => return stop.tensor(tag, &values),
    };
    let [yes, no] = values;
    let (yes, no) = match (brought(&yes, ty, tag), brought(&no, ty, tag)) {
        (Ok(yes), Ok(no)) => (yes.into_owned(), no.into_owned()),
        (Err(stop), _) | (_, Err(stop)) => return stop.tensor(tag, &[Operand::Borrowed(condition)]),
    };
    apply(
        Op::Map(ScalarOp::Select),
        &[&expanded(condition, shape, tag), &yes, &no],
        tag,
    )
}
