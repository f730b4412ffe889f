//! What a backend does with sources: a program is built once for each variant and kept on disk, and a refusal of the compiler
//! becomes an error that names the line.
//!
//! A backend implements [`Compiler`] with its driver's calls; [`Builder`] does the rest. The functions know no queue and no buffer.

mod builder;
mod complaint;
mod inspect;
mod once;
mod options;

pub use builder::{Builder, Built, Compiled, Compiler, Log};
pub use once::{Once, Variants};
pub use options::optimises;
