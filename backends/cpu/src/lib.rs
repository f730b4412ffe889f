//! backends/cpu
pub mod library;
