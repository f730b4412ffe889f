//! Library operations of the CPU: those whose speed needs more than a fused loop.

mod gemm;
mod gemv;
mod kernel;
pub mod matmul;

pub use kernel::LibraryKernel;
