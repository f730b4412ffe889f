//! Values in files: which ones, how the files are named, and who writes them.
//!
//! ```text
//! call of an op -> Dumper -> Writer -> Folder -> values, statistic.csv, execution_order.csv, overflow.csv, manifest.json
//!                     '----> Queue ----^
//! ```
//!
//! [`dumper`] knows which values are asked for. [`writer`] puts them into folders, on the thread of the program or behind a [`queue`].

pub(crate) mod dumper;
pub(crate) mod environment;
pub(crate) mod exception;
mod folder;
pub(crate) mod item;
mod iterations;
mod kernels;
mod manifest;
mod names;
mod options;
mod pattern;
mod queue;
mod writer;

pub use iterations::Iterations;
pub use options::{DumpMode, DumpOptions, Figure, FileFormat, InputOutput, OpDebugMode, SavedData};
