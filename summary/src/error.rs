//! What can go wrong with event files.

use std::io;
use std::path::{Path, PathBuf};

/// Why a file cannot be written or read, in one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder cannot be made, or no file in it.
    #[error("summary: {path}: {error}; name a folder that can be written", path = .path.display())]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// Another writer has the folder open.
    #[error("summary: {path}: another training writes here; name a folder of its own", path = .path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// A file could not be written any more.
    #[error("summary: {path}: {error}; the file ends here", path = .path.display())]
    Write {
        /// The file, which is good up to its last whole record.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// A folder or file cannot be read.
    #[error("summary: {path}: {error}; name a folder with event files", path = .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// A file is damaged.
    #[error("summary: {path}: byte {offset}: {why}; what is before it is good", path = .path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// Where the record begins that is damaged.
        offset: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// Values that do not fit together.
    #[error("summary: {0}")]
    Invalid(String),
}

impl Error {
    pub(crate) fn folder(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        |error| Error::Folder { path, error }
    }

    pub(crate) fn reading(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        |error| Error::Read { path, error }
    }
}
