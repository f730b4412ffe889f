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

mod attention;
mod axis;
mod body;
mod generic;
mod launch;
mod matmul;
mod plan;
mod product;
mod routine;
mod scalar;
mod sort;
mod space;
mod target;
mod variant;
mod variants;
mod write;

pub use launch::{Launch, Place};
pub use matmul::MatmulConfig;
pub use routine::{Routine, Source};
pub use target::{Dialect, Target};
pub use variant::{Grid, Pass, Passes, Plan, Variant, Words};
pub use variants::{Once, Variants};
