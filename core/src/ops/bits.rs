//! Bits and truth values.

use super::operand::{IntoOperand, Operand};
use super::promotion::{elementwise, map, unchanged};
use crate::hal::DType;
use crate::hal::ir::{Mixed, ScalarOp};
use crate::tensor::Tensor;
use crate::tensor::tag::OpTag;

/// A bitwise op on integers, logical on bool.
pub(crate) fn bitwise(op: ScalarOp, a: Operand<'_>, b: Operand<'_>, tag: OpTag) -> Tensor {
    map(op, [a, b], unchanged, tag)
}

/// `op` on whether the elements are not zero.
fn logical(op: ScalarOp, a: &Tensor, b: Operand<'_>, tag: OpTag) -> Tensor {
    if matches!(a.dtype(), Ok(DType::Bool)) && b.tensor().is_none_or(|b| matches!(b.dtype(), Ok(DType::Bool)))
    {
        return map(op, [a.into_operand(), b], unchanged, tag);
    }
    elementwise(
        "logical",
        Mixed::Narrow,
        op,
        [a.into_operand(), b],
        unchanged,
        tag,
        |[a, b]| {
            map(
                op,
                [a.ne(0).into_operand(), b.ne(0).into_operand()],
                unchanged,
                tag,
            )
        },
    )
}

macro_rules! bits {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => {
        impl Tensor { $(
            $(#[$doc])*
            #[track_caller]
            pub fn $name<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
                bitwise(ScalarOp::$op, self.into_operand(), other.into_operand(), OpTag::new(stringify!($name)))
            }
        )* }
    };
}

bits! {
    /// Bitwise and of integers, logical of bool.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[3_u8, 12], [2], &cx);
    /// assert_eq!(x.bitwise_and(6).to_vec::<u8>()?, [2, 4]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    bitwise_and = And;
    /// Bitwise or of integers, logical of bool.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[2_u8, 3], [2], &cx);
    /// assert_eq!(x.bitwise_or(1).to_vec::<u8>()?, [3, 3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    bitwise_or = Or;
    /// Bitwise exclusive or of integers, logical of bool.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[2_u8, 3], [2], &cx);
    /// assert_eq!(x.bitwise_xor(1).to_vec::<u8>()?, [3, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    bitwise_xor = Xor;
    /// Integers shifted left; 0 when `other` is not below the width.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1_u8, 64], [2], &cx);
    /// assert_eq!(x.bitwise_left_shift(2).to_vec::<u8>()?, [4, 0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    bitwise_left_shift = Shl;
    /// Integers shifted right: signed ones keep their sign. Shifts by the width or more leave 0, or -1 of negative numbers.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[4_u8, 255], [2], &cx);
    /// assert_eq!(x.bitwise_right_shift(1).to_vec::<u8>()?, [2, 127]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    bitwise_right_shift = Shr;
}

impl Tensor {
    /// Whether both are not zero, as bool.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0_u8, 7], [2], &cx);
    /// assert_eq!(x.logical_and(1).to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn logical_and<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        logical(
            ScalarOp::And,
            self,
            other.into_operand(),
            OpTag::new("logical_and"),
        )
    }

    /// Whether one or both are not zero, as bool.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0_u8, 7], [2], &cx);
    /// assert_eq!(x.logical_or(1).to_vec::<bool>()?, [true, true]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn logical_or<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        logical(ScalarOp::Or, self, other.into_operand(), OpTag::new("logical_or"))
    }

    /// Whether exactly one is not zero, as bool.
    ///
    /// ```
    /// # use thalweg::{Context, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[0_u8, 7], [2], &cx);
    /// assert_eq!(x.logical_xor(1).to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn logical_xor<'a>(&self, other: impl IntoOperand<'a>) -> Tensor {
        logical(
            ScalarOp::Xor,
            self,
            other.into_operand(),
            OpTag::new("logical_xor"),
        )
    }
}
