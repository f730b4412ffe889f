//! The CPU backend.

pub mod exec;
pub mod isa;
pub mod library;
mod loops;
mod math;
pub mod parallel;
