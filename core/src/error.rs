//! The errors of this crate.

mod dump;
pub mod failure;
mod indices;
mod kernel_meta;
mod memory;
mod numerics;
mod save_graphs;
mod session;
pub mod tag;

pub use dump::DumpError;
pub use indices::IndexError;
pub use kernel_meta::KernelMetaError;
pub use memory::{Holder, OutOfMemory};
pub use numerics::{InputRange, NumericsError};
pub use save_graphs::SaveGraphsError;
pub use session::SessionError;

use crate::record::error::ProfileError;
use crate::record::flight::error::FlightError;
use failure::Failure;
use std::fmt;
use std::path::PathBuf;
use thalweg_hal::Status;
use thalweg_runtime::loader::{LoadError, LockError};

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
    /// A call on a device was refused, memory did not suffice, or work failed.
    #[error(transparent)]
    Hal(#[from] thalweg_runtime::hal::Error),
    /// A backend or a device cannot be had.
    #[error(transparent)]
    Runtime(thalweg_runtime::Error),
    /// A device has no memory for an op, with what holds it.
    #[error(transparent)]
    OutOfMemory(Box<OutOfMemory>),
    /// A tensor carries the first error on the way to it.
    #[error(transparent)]
    Tensor(std::sync::Arc<Failure>),
    /// An op made a NaN or an infinity out of finite numbers, and [`check_numerics`](crate::Context::check_numerics) is on.
    #[error(transparent)]
    Numerics(Box<NumericsError>),
    /// An op was given an index that its axis does not have, and [`check_indices`](crate::Context::check_indices) is on.
    #[error(transparent)]
    Index(Box<IndexError>),
    /// A file cannot be read or written.
    #[error("{path}: {error}", path = .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// A profile cannot begin or go on.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// Options of the session or of its logs are wrong or late, or the session was shut down.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Values cannot be dumped, or no longer.
    #[error(transparent)]
    Dump(#[from] DumpError),
    /// Graphs that are compiled cannot be saved.
    #[error(transparent)]
    SaveGraphs(#[from] SaveGraphsError),
    /// Files about kernels cannot be written.
    #[error(transparent)]
    KernelMeta(#[from] KernelMetaError),
    /// The flight recorder cannot begin, or what it wrote cannot be read.
    #[error(transparent)]
    Flight(#[from] FlightError),
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
            Error::Runtime(error) => error.status(),
            Error::Session(SessionError::Closed) => Some(Status::Unavailable),
            _ => None,
        }
    }

    /// Which op made a NaN or an infinity, where that is the error; also that of a tensor which carries it.
    pub fn numerics(&self) -> Option<&NumericsError> {
        match self {
            Error::Numerics(error) => Some(error),
            Error::Tensor(failure) => failure.source.as_ref()?.numerics(),
            _ => None,
        }
    }

    /// Which op was given an index outside of its axis, where that is the error; also that of a tensor which carries it.
    pub fn index(&self) -> Option<&IndexError> {
        match self {
            Error::Index(error) => Some(error),
            Error::Tensor(failure) => failure.source.as_ref()?.index(),
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

/// Each error has one form here: what the runtime only hands on is as if it came from below it.
impl From<thalweg_runtime::Error> for Error {
    fn from(error: thalweg_runtime::Error) -> Error {
        match error {
            thalweg_runtime::Error::Backend { status, message } => Error::backend(status, message),
            thalweg_runtime::Error::Hal(error) => Error::Hal(error),
            error => Error::Runtime(error),
        }
    }
}

impl From<LockError> for Error {
    fn from(error: LockError) -> Error {
        Error::Runtime(error.into())
    }
}

impl From<thalweg_hal::Error> for Error {
    fn from(error: thalweg_hal::Error) -> Error {
        Error::backend(error.status, error.message)
    }
}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Error {
        Error::Runtime(error.into())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_runtime_has_one_form() {
        let asked = || "cpu:x".to_owned();
        let error = Error::from(thalweg_runtime::Error::DeviceName { asked: asked() });
        assert!(
            matches!(&error, Error::Runtime(thalweg_runtime::Error::DeviceName { asked: named }) if *named == asked())
        );
        let refused = thalweg_runtime::Error::Backend {
            status: Status::Unavailable,
            message: "no driver".into(),
        };
        let error = Error::from(refused);
        assert_eq!(
            (error.status(), error.to_string().as_str()),
            (Some(Status::Unavailable), "no driver")
        );
        let failed = crate::hal::device("cpu").and_then(|device| Ok(device.alloc(u64::MAX)?));
        let error = Error::from(failed.unwrap_err());
        assert!(matches!(&error, Error::Hal(_)), "{error:?}");
        assert_eq!(error.status(), Some(Status::OutOfMemory));
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
