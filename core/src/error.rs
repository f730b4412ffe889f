//! The errors of this crate.

use crate::loader::{LoadError, LockError};
use std::fmt;
use std::path::PathBuf;
use thalweg_hal::Status;

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. The text is one line that says what was asked and what to do about it; causes are in `source()`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A backend refused a call or reports that work failed.
    #[error("{}{message}", Place(op.as_deref(), device.as_deref()))]
    Backend {
        /// The class.
        status: Status,
        /// The backend's text.
        message: String,
        /// The device, as `cpu:0`.
        device: Option<String>,
        /// The operation that the user wrote.
        op: Option<String>,
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
    Hal(#[from] crate::hal::Error),
    /// A device has no memory for an op, with what holds it.
    #[error(transparent)]
    OutOfMemory(Box<crate::exec::OutOfMemory>),
    /// A tensor carries the first error on the way to it.
    #[error(transparent)]
    Tensor(std::sync::Arc<crate::tensor::failure::Failure>),
    /// A file cannot be read or written.
    #[error("{path}: {error}", path = .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// Data is not in its format, or is something that tensors cannot hold.
    #[error("{}{format}: {message}", In(path.as_deref()))]
    Format {
        /// The format's name.
        format: &'static str,
        /// The file, where it is one.
        path: Option<PathBuf>,
        /// What is wrong with it.
        message: String,
    },
    /// A plugin that was named by its file cannot be used.
    #[error("the plugin cannot be used: {0}")]
    Plugin(#[source] Box<LoadError>),
    /// A lock file cannot be read, written or satisfied.
    #[error(transparent)]
    Lock(#[from] LockError),
}

impl Error {
    /// The error of a backend's call, before anybody knows on which device and in which op it happened.
    pub fn backend(status: Status, message: impl Into<String>) -> Error {
        Error::Backend {
            status,
            message: message.into(),
            device: None,
            op: None,
        }
    }

    /// The class of a backend's error, `None` for the others.
    pub fn status(&self) -> Option<Status> {
        match self {
            Error::Backend { status, .. } => Some(*status),
            Error::Hal(error) => Some(error.status()),
            Error::OutOfMemory(_) => Some(Status::OutOfMemory),
            Error::Tensor(failure) => Some(failure.status()),
            _ => None,
        }
    }

    /// Names the device where the error does not name one yet.
    #[must_use]
    pub fn on_device(mut self, name: impl Into<String>) -> Error {
        if let Error::Backend {
            device: device @ None,
            ..
        } = &mut self
        {
            *device = Some(name.into());
        }
        self
    }

    /// Names the operation where the error does not name one yet.
    #[must_use]
    pub fn in_op(mut self, name: impl Into<String>) -> Error {
        if let Error::Backend { op: op @ None, .. } = &mut self {
            *op = Some(name.into());
        }
        self
    }
}

impl From<thalweg_hal::Error> for Error {
    fn from(error: thalweg_hal::Error) -> Error {
        Error::backend(error.status, error.message)
    }
}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Error {
        Error::Plugin(Box::new(error))
    }
}

impl From<thalweg_hal::ir::ParseError> for Error {
    fn from(error: thalweg_hal::ir::ParseError) -> Error {
        Error::Format {
            format: "text of a kernel",
            path: None,
            message: error.to_string(),
        }
    }
}

impl From<thalweg_hal::ir::VerifyError> for Error {
    fn from(error: thalweg_hal::ir::VerifyError) -> Error {
        Error::backend(Status::InvalidArgument, error.to_string())
    }
}

struct Place<'a>(Option<&'a str>, Option<&'a str>);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (None, None) => Ok(()),
            (Some(op), None) => write!(f, "{op}: "),
            (None, Some(device)) => write!(f, "{device}: "),
            (Some(op), Some(device)) => write!(f, "{op} on {device}: "),
        }
    }
}

struct In<'a>(Option<&'a std::path::Path>);

impl fmt::Display for In<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |path| write!(f, "{}: ", path.display()))
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

    #[test]
    fn a_backends_error_takes_the_first_place_it_is_given() {
        let error = Error::from(thalweg_hal::Error::out_of_memory("4 GiB asked, 1 GiB left"));
        let error = error
            .on_device("cpu:0")
            .in_op("add")
            .in_op("outer")
            .on_device("cuda:1");
        assert_eq!(error.to_string(), "add on cpu:0: 4 GiB asked, 1 GiB left");
        assert_eq!(error.status(), Some(Status::OutOfMemory));
    }
}
