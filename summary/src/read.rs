//! Files that are read.

use crate::error::Error;
use crate::event::Event;
use crate::record::{self, FRAME, Next};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// The events of a file, in order. A record that is not whole ends them, since its writer may be at work; damage is an error and ends
/// them too.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    from: BufReader<File>,
    offset: u64,
    ended: bool,
}

impl Reader {
    /// Opens a file.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Reader, Error> {
        let path = path.as_ref();
        Ok(Reader {
            path: path.to_owned(),
            from: BufReader::new(File::open(path).map_err(Error::reading(path))?),
            offset: 0,
            ended: false,
        })
    }

    fn damaged(&self, why: &'static str) -> Error {
        Error::Damaged {
            path: self.path.clone(),
            offset: self.offset,
            why,
        }
    }

    fn event(&mut self) -> Result<Option<Event>, Error> {
        match record::next(&mut self.from).map_err(Error::reading(&self.path))? {
            Next::End => Ok(None),
            Next::Damaged(why) => Err(self.damaged(why)),
            Next::Record(content) => {
                let event = Event::decode(&content).map_err(|why| self.damaged(why))?;
                self.offset += (content.len() + FRAME) as u64;
                Ok(Some(event))
            }
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Result<Event, Error>> {
        if self.ended {
            return None;
        }
        let event = self.event();
        self.ended = !matches!(event, Ok(Some(_)));
        event.transpose()
    }
}

/// The event files of a folder, in the order in which they were written.
///
/// # Errors
/// The folder cannot be read.
pub fn files(folder: impl AsRef<Path>) -> Result<Vec<PathBuf>, Error> {
    let folder = folder.as_ref();
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::reading(folder))? {
        let path = entry.map_err(Error::reading(folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.contains("tfevents") && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The events of all files of a folder, in the order in which they were written. Damage ends a file; the next one follows.
///
/// # Errors
/// The folder cannot be read, or a file of it.
pub fn read_folder(folder: impl AsRef<Path>) -> Result<impl Iterator<Item = Result<Event, Error>>, Error> {
    let readers: Vec<Reader> = (files(folder)?.iter())
        .map(Reader::open)
        .collect::<Result<_, _>>()?;
    Ok(readers.into_iter().flatten())
}
