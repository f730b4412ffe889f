//! The contract between thalweg and its backends.

pub mod dtype;
pub mod ir;
pub mod manifest;
pub mod narrow;
pub mod status;

pub use dtype::DType;
pub use status::{Error, Result, Status, Str};
