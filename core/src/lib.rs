//! One binary, hardware picked when it runs.

pub mod host;
pub mod error;
pub mod loader;
pub mod parallel;

pub use error::{Error, Result};
