//! Files that appear whole or not at all.

use crate::error::{Error, Result};
use std::fs::File;
use std::io;
use std::path::Path;
use thalweg_hal::kit::file;

/// The error of a call on `path`.
pub(super) fn failed(path: &Path) -> impl Fn(io::Error) -> Error {
    move |error| Error::File {
        path: path.to_owned(),
        error,
    }
}

/// An error of the writer, or of what is written.
enum Stopped {
    Writer(io::Error),
    Content(Error),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Stopped {
        Stopped::Writer(error)
    }
}

/// Writes a file as [`file::replace`] does.
///
/// # Errors
/// That of `write`; the file cannot be made.
pub(super) fn replace(path: &Path, write: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    let written = file::replace(path, |file| write(file).map_err(Stopped::Content));
    written.map_err(|stopped| match stopped {
        Stopped::Writer(error) => failed(path)(error),
        Stopped::Content(error) => error,
    })
}
