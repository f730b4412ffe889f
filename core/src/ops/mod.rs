//! What users call on tensors.
//!
//! Names, dtypes and edge cases are PyTorch's; where NumPy differs, the op says so. Ops of two or more tensors broadcast as
//! in NumPy and bring them to one dtype ([`promote`]). An op of several primitives runs as one fused kernel where it can.

mod activation;
mod axes;
mod binary;
mod bits;
mod checked;
mod compare;
mod convert;
mod create;
mod formula;
mod index;
mod join;
mod key;
mod linalg;
mod masked;
mod nn;
mod operand;
mod operators;
mod pad;
mod pointwise;
mod power;
pub(crate) mod precision;
mod promotion;
mod quantize;
mod reduce;
mod registry;
mod scan;
mod shape;
mod slice;
mod sort;
mod special;
mod statistics;
mod trigonometry;
mod unary;

#[cfg(test)]
mod tests;

pub use axes::IntoAxes;
pub use key::Key;
pub use nn::{
    AttentionOptions, BatchNorm, ClassLossOptions, ConvOptions, ConvTransposeOptions, FoldOptions,
    InterpolateOptions, Interpolation, Padding, PerAxis, PoolOptions, Reduction,
};
pub use operand::{IntoOperand, Operand, Scalar};
pub use pad::PadMode;
pub use promotion::promote;
pub use registry::NamedOp;
pub use shape::IntoExtents;
pub use slice::{At, ELLIPSIS, IntoIndex, NEW_AXIS, step};

pub(crate) use crate::types::float_bits;
pub(crate) use axes::{axis_in, axis_of};
pub(crate) use promotion::{broadcast, brought, cast, elementwise, expanded, float_of};
