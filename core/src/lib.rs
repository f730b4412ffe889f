//! One binary, hardware picked when it runs.

pub mod host;
pub mod loader;
pub mod parallel;
