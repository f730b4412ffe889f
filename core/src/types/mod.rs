//! What tensors are made of, before there is a tensor: elements, numbers of formulas, extents, and where elements lie.

pub(crate) mod call;
pub mod element;
pub mod layout;
pub(crate) mod numpy;
pub(crate) mod scalar;
pub mod shape;
pub(crate) mod statistics;
pub(crate) mod text;

pub use scalar::Scalar;
pub(crate) use scalar::float_bits;
