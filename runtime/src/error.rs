//! The errors of this crate.

use crate::hal;
use crate::loader::{LoadError, LockError};
use std::fmt;
use std::path::PathBuf;
use thalweg_hal::Status;

/// The result of every fallible call that may have to find a backend first.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a backend or a device cannot be had, or a call of theirs failed. The text is one line that says what was asked and
/// what to do about it; causes are in `source()`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A backend refused a call.
    #[error("{message}")]
    Backend {
        /// The class.
        status: Status,
        /// The backend's text.
        message: String,
    },
    /// The plugin of a target cannot be used.
    #[error("{target} cannot be used: {error} ({path})", path = .path.display())]
    Load {
        /// The target asked for.
        target: String,
        /// The plugin's file.
        path: PathBuf,
        /// Why.
        #[source]
        error: Box<LoadError>,
    },
    /// Nothing is known of a target by this name, or nothing of it can be used.
    #[error("there is no target {asked:?}{}; found: {}", Because(reason.as_deref()), List(found))]
    NoSuchTarget {
        /// What was asked for.
        asked: String,
        /// The targets that can be used.
        found: Vec<String>,
        /// Why not, where something is known.
        reason: Option<String>,
    },
    /// A device number outside the valid range.
    #[error("{target} has no device {id}; {}; targets found: {}", Range(*count), List(found))]
    NoSuchDevice {
        /// The target.
        target: String,
        /// What was asked for.
        id: i64,
        /// The number of devices.
        count: u32,
        /// The targets that can be used.
        found: Vec<String>,
    },
    /// A text that names no device.
    #[error(
        "{asked:?} names no device; write a target and, where there are several, a number: `cpu`, `cuda:1`"
    )]
    DeviceName {
        /// What was given.
        asked: String,
    },
    /// A call on a device was refused, memory did not suffice, or work failed.
    #[error(transparent)]
    Hal(#[from] hal::Error),
    /// A plugin that was named by its file cannot be used.
    #[error("the plugin cannot be used: {0}")]
    Plugin(#[source] Box<LoadError>),
    /// The layers that were asked for cannot be used.
    #[error("{0}")]
    Layers(#[source] Box<LoadError>),
    /// The backends of the process have other layers.
    #[error(
        "layers {} asked, the backends of this process have {}; set them once, before the first device is asked for",
        List(asked),
        List(set)
    )]
    LayersSet {
        /// What was asked for.
        asked: Vec<String>,
        /// What the process has.
        set: Vec<String>,
    },
    /// A lock file cannot be read, written or satisfied.
    #[error(transparent)]
    Lock(#[from] LockError),
}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Error {
        Error::Plugin(Box::new(error))
    }
}

impl Error {
    /// The class of a backend's error, `None` for the others.
    pub fn status(&self) -> Option<Status> {
        match self {
            Error::Backend { status, .. } => Some(*status),
            Error::Hal(error) => Some(error.status()),
            _ => None,
        }
    }
}

struct Because<'a>(Option<&'a str>);

impl fmt::Display for Because<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |reason| write!(f, " ({reason})"))
    }
}

struct List<'a>(&'a [String]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            f.write_str("none")
        } else {
            f.write_str(&self.0.join(", "))
        }
    }
}

struct Range(u32);

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => write!(f, "it has none at all"),
            1 => write!(f, "the only one is 0"),
            count => write!(f, "valid are 0 to {}", count - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_the_value_the_range_and_what_there_is() {
        let device = |id, count| {
            Error::NoSuchDevice {
                target: "cpu".into(),
                id,
                count,
                found: vec!["cpu".into()],
            }
            .to_string()
        };
        assert_eq!(
            device(-1, 4),
            "cpu has no device -1; valid are 0 to 3; targets found: cpu"
        );
        assert_eq!(
            device(1, 1),
            "cpu has no device 1; the only one is 0; targets found: cpu"
        );
        assert_eq!(
            device(0, 0),
            "cpu has no device 0; it has none at all; targets found: cpu"
        );
        let target = |reason: Option<&str>| Error::NoSuchTarget {
            asked: "TPU".into(),
            found: vec!["cpu".into(), "opencl".into()],
            reason: reason.map(Into::into),
        };
        assert_eq!(
            target(None).to_string(),
            "there is no target \"TPU\"; found: cpu, opencl"
        );
        assert_eq!(
            target(Some("refused: the file is empty")).to_string(),
            "there is no target \"TPU\" (refused: the file is empty); found: cpu, opencl"
        );
    }
}
