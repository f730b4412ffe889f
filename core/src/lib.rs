//! One binary, hardware picked when it runs.

pub mod error;
pub mod hal;
pub mod host;
pub mod loader;
pub mod parallel;
pub mod random;

pub use error::{Error, Result};
pub use hal::{DType, Device, Event, Stream, Target};

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
