//! The reference backend: the living definition of the kernel IR, slow and obvious.

pub mod interpret;
pub mod scalar;
