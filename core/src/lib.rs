//! One binary, hardware picked when it runs.

pub mod loader;
