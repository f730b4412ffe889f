//! See what runs: recordings of kernels, ops and memory, with true device times.
//!
//! A profile in three lines, and no line for a program that is already built: `THALWEG_PROFILE=out ./program`.
//!
//! ```
//! use thalweg::{Context, Tensor, observe};
//! # let out = std::env::temp_dir().join(format!("thalweg-doc-{}", std::process::id()));
//! let cx = Context::new("cpu")?;
//! let profile = observe::Profile::to(&out).memory(true).start(&cx)?; // written when it is dropped, also by a panic
//! Tensor::from_slice(&[1.0_f32, 2.0], 2, &cx).exp().to_vec::<f32>()?;
//! # drop(profile);
//! # assert!(out.join("rank_0/recording.tw").is_file());
//! # std::fs::remove_dir_all(&out).ok();
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! `thalweg trace out` makes tables and traces of it, `thalweg view out` shows them.
//!
//! # Names
//!
//! A call of an op has a name: `Default/conv1/conv2d-op3` is the third call of its trace or step, in the part `conv1` of the network.
//! It is the same whether ops run at once, are recorded or traced. Layers find out themselves where they lie; other code says so by
//! [`scope`]. What computes gradients has the name of the op whose gradient it is, under `Gradients/Default/conv1`. In a loop, each
//! turn has the same names.
//!
//! # Costs
//!
//! Nothing is recorded unless a [`Profile`] runs, and what is off costs nothing that can be measured. Recording changes no bit of what
//! is computed. A record takes some 50 ns of the thread that it happens on; a thread of its own writes the file. A thread that
//! is too far ahead loses events, which are counted.

mod dump;
pub mod flight;
mod memory;
mod metrics;
mod named;
mod options;
pub mod parts;
mod print;
mod print_file;
mod profile;
mod schedule;
#[cfg(test)]
mod tests;
mod watch;

pub use crate::dump::{
    DumpMode, DumpOptions, Figure, FileFormat, InputOutput, Iterations, OpDebugMode, SavedData,
};
pub use crate::error::DumpError;
pub use crate::exec::effects::{PrintItem, Printout};
pub use crate::exec::values::Watched;
pub use crate::options::by_name::{OptionKey, near};
pub use crate::record::error::ProfileError;
pub use crate::record::recording;
pub use crate::record::recording::SpanKind;
pub use crate::types::call::{CallInfo, Phase, Port};
pub use crate::types::statistics::Statistics;
pub use crate::types::text::numbers;
pub use dump::Dump;
pub use memory::{
    Block, BlockRange, Change, LiveBuffer, MemoryChange, MemorySnapshot, memory_snapshot,
    record_memory_history,
};
pub use metrics::Metric;
pub use named::{Range, Scope, counter, mark, phase, range, restart_calls, scope, span, update_scope};
pub use options::{ProfileOptions, ProfilingOptions};
pub use print::{Print, Prints, print};
pub use print_file::PrintFile;
pub use profile::{Profile, ProfileBuilder};
pub use schedule::Schedule;
pub use watch::{Selector, Watch};

use std::path::{Path, PathBuf};

/// A path in which `{r}` is replaced by the rank of the process, which `THALWEG_RANK` or `RANK_ID` says; 0 where neither does.
///
/// # Errors
/// A rank that is no number.
pub fn path_of_rank(path: &Path) -> crate::Result<PathBuf> {
    Ok(crate::record::environment::path_of_rank(path)?)
}

/// Number of the trace that this code runs in, which no other trace has; 0 where ops run or are recorded.
pub fn trace_number() -> u64 {
    crate::record::calls::tracing()
}
