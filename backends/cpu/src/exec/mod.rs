//! The executor of IR kernels: block-wise interpretation.
//!
//! A kernel is compiled to lists of steps; a step is one vector loop over a block of about a thousand elements, which
//! stay in the first-level cache from step to step. Lanes run along the inner space (a row is walked block by block) or
//! along the outer one (a block of rows is walked element by element); a launch picks what its strides suit. Results do
//! not depend on that choice, on the instruction set or on the number of threads.

mod across;
mod arena;
mod asking;
mod build;
mod chosen;
mod coded;
mod columns;
mod edges;
mod emit;
mod ends;
mod flat;
mod frame;
mod gathered;
mod indexed;
mod launch;
mod lines;
mod long;
mod moves;
mod padded;
mod pairs;
mod past;
mod phases;
mod plan;
mod program;
mod reads;
mod rows;
mod slabs;
mod slots;
mod space;
mod still;
mod stored;
mod strided;
mod transpose;
mod turned;
mod windows;

#[cfg(test)]
mod tests;

pub(crate) use launch::STREAM;
pub(crate) use past::{fence, stream_narrow};
pub(crate) use phases::Phases;
pub use program::{Arg, Args, Program};
