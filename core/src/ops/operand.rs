//! What binary ops take: tensors and plain numbers.

use crate::tensor::Tensor;
pub use crate::types::Scalar;
use thalweg_hal::dtype::types;
use thalweg_hal::every_dtype;

macro_rules! scalars {
    ($($name:ident $type:ident $class:ident;)*) => { $( scalars!(@ types::$type); )* };
    (@ $type:ty) => {
        impl IntoOperand<'_> for $type {
            #[inline]
            fn into_operand(self) -> Operand<'static> { Operand::Scalar(self.into()) }
        }
    };
}

every_dtype!(scalars);

impl IntoOperand<'_> for usize {
    fn into_operand(self) -> Operand<'static> {
        Operand::Scalar(self.into())
    }
}

/// One side of a binary op.
#[derive(Clone)]
#[non_exhaustive]
pub enum Operand<'a> {
    /// A tensor.
    Borrowed(&'a Tensor),
    /// A tensor that nobody else needs.
    Owned(Tensor),
    /// A number.
    Scalar(Scalar),
}

/// What a binary op takes: `&Tensor`, `Tensor` and Rust's numbers and truth values.
pub trait IntoOperand<'a> {
    /// As one side of an op.
    fn into_operand(self) -> Operand<'a>;
}

impl<'a> IntoOperand<'a> for Operand<'a> {
    fn into_operand(self) -> Operand<'a> {
        self
    }
}

impl<'a> IntoOperand<'a> for &'a Tensor {
    #[inline]
    fn into_operand(self) -> Operand<'a> {
        Operand::Borrowed(self)
    }
}

impl IntoOperand<'_> for Tensor {
    #[inline]
    fn into_operand(self) -> Operand<'static> {
        Operand::Owned(self)
    }
}

impl IntoOperand<'_> for Scalar {
    fn into_operand(self) -> Operand<'static> {
        Operand::Scalar(self)
    }
}

impl Operand<'_> {
    /// The tensor, unless it is a number.
    #[inline]
    pub(crate) fn tensor(&self) -> Option<&Tensor> {
        match self {
            Operand::Borrowed(tensor) => Some(tensor),
            Operand::Owned(tensor) => Some(tensor),
            Operand::Scalar(_) => None,
        }
    }
}
