//! What can go wrong with graphs that are saved.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Why graphs are not saved, or no longer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveGraphsError {
    /// A setting has a value that it does not take.
    #[error("{key} is {value}; {allowed}")]
    Value {
        /// The option or the variable.
        key: String,
        /// What it is.
        value: String,
        /// What it takes.
        allowed: &'static str,
    },
    /// The folder cannot be made, or no file in it.
    #[error("save_graphs_path: {path}: {error}; name a folder that can be written", path = .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        error: Arc<io::Error>,
    },
    /// A file could not be written. The program went on, and later graphs are not saved.
    #[error("save_graphs: {path}: {error}; no more graphs are saved, and the program goes on", path = .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: Arc<io::Error>,
    },
}
