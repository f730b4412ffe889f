//! What a recording shows: reads the `recording.tw` of a program and derives every view from it.
//!
//! # Quick start
//!
//! ```no_run
//! use std::path::Path;
//! use thalweg_observe::{Report, Sort, derive, find};
//!
//! let folder = Path::new("out"); // THALWEG_PROFILE=out ./program
//! let summary = derive(&find::recordings(folder)?, Some(folder))?;
//! print!("{}", Report::new(&summary, Sort::Device, 20));
//! # Ok::<(), thalweg_observe::Error>(())
//! ```
//!
//! # Files
//!
//! | file | what | for |
//! |---|---|---|
//! | `trace.json` | a slice for each op, run, kernel and span, arrows from runs to kernels, counters | Perfetto, `chrome://tracing` |
//! | `op_table.csv`, `op_table.json` | calls, host and device times of each op, rates | people, programs |
//! | `kernels.csv` | each kernel and copy, with its ops | programs |
//! | `step_trace.csv` | where the time of each step goes | people, programs |
//! | `memory.csv` | memory that was taken and given back, and by which op | programs |
//! | `stacks.collapsed`, `speedscope.json` | time by the parts of the network | flame graphs, speedscope |
//!
//! # Page
//!
//! [`page`] shows the same in a browser, with the event files, hyperparameters and landscapes that trainings noted: [`page::Server`] serves it, [`page::Data::to_html`] writes it as one file. [`Terminal`] draws it
//! where there is no browser.
//!
//! # Map
//!
//! A recording is read twice, and never held in memory. The survey looks for steps and for the peaks of memory. The pass then resolves
//! each record, and shows it to the views, a file each. 10⁷ kernels take a few hundred MB.
//!
//! What fused ops have of a kernel's time is split by estimated cost, to the nanosecond. Such rows are marked with `~`.
#![forbid(unsafe_code)]

mod derive;
mod diff;
mod distribution;
mod error;
pub mod find;
mod known;
mod out;
pub mod page;
mod pass;
mod peaks;
mod phase;
mod plot;
pub mod repair;
mod report;
mod runs;
mod split;
mod summaries;
mod survey;
mod terminal;
mod view;
mod work;
mod written;

pub use derive::{Summary, derive};
pub use diff::{Diff, Difference, Kind, Value, Wrong, diff};
pub use error::{Error, Result};
pub use report::{Report, Sort};
pub use terminal::Terminal;
pub use view::memory::{MemoryOwner, MemoryPeak};
pub use view::metrics::MetricRow;
pub use view::ops::{OpRow, Times};
pub use view::steps::StepRow;
