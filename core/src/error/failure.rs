//! Errors that tensors carry.

use super::Error;
use super::tag::OpTag;
use crate::hal::{DType, Device, Status};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// Why an op cannot be done: one line, and what to do about it where that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong: shapes, dtypes, values.
    pub message: String,
    /// What would be right.
    pub help: Option<String>,
}

impl Refusal {
    /// A refusal without advice.
    pub fn new(message: impl Into<String>) -> Refusal {
        Refusal {
            message: message.into(),
            help: None,
        }
    }

    /// Adds advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Refusal {
        self.help = Some(help.into());
        self
    }
}

/// The first error on the way to a tensor: the op, why, and the user's line.
#[derive(Clone, Debug, thiserror::Error)]
pub struct Failure {
    /// The op that the user called; empty where none is known.
    pub op: String,
    /// Why.
    pub refusal: Refusal,
    /// The user's call.
    pub location: Option<&'static Location<'static>>,
    /// The device, where it is known.
    pub device: Option<String>,
    /// Dtype of the first operand, where there is one.
    pub dtype: Option<DType>,
    /// The error of the device, where it is one.
    #[source]
    pub source: Option<Arc<Error>>,
}

impl From<Refusal> for Failure {
    #[track_caller]
    fn from(refusal: Refusal) -> Failure {
        Failure {
            op: String::new(),
            refusal,
            location: Some(Location::caller()),
            device: None,
            dtype: None,
            source: None,
        }
    }
}

impl From<Refusal> for Error {
    #[track_caller]
    fn from(refusal: Refusal) -> Error {
        Failure::from(refusal).into()
    }
}

impl Failure {
    /// A refusal of the op that `tag` names, on `device`.
    pub(crate) fn tagged(refusal: Refusal, tag: OpTag, device: Option<&Device>) -> Failure {
        Failure {
            op: tag.op.to_owned(),
            refusal,
            location: tag.location(),
            device: device.map(|device| device.target().to_owned()),
            dtype: None,
            source: None,
        }
    }

    /// The class of the device's error; [`Status::InvalidArgument`] for an op that was refused.
    pub fn status(&self) -> Status {
        self.source
            .as_ref()
            .and_then(|error| error.status())
            .unwrap_or(Status::InvalidArgument)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(source) = &self.source {
            // The device's error names op, place and device itself.
            return fmt::Display::fmt(source, f);
        }
        if !self.op.is_empty() {
            write!(f, "{}: ", self.op)?;
        }
        f.write_str(&self.refusal.message)?;
        if let Some(at) = self.location {
            write!(f, "\n  at {}:{}", at.file(), at.line())?;
            if let Some(device) = &self.device {
                write!(f, ", device {device}")?;
            }
            if let Some(dtype) = self.dtype {
                write!(f, ", {dtype}")?;
            }
        }
        match &self.refusal.help {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

impl From<Arc<Failure>> for Error {
    fn from(failure: Arc<Failure>) -> Error {
        Error::Tensor(failure)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        Error::Tensor(Arc::new(failure))
    }
}
