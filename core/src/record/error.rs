//! What can go wrong with a recording.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a program is not profiled, or no longer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The folder cannot be made, or no file in it.
    #[error("profile: {path}: {error}; name a folder that can be written", path = .path.display())]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        #[source]
        error: Arc<io::Error>,
    },
    /// A process has one profile at a time.
    #[error("profile: one is running, into {folder}; drop it before the next is started", folder = .folder.display())]
    Running {
        /// Where it writes to.
        folder: PathBuf,
    },
    /// The file could not be written any more. The program went on without being recorded.
    #[error("profile: {path}: {error}; the recording ends here, and the program goes on without it", path = .path.display())]
    Write {
        /// The file, which is good up to its last whole frame.
        path: PathBuf,
        /// Why.
        #[source]
        error: Arc<io::Error>,
    },
    /// A value of the schedule or of the steps is wrong.
    #[error("profile: {key} is {value}; {allowed}")]
    Steps {
        /// Which value.
        key: &'static str,
        /// What it is.
        value: u64,
        /// What it may be.
        allowed: &'static str,
    },
    /// An option is wrong, by itself or beside another.
    #[error("profile: {key} is {value}; {allowed}")]
    Option {
        /// Which key.
        key: String,
        /// What it is.
        value: String,
        /// What it may be.
        allowed: String,
    },
    /// The environment names no rank.
    #[error("profile: {variable} is {value:?}; it takes a whole number from 0 to 4294967295")]
    Rank {
        /// The variable.
        variable: &'static str,
        /// What it says.
        value: String,
    },
    /// The system gives no thread.
    #[error("profile: no thread for the file: {error}")]
    Thread {
        /// Why.
        #[source]
        error: Arc<io::Error>,
    },
}
