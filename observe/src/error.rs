//! Errors of this crate.

use std::io;
use std::path::{Path, PathBuf};

/// What went wrong, in one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A path leads nowhere.
    #[error("{path}: there is no such folder; name the one that the profile was written to", path = .path.display())]
    NotThere {
        /// Which.
        path: PathBuf,
    },
    /// A folder has no recording.
    #[error(
        "{path}: no recording.tw here; `THALWEG_PROFILE={path} PROGRAM` records one",
        path = .path.display()
    )]
    NoRecording {
        /// Which.
        path: PathBuf,
    },
    /// A folder has nothing that the page could show.
    #[error(
        "{path}: no recording.tw here, and no event files; `THALWEG_PROFILE={path} PROGRAM` records, `SummaryCollector::to` notes values",
        path = .path.display()
    )]
    Nothing {
        /// Which.
        path: PathBuf,
    },
    /// A folder has no dumped values.
    #[error("{path}: no manifest.json here, which ends a dump that is whole", path = .path.display())]
    NoDump {
        /// Which.
        path: PathBuf,
    },
    /// A file is no recording of this version.
    #[error("{path}: {why}", path = .path.display())]
    Format {
        /// Which.
        path: PathBuf,
        /// What it is instead.
        why: String,
    },
    /// A file or folder cannot be read.
    #[error("{path}: cannot be read: {source}", path = .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is a link that leads out of the folder that is shown.
    #[error("{path}: a link out of the folder; name the folder that it leads to instead", path = .path.display())]
    Outside {
        /// Which.
        path: PathBuf,
    },
    /// A server cannot listen.
    #[error("{address}: cannot listen here: {source}; {advice}")]
    Listen {
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
        /// What to do.
        advice: &'static str,
    },
    /// A file cannot be written.
    #[error("{path}: cannot be written: {source}", path = .path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn reading(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        |source| match source.kind() {
            io::ErrorKind::InvalidData => Error::Format {
                path,
                why: source.to_string(),
            },
            _ => Error::Read { path, source },
        }
    }

    pub(crate) fn writing(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        |source| Error::Write { path, source }
    }
}

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
