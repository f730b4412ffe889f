//! Library operations of the CPU: those whose speed needs more than a fused loop.

mod attention;
mod conv;
mod epilogue;
mod gemm;
mod kernel;
pub mod matmul;
mod scan;
mod scatter;
mod sort;
mod thin;
mod value;

pub(crate) use gemm::Scratch;
pub use kernel::LibraryKernel;
pub(crate) use kernel::Wanted;
