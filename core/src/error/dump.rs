//! What can go wrong with a dump.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Why values are not dumped, or no longer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DumpError {
    /// An option is wrong, by itself or beside another.
    #[error("dump: {key} is {value}; {allowed}")]
    Option {
        /// Which key.
        key: String,
        /// What it is.
        value: String,
        /// What it may be.
        allowed: String,
    },
    /// The file that the environment names cannot be read.
    #[error("dump: {variable} names {path}: {error}; name a file in JSON that can be read", path = .path.display())]
    Config {
        /// The variable.
        variable: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: Arc<io::Error>,
    },
    /// The folder cannot be made.
    #[error("dump: {path}: {error}; name a folder that can be written", path = .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        error: Arc<io::Error>,
    },
    /// A file could not be written. The program went on without being dumped.
    #[error("dump: {path}: {error}; the dump ends here, and the program goes on without it", path = .path.display())]
    Write {
        /// The file. The folder that it lies in has no manifest.
        path: PathBuf,
        /// Why.
        #[source]
        error: Arc<io::Error>,
    },
    /// A value could not be read from the device. The program went on without being dumped.
    #[error("dump: {name}: {message}; the dump ends here, and the program goes on without it")]
    Value {
        /// The call of the op.
        name: String,
        /// Why, in one line.
        message: String,
    },
    /// The first iteration had no call that an entry of `kernels` is for.
    #[error("dump: kernels is {entry}; no call of iteration {iteration} is like it; {near}")]
    Kernels {
        /// The entry.
        entry: String,
        /// The iteration, from 0.
        iteration: u64,
        /// What calls there are.
        near: String,
    },
    /// The system gives no thread.
    #[error("dump: no thread for the files: {error}")]
    Thread {
        /// Why.
        #[source]
        error: Arc<io::Error>,
    },
}
