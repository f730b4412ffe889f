//! What tensors are made of, before there is a tensor: elements, numbers of formulas, extents, and where elements lie.

pub mod element;
pub mod layout;
mod scalar;
pub mod shape;
pub(crate) mod text;

pub use scalar::Scalar;
pub(crate) use scalar::float_bits;
