//! Programs of a kernel by their variants, each built once.

mod once;

pub use once::{Once, Variants};
