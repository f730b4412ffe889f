//! What is wrong with the options of a session or of its logs.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a session or its logs are not as asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// An option is unknown or wrong, by itself or beside another.
    #[error("{key} is {value}; {allowed}")]
    Option {
        /// Which key or variable.
        key: String,
        /// What it is.
        value: String,
        /// What it may be.
        allowed: String,
    },
    /// The process has another value already.
    #[error("{key} is {value}, but the process has {set}; set it once, before the first context")]
    Late {
        /// Which key.
        key: &'static str,
        /// What was asked for.
        value: String,
        /// What the process has.
        set: String,
    },
    /// The session was shut down.
    #[error("the session was shut down, so no op runs and no context is made; end it after the last op")]
    Closed,
    /// The files of the log cannot be written. The program goes on, and its lines go to the screen.
    #[error("logs: {path}: {error}; lines go to the screen from here on", path = .path.display())]
    Logs {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        #[source]
        error: Arc<io::Error>,
    },
}
