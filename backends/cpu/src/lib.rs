//! The CPU backend: one device, the cores that this process may use.
//!
//! Programs get it with `thalweg`'s feature `embedded-cpu`. `backends/cpu/plugin` builds the same code as a plugin. Nothing here is
//! called directly: open the target `cpu`.
//!
//! AVX2 and AVX-512 are found when the program runs, and `cpu.isa` asks for one of them. Bits depend neither on the instruction set nor
//! on the number of threads, because the order of a sum follows from extents alone. Only products of bf16 have other bits by AMX, which
//! `cpu.amx_bf16` is about.
//!
//! # Map
//!
//! | module | what |
//! |---|---|
//! | [`CpuBackend`], [`device`] | the backend and its device |
//! | [`kernel`], [`exec`] | kernels of the IR: planned for a launch, then executed block by block by loops for each dtype |
//! | `codegen` | machine code for maps of f32, in the place of their loops; its encoder writes the kernels of products too |
//! | [`library`] | routines of their own: matrix products, convolutions, attention, scatter, scan, sort |
//! | [`isa`] | the instruction sets that loops are compiled for |
//! | [`memory`], [`mod@stream`] | host memory in huge pages; streams on the kit's queues |
//! | [`parallel`] | pieces of a kernel on the host's fork-join pool |
//!
//! `GEMM.md` beside the sources has the measurements of the matrix product.

mod codegen;
mod counters;
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
mod profile;
mod program;
mod step;
pub mod stream;

pub use device::{CpuBackend, CpuDevice};
