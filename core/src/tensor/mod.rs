//! Tensors.
//!
//! An op on tensors never panics and returns a tensor, not a `Result`: a wrong one yields a tensor that carries the first
//! error, later ops pass it on, and whatever reads a value or a shape returns it as `Err`. So formulas read like formulas.

mod apply;
mod bytes;
mod create;
mod host;
mod print;
mod read;

pub use crate::error::{failure, tag};
pub use crate::types::{element, layout, shape};
pub use crate::value::Tensor;

pub(crate) use crate::error::tag::hal_tag;
pub(crate) use crate::value::{Constant, Repr, Shared, Storage, Value, lazy};
pub(crate) use apply::{apply, apply_in, common_context, index_like, join};
