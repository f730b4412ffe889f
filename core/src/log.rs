//! The log: lines of what the program, its libraries and its backends tell, on the screen or in files.
//!
//! [`init`] installs it, with what the environment says. A program that has a subscriber of [`tracing`] keeps it.
//!
//! ```
//! let ours = thalweg::init()?; // false where the program has a subscriber of its own
//! # assert!(ours);
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! A line has level, module, process, thread, program, local time, place and text:
//!
//! ```text
//! [WARNING] LOADER(4711,4712,train):2026-11-20-13:36:16.756.957 [runtime/src/loader/registry.rs:338] backend not loaded
//! ```

mod files;
mod level;
mod line;
mod logger;
mod module;
mod options;
mod place;
mod settings;

pub use level::Level;
pub use options::LogOptions;

use crate::error::Result;

/// Installs the log that the environment asks for, unless the program has a subscriber of [`tracing`]: then that stays. Whether lines
/// go to this log. A second call with the same settings does nothing.
///
/// # Errors
/// A variable with a value that it does not take; other settings than an earlier call had. Files that cannot be written are none:
/// one line says so, and lines go to the screen.
pub fn init() -> Result<bool> {
    LogOptions::from_env()?.install()
}
