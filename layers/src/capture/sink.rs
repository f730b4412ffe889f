//! The file of the process.

use crate::captured::{Backend, Call, MAGIC, Record, Start, seal};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use thalweg_hal::kit::fork;
use thalweg_hal::kit::lock::Mutex;
use thalweg_hal::{Error, Result, Status};

/// The capture of this process: all its backends write to one file.
static STATE: Mutex<State> = Mutex::new(State {
    file: None,
    frame: Vec::new(),
    backends: 0,
    answers: 0,
});

struct State {
    /// Of which process it is, as a child of a fork has none; the file is gone when it took no more.
    file: Option<(u64, Option<File>)>,
    frame: Vec<u8>,
    backends: u32,
    answers: u64,
}

/// Begins the file unless it is there, and gives a backend its number. Backends are in the file in the order of their numbers.
pub(super) fn open(path: &Path, backend: &Backend) -> Result<u32> {
    let mut state = STATE.lock();
    if state.file.is_none() {
        let file = begin(path, &mut state.frame).map_err(|error| refused(path, &error))?;
        state.file = Some((fork::generation(), Some(file)));
    }
    let number = state.backends;
    let record = Record {
        backend: number,
        call: Call::Backend(backend.clone()),
    };
    state.write(&record).map_err(|error| refused(path, &error))?;
    state.backends += 1;
    Ok(number)
}

/// Writes a record; nothing once the file has failed, and in a child of a fork.
pub(super) fn write(record: &Record) -> io::Result<()> {
    STATE.lock().write(record)
}

impl State {
    fn write(&mut self, record: &Record) -> io::Result<()> {
        let Some((process, file)) = &mut self.file else {
            return Ok(());
        };
        let Some(to) = file.as_mut().filter(|_| fork::is_current(*process)) else {
            return Ok(());
        };
        let written = seal(record, &mut self.frame).and_then(|()| to.write_all(&self.frame));
        if written.is_err() {
            *file = None;
        }
        // What a large record has taken is given back.
        if self.frame.capacity() > 1 << 20 {
            self.frame = Vec::new();
        }
        written
    }
}

/// A number for what a copy to the host will bring.
pub(super) fn answer() -> u64 {
    let mut state = STATE.lock();
    state.answers += 1;
    state.answers
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
