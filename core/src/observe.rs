//! See what runs: recordings of kernels, ops and memory, with true device times.

pub use crate::record::recording;
