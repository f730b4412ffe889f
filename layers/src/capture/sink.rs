//! The file of the process.

use crate::captured::{Call, MAGIC, Record, Start, seal};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use thalweg_hal::kit::lock::Mutex;
use thalweg_hal::{Error, Result, Status};

/// The capture of this process: all its backends write to one file.
pub(super) static SINK: Sink = Sink(Mutex::new(State {
    file: None,
    frame: Vec::new(),
    backends: 0,
    answers: 0,
}));

pub(super) struct Sink(Mutex<State>);

struct State {
    /// Where to; the file is gone when it took no more.
    file: Option<(PathBuf, Option<File>)>,
    frame: Vec<u8>,
    backends: u32,
    answers: u64,
}

impl Sink {
    /// Begins the file unless it is there, and gives a backend its number.
    pub(super) fn open(&self, path: &Path) -> Result<u32> {
        let mut state = self.0.lock();
        if state.file.as_ref().is_none_or(|(old, _)| old != path) {
            let file = begin(path, &mut state.frame).map_err(|error| refused(path, &error))?;
            state.file = Some((path.to_owned(), Some(file)));
            state.backends = 0;
        }
        state.backends += 1;
        Ok(state.backends - 1)
    }

    /// Writes a record; nothing once the file has failed.
    pub(super) fn write(&self, record: &Record) -> io::Result<()> {
        let mut state = self.0.lock();
        let State { file, frame, .. } = &mut *state;
        let Some((_, file)) = file else { return Ok(()) };
        let Some(to) = file else { return Ok(()) };
        let written = seal(record, frame).and_then(|()| to.write_all(frame));
        if written.is_err() {
            *file = None;
        }
        // What a large record has taken is given back.
        if frame.capacity() > 1 << 20 {
            *frame = Vec::new();
        }
        written
    }

    /// A number for what a copy to the host will bring.
    pub(super) fn answer(&self) -> u64 {
        let mut state = self.0.lock();
        state.answers += 1;
        state.answers
    }
}

fn begin(path: &Path, frame: &mut Vec<u8>) -> io::Result<File> {
    let mut file = File::options().write(true).create_new(true).open(path)?;
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(Path::file_name);
    let start = Record {
        backend: 0,
        call: Call::Start(Start {
            pid: std::process::id(),
            program: program.map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            version: env!("CARGO_PKG_VERSION").into(),
            fresh: 0,
        }),
    };
    seal(&start, frame)?;
    file.write_all(&MAGIC)?;
    file.write_all(frame)?;
    Ok(file)
}

fn refused(path: &Path, error: &io::Error) -> Error {
    let path = path.display();
    let text = match error.kind() {
        ErrorKind::AlreadyExists => {
            format!("capture: {path} exists; remove it, or write {{pid}} into layer.capture's path")
        }
        _ => format!("capture: {path} cannot be written: {error}; name another path in layer.capture"),
    };
    Error::new(Status::InvalidArgument, text)
}
