//! Errors of the HAL.

use super::statistics::{MemoryStats, size_in_unit};
use std::fmt;
use std::panic::Location;
use thalweg_hal::Status;

/// What went wrong. The first line of the text says it; further lines say where and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call was refused, or work that was accepted failed.
    #[error(transparent)]
    Call(Box<CallError>),
    /// A device has no room for an allocation.
    #[error(transparent)]
    OutOfMemory(Box<OutOfMemory>),
}

/// The result of every fallible call of the HAL.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The class.
    pub fn status(&self) -> Status {
        match self {
            Error::Call(error) => error.status,
            Error::OutOfMemory(_) => Status::OutOfMemory,
        }
    }

    /// The device or target that the error is about: `cpu:0`, or `cpu` for a whole backend.
    pub fn target(&self) -> &str {
        match self {
            Error::Call(error) => &error.target,
            Error::OutOfMemory(error) => &error.target,
        }
    }

    /// The op or call that failed.
    pub fn op(&self) -> &str {
        match self {
            Error::Call(error) => &error.op,
            Error::OutOfMemory(error) => &error.op,
        }
    }
}

/// A call that was refused, by a check of this module or by the backend, or work that was accepted and failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallError {
    /// The class.
    pub status: Status,
    /// The op or call that failed.
    pub op: String,
    /// The device or backend.
    pub target: String,
    /// What was asked and why it was refused, or what failed.
    pub message: String,
    /// The user's call, where it is known.
    pub location: Option<&'static Location<'static>>,
}

impl std::error::Error for CallError {}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Backends begin a launch's message with the kernel's name, which is the op where nothing else was said.
        if !(self.message.starts_with(&self.op) && self.message[self.op.len()..].starts_with(':')) {
            write!(f, "{}: ", self.op)?;
        }
        write!(f, "{} ({})", self.message, self.status)?;
        place(f, &self.target, self.location)?;
        match help(self.status) {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

fn place(f: &mut fmt::Formatter<'_>, target: &str, location: Option<&Location<'_>>) -> fmt::Result {
    match location {
        Some(at) => write!(f, "\n  at {}:{}, device {target}", at.file(), at.line()),
        None => write!(f, "\n  device {target}"),
    }
}

fn help(status: Status) -> Option<&'static str> {
    Some(match status {
        Status::InvalidHandle => "use objects with the device that made them, while its backend is running",
        Status::Unsupported => "ask `capability` or `supports` first, or choose another device",
        Status::Unavailable => "`thalweg doctor` prints the whole chain of causes",
        Status::CompileFailed => "print the kernel with `to_text` and check it with `verify`",
        Status::LaunchFailed => "results of this stream since its last synchronize are not to be used",
        Status::DeviceLost => "open the device again; what was in its memory is lost",
        Status::Panicked | Status::Internal => "this is a defect of the backend; report it to its author",
        Status::OutOfMemory => "free memory, raise the limit, or use smaller pieces",
        _ => return None,
    })
}

/// An allocation that did not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutOfMemory {
    /// The device, as `cpu:0`.
    pub target: String,
    /// The device's ordinal.
    pub device_id: u32,
    /// The op that asked.
    pub op: String,
    /// Bytes that were asked for.
    pub bytes: u64,
    /// The pool at that moment.
    pub stats: MemoryStats,
    /// The backend's own words.
    pub message: String,
    /// The user's call.
    pub location: Option<&'static Location<'static>>,
}

impl std::error::Error for OutOfMemory {}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemoryStats {
            allocated,
            reserved,
            limit,
            largest_free,
            ..
        } = self.stats;
        write!(
            f,
            "{}: out of memory on {}: {} B asked for",
            self.op, self.target, self.bytes
        )?;
        match limit {
            0 => write!(f, ", no limit set")?,
            limit => write!(f, ", limit {limit} B")?,
        }
        write!(
            f,
            "; the pool holds {reserved} B reserved, {allocated} B allocated, "
        )?;
        write!(f, "{largest_free} B in its largest free block")?;
        place(f, &self.target, self.location)?;
        if !self.message.is_empty() {
            write!(f, "\n  cause: {}", self.message)?;
        }
        let (size, unit) = size_in_unit(self.bytes);
        write!(
            f,
            "\n  help: free {size} {unit}, raise the memory limit, or work in smaller pieces"
        )
    }
}
