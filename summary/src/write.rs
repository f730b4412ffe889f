//! Files that are written.

use crate::error::Error;
use crate::event::{Content, Event, VERSION, seconds};
use crate::record::framed;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Numbers of files have so many digits, because readers take files in the order of their names.
const DIGITS: usize = 6;

/// Writes events to a folder, into one file at a time. Each event is in the file when [`write`](Writer::write) returns.
#[derive(Debug)]
pub struct Writer {
    folder: PathBuf,
    /// The name of the files, without their number.
    stem: String,
    number: u32,
    path: PathBuf,
    file: File,
    size: u64,
    /// Whether the file has more than its version.
    used: bool,
    limit: Option<u64>,
    // Locked while this lives, so that a folder has one open file.
    _lock: Option<File>,
}

impl Writer {
    /// Makes the folder and the first file. A file that would have more than `max_file_size` bytes is followed by the next one; an event
    /// that is larger has a file of its own.
    ///
    /// # Errors
    /// The folder or file cannot be made; another writer has the folder.
    pub fn create(folder: impl AsRef<Path>, max_file_size: Option<u64>) -> Result<Writer, Error> {
        let folder = folder.as_ref();
        fs::create_dir_all(folder).map_err(Error::folder(folder))?;
        let lock = lock(folder)?;
        let stem = format!(
            "events.out.tfevents.{}.{}.{}",
            seconds() as u64,
            host(),
            std::process::id()
        );
        let (number, path, file) = next_file(folder, &stem, 1)?;
        let mut writer = Writer {
            folder: folder.to_owned(),
            stem,
            number,
            path,
            file,
            size: 0,
            used: false,
            limit: max_file_size,
            _lock: lock,
        };
        let first = writer.version().map_err(|error| match error {
            Error::Write { path, error } => Error::Folder { path, error },
            other => other,
        });
        first.map(|()| writer)
    }

    /// Where it writes to.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes an event.
    ///
    /// # Errors
    /// The file cannot be written; it is good up to the event before.
    pub fn write(&mut self, event: &Event) -> Result<(), Error> {
        let record = framed(&event.encode());
        let over = |limit| self.size + record.len() as u64 > limit;
        if self.used && self.limit.is_some_and(over) {
            let (number, path, file) =
                next_file(&self.folder, &self.stem, self.number + 1).map_err(|error| self.failed(error))?;
            (self.number, self.path, self.file) = (number, path, file);
            (self.size, self.used) = (0, false);
            self.version()?;
        }
        self.append(&record)?;
        self.used = true;
        Ok(())
    }

    fn failed(&self, error: Error) -> Error {
        match error {
            Error::Folder { path, error } => Error::Write { path, error },
            other => other,
        }
    }

    /// The record that a file begins with.
    fn version(&mut self) -> Result<(), Error> {
        let event = Event::of(0, Content::Version(VERSION.to_owned()));
        self.append(&framed(&event.encode()))
    }

    fn append(&mut self, record: &[u8]) -> Result<(), Error> {
        if let Err(error) = self.file.write_all(record) {
            // A part of a record at the end does no harm, if it cannot be cut off.
            let _ = self.file.set_len(self.size);
            return Err(Error::Write {
                path: self.path.clone(),
                error,
            });
        }
        self.size += record.len() as u64;
        Ok(())
    }
}

/// The folder's lock; `None` where the file system has none.
fn lock(folder: &Path) -> Result<Option<File>, Error> {
    let open = File::open(folder).map_err(Error::folder(folder))?;
    match open.try_lock() {
        Ok(()) => Ok(Some(open)),
        Err(TryLockError::WouldBlock) => Err(Error::Busy {
            path: folder.to_owned(),
        }),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// A file that was not there, with this number or the next that is free.
fn next_file(folder: &Path, stem: &str, mut number: u32) -> Result<(u32, PathBuf, File), Error> {
    loop {
        let path = folder.join(format!("{stem}.{number:0DIGITS$}_MS"));
        let made = OpenOptions::new().append(true).create_new(true).open(&path);
        match made {
            Ok(file) => return Ok((number, path, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(Error::Folder { path, error }),
        }
    }
}

/// The name of the machine, without what would end a part of a file's name.
fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let allowed = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
    let name: String = name.trim().chars().filter(allowed).collect();
    match name.as_str() {
        "" => "localhost".to_owned(),
        _ => name,
    }
}
