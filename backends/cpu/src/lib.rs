//! The CPU backend: one device, the cores that this process may use.
//!
//! The same code is embedded in programs and built as a plugin (`backends/cpu/plugin`). Work runs on the streams of
//! [`thalweg_hal::kit::queue`]; kernels of the IR are executed block by block ([`exec`]), library ops by routines of their
//! own ([`library`]).

pub mod device;
pub mod exec;
pub mod isa;
pub mod kernel;
pub mod library;
mod loops;
mod math;
pub mod memory;
pub mod parallel;
mod prefetch;
mod program;
pub mod stream;

pub use device::{CpuBackend, CpuDevice};
