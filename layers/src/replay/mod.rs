//! Replays: the calls of a capture once more, on any backend.
//!
//! A [`Player`] makes the captured objects anew and does the captured work in the order of the file, from one thread. It keeps the
//! order of streams and events. What came from the host comes from the file, or from stand-in values where the file has no
//! contents.

mod difference;
mod flat;
mod memory;
mod output;
mod raw;
mod session;
mod stand_in;
mod work;

pub use difference::{Difference, difference, tolerance};
pub use flat::flatten;
pub use output::Output;

use crate::captured::{Backend, Call, Contents, File, Handle, Record};
use crate::next::Next;
use memory::Held;
use session::Session;
use stand_in::DTypes;
use std::collections::HashMap;
use thalweg_hal::tables::BackendApi;
use thalweg_hal::{Error, Result};

/// The tables of a backend.
#[derive(Clone, Copy)]
pub struct Tables(Next);

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tables").field(&self.0.api).finish()
    }
}

impl Tables {
    /// The tables that an entry function handed over.
    ///
    /// # Errors
    /// A required table is missing.
    ///
    /// # Safety
    /// `api` was filled by a function that keeps the contract of [`thalweg_hal::tables`].
    pub unsafe fn new(api: &BackendApi) -> Result<Tables> {
        // SAFETY: the caller vouches for `api`.
        unsafe { Next::new(api) }.map(Tables)
    }
}

/// Where the work of a captured backend is done.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The backend.
    pub tables: Tables,
    /// Its device for all captured devices; `None` for those of the same numbers.
    pub ordinal: Option<u32>,
}

/// The backends of a capture, in the order of their numbers.
pub fn backends(file: &File) -> Vec<&Backend> {
    file.records
        .iter()
        .filter_map(|record| record.call.backend())
        .collect()
}

/// Whether the bytes that came from the host are in the file, so that a replay on the same device computes the same bits.
pub fn has_contents(file: &File) -> bool {
    file.start.fresh == 0
        && !file
            .contents()
            .any(|contents| !matches!(contents, Contents::Data(_)))
}

/// Does the calls of one capture.
#[derive(Debug)]
pub struct Player {
    sessions: Vec<Session>,
    held: Vec<Held>,
    /// Hashes of what was read back, by number.
    answers: HashMap<u64, u64>,
    dtypes: DTypes,
    /// Seed of what fresh memory holds; 0 for nothing in particular.
    fresh: u64,
}

impl Player {
    /// A replay of `file` on one target for each of its [`backends`]. With a seed, fresh memory holds stand-in values, as
    /// [`Start::fresh`](crate::captured::Start::fresh) says; the file's own seed goes before.
    ///
    /// # Errors
    /// Other numbers of targets; a capture whose programs do not fit together.
    pub fn new(file: &File, targets: &[Target], fresh: u64) -> Result<Player> {
        if backends(file).len() != targets.len() {
            return Err(Error::invalid_argument(
                "a replay needs one target for each backend",
            ));
        }
        let fresh = if file.start.fresh > 0 {
            file.start.fresh
        } else {
            fresh
        };
        let seeded = file
            .contents()
            .any(|contents| matches!(contents, Contents::Seed { .. }));
        Ok(Player {
            sessions: targets.iter().map(|target| Session::new(*target)).collect(),
            held: Vec::new(),
            answers: HashMap::new(),
            dtypes: match fresh > 0 || seeded {
                true => stand_in::dtypes(file)?,
                false => DTypes::new(),
            },
            fresh,
        })
    }

    /// Does one call.
    ///
    /// # Errors
    /// What the backend says; a call that refers to what was not captured.
    pub fn play(&mut self, record: &Record) -> Result<()> {
        let at = record.backend;
        match &record.call {
            Call::Start(_) | Call::Backend(_) | Call::Map(_) | Call::Result(_) => Ok(()),
            Call::Open(device) => self.session(at)?.open(device),
            Call::Close(device) => {
                self.settle(at, None);
                self.session(at)?.close(*device)
            }
            Call::Alloc(alloc) => self.alloc(at, alloc),
            Call::Import(import) => self.import(at, import),
            Call::Free(buffer) => self.session(at)?.free(*buffer),
            Call::CreateStream(stream) => self.session(at)?.create_stream(stream),
            Call::DestroyStream(stream) => {
                let ended = self.session(at)?.destroy_stream(*stream);
                self.settle(at, Some(*stream));
                ended
            }
            Call::CreateEvent(event) => self.session(at)?.create_event(event),
            Call::DestroyEvent(event) => self.session(at)?.destroy_event(*event),
            Call::RecordEvent(mark) => self.session(at)?.record_event(mark),
            Call::WaitEvent(mark) => self.session(at)?.wait_event(mark),
            Call::AwaitEvent(event) => self.session(at)?.await_event(*event),
            Call::SynchronizeStream(stream) => {
                self.session(at)?.synchronize(*stream)?;
                self.settle(at, Some(*stream));
                Ok(())
            }
            Call::SynchronizeDevice(device) => {
                self.session(at)?.synchronize_device(*device)?;
                self.settle(at, None);
                Ok(())
            }
            Call::Compile(kernel) => self.session(at)?.compile(kernel),
            Call::Release(kernel) => self.session(at)?.release(*kernel),
            Call::Submit(submission) => self.submit(at, submission),
            Call::CreateProgram(program) => self.create_program(at, program),
            Call::Rebind(rebind) => self.session(at)?.rebind(rebind),
            Call::Run(run) => self.run(at, run),
            Call::DestroyProgram(program) => self.session(at)?.destroy_program(*program),
        }
    }

    /// Waits for the work of a stream.
    ///
    /// # Errors
    /// The first error of that work.
    pub fn wait(&mut self, backend: u32, stream: Handle) -> Result<()> {
        self.session(backend)?.synchronize(stream)?;
        self.settle(backend, Some(stream));
        Ok(())
    }

    /// Waits for all work.
    ///
    /// # Errors
    /// The first error of that work.
    pub fn finish(&mut self) -> Result<()> {
        for at in 0..self.sessions.len() as u32 {
            let devices: Vec<Handle> = self.session(at)?.devices().collect();
            for device in devices {
                self.session(at)?.synchronize_device(device)?;
            }
            self.settle(at, None);
        }
        Ok(())
    }

    /// Hashes of what was read back so far and whose stream was waited for, by the number of the copy.
    pub fn answers(&self) -> &HashMap<u64, u64> {
        &self.answers
    }

    fn session(&mut self, backend: u32) -> Result<&mut Session> {
        let found = self.sessions.get_mut(backend as usize);
        found.ok_or_else(|| Error::invalid_argument(format!("the capture has no backend {backend}")))
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        // Before the memory of the host goes that their work may still use.
        self.sessions.clear();
    }
}
