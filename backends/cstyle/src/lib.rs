//! Kernel IR to C-like source, with a dialect for OpenCL C and one for CUDA C.
//!
//! For authors of backends whose driver compiles C. This crate returns text, words and grids. It knows no driver, no queue and no
//! buffer.
//!
//! # Use
//!
//! ```
//! use thalweg_cstyle::{Routine, Target};
//! use thalweg_hal::ir::Kernel;
//!
//! let text = "kernel double outer=0 inner=1
//! p0 in f32 element contiguous
//! p1 out f32 element contiguous
//! n0 = load p0
//! n1 = add n0 n0
//! n2 = store p1 n1";
//! let kernel = Kernel::parse(text).unwrap();
//! assert!(Routine::new(&kernel, &Target::CUDA).is_ok());
//! ```
//!
//! # From a kernel to a launch
//!
//! A backend keeps one [`Routine`] a kernel. For each launch it asks for a [`Plan`]: which [`Variant`] of the kernel fits
//! the launch, how many groups each pass has, and the words to pass. It compiles [`Routine::render`] once a variant, so
//! programs are compiled for ranks and access classes and never for a shape.
//!
//! Every entry of a variant takes the same arguments, in this order:
//! 1. one pointer a parameter: the start of its buffer (the byte offset is among the words), and any other pointers until there
//!    are [`Source::pointers`];
//! 2. when [`Plan::scratch_bytes`] is not 0, a pointer to that many bytes of device memory that nobody else uses until the
//!    last pass is done;
//! 3. the words: a struct of 64-bit integers by value, or a pointer to them ([`Source::words_by_value`]).
//!
//! The passes of a plan run in order, each after the one before has finished. An in-order queue does that. A pass names its
//! entry, so that passes can share one, and may have a last word of its own ([`Pass::words`]).
//!
//! A routine has a folder with its plan, its words, its source, tests and golden files:
//!
//! | folder | what is computed |
//! |---|---|
//! | `kernel/` | kernels of the IR: maps, and reductions along rows |
//! | `product/` | matrix products and convolutions |
//! | `attention/` | attention |
//! | `sort/` | sorts |
//! | `axis/` | scans and scatters |
//! | `interpreter/` | any small kernel, by one program that interprets them |
//!
//! They share the writer of statements and entries (`write/`), what the two languages call things (`prelude/`, `scalar.rs`), and
//! extents and strides (`operands.rs`, `words.rs`). [`programs`] builds sources with a backend's compiler.

#[cfg(test)]
extern crate self as thalweg_cstyle;

mod attention;
mod axis;
mod body;
#[cfg(test)]
#[path = "../tests/corpus/mod.rs"]
#[allow(
    clippy::unwrap_used,
    dead_code,
    reason = "for tests; the compile gate uses the rest"
)]
mod corpus;
mod interpreter;
mod kernel;
mod launch;
mod operands;
mod prepared;
mod product;
pub mod programs;
mod routine;
mod scalar;
mod sort;
mod target;
mod variant;
mod words;
mod write;

pub use launch::{Launch, Place};
pub use prepared::Prepared;
pub use product::MatmulConfig;
pub use programs::{Once, Variants};
pub use routine::{Routine, Source};
pub use target::{Dialect, Target};
pub use variant::{Grid, Pass, Passes, Plan, Variant, Words};
