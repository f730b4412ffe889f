//! What can go wrong with summaries.

use std::path::PathBuf;
use thalweg::options::by_name::WrongOption;

/// Why nothing is collected, or what was noted cannot be, in one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SummaryError {
    /// A key, value or combination of options is not allowed.
    #[error("summary: {key} is {value}; {allowed}")]
    Option {
        /// Which key.
        key: String,
        /// What it is.
        value: String,
        /// What it may be.
        allowed: String,
    },
    /// A thread has one record at a time.
    #[error("summary: one is being written, into {folder}; give a training one collector", folder = .folder.display())]
    Running {
        /// Where that one writes to.
        folder: PathBuf,
    },
    /// What was noted cannot be shown in that way.
    #[error("summary: {tag}: {why}")]
    Value {
        /// Its name.
        tag: String,
        /// What does not fit, and what does.
        why: String,
    },
    /// A loss landscape cannot be computed.
    #[error("summary: {path}: {why}", path = .path.display())]
    Landscape {
        /// The file or folder.
        path: PathBuf,
        /// What is missing.
        why: String,
    },
    /// A file or folder cannot be written or read.
    #[error(transparent)]
    File(#[from] thalweg_summary::Error),
}

impl From<WrongOption> for SummaryError {
    fn from(WrongOption { key, value, allowed }: WrongOption) -> SummaryError {
        SummaryError::Option { key, value, allowed }
    }
}
