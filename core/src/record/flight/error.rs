//! What can go wrong with the flight recorder.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Why nothing is recorded, or what was recorded cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlightError {
    /// A setting has a value that it does not take.
    #[error("{key} is {value}; {allowed}")]
    Value {
        /// The key or the variable.
        key: String,
        /// What it is.
        value: String,
        /// What it takes.
        allowed: String,
    },
    /// The folder cannot be made, or no file in it.
    #[error("flight recorder: {path}: {error}; name a folder that can be written", path = .path.display())]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        #[source]
        error: Arc<io::Error>,
    },
    /// A process has one recorder, with the options of its first context.
    #[error("flight recorder: it records into {folder}; the first context of a process decides", folder = .folder.display())]
    Running {
        /// Where it writes to.
        folder: PathBuf,
    },
    /// A file could not be written. The program went on.
    #[error("flight recorder: {path}: {error}; files are missing from here on, and the program goes on", path = .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: Arc<io::Error>,
    },
    /// A file cannot be read.
    #[error("flight recorder: {path}: {why}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Nothing was recorded there.
    #[error("{path} has no record of the flight recorder; name the folder of `rdr.path`, or one in it", path = .path.display())]
    None {
        /// Where it was looked for.
        path: PathBuf,
    },
}
