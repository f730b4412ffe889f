//! The files of a log: one a level, of lines of this level and of higher ones, and their successors.

use super::level::Level;
use super::line::Moment;
use super::place;
use crate::error::SessionError;
use std::collections::VecDeque;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// The files of all levels.
pub(super) struct Files {
    folder: PathBuf,
    /// The part of their names that they share.
    stem: String,
    /// Longest file in bytes.
    max_size: u64,
    /// Most files of a level.
    most: usize,
    /// The least level that has a file.
    least: Level,
    levels: [Written; Level::ALL.len()],
}

/// The files of a level.
#[derive(Default)]
struct Written {
    /// The last one, which is written.
    file: Option<File>,
    len: u64,
    /// All that are kept, the oldest first.
    kept: VecDeque<PathBuf>,
}

impl Files {
    pub(super) fn new(folder: PathBuf, max_size: u64, most: usize, least: Level) -> Files {
        Files {
            folder,
            stem: format!("thalweg.{}.{}.log", place::host(), place::user()),
            max_size,
            most,
            least,
            levels: Default::default(),
        }
    }

    /// Makes the folder.
    pub(super) fn make_folder(&self) -> Result<(), SessionError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        made.map_err(|error| broken(&self.folder, error))
    }

    /// Writes a line to the file of its level and to those of lower ones.
    pub(super) fn write(&mut self, level: Level, line: &str) -> Result<(), SessionError> {
        for of in Level::ALL {
            if (self.least..=level).contains(&of) {
                self.append(of, line)?;
            }
        }
        Ok(())
    }

    fn append(&mut self, level: Level, line: &str) -> Result<(), SessionError> {
        let written = &self.levels[level as usize];
        let full = written.len > 0 && written.len + line.len() as u64 > self.max_size;
        if written.file.is_none() || full {
            self.next_file(level)?;
        }
        let written = &mut self.levels[level as usize];
        let path = written
            .kept
            .back()
            .map_or(self.folder.as_path(), PathBuf::as_path);
        let Some(file) = &mut written.file else {
            return Ok(());
        };
        file.write_all(line.as_bytes())
            .map_err(|error| broken(path, error))?;
        written.len += line.len() as u64;
        Ok(())
    }

    /// Begins the next file of a level, and removes the oldest ones beyond what is kept.
    fn next_file(&mut self, level: Level) -> Result<(), SessionError> {
        let (path, file) = loop {
            let time = Moment::of(SystemTime::now()).compact();
            let name = format!("{}.{level}.{time}.{}", self.stem, std::process::id());
            let path = self.folder.join(name);
            let file = OpenOptions::new()
                .append(true)
                .create_new(true)
                .mode(0o600)
                .open(&path);
            match file {
                Ok(file) => break (path, file),
                // Another microsecond gives another name.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(broken(&path, error)),
            }
        };
        let written = &mut self.levels[level as usize];
        (written.file, written.len) = (Some(file), 0);
        written.kept.push_back(path);
        while written.kept.len() > self.most {
            let Some(oldest) = written.kept.pop_front() else {
                break;
            };
            match std::fs::remove_file(&oldest) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(broken(&oldest, error)),
            }
        }
        Ok(())
    }
}

fn broken(path: &Path, error: io::Error) -> SessionError {
    SessionError::Logs {
        path: path.to_owned(),
        error: Arc::new(error),
    }
}
