//! One recording from its start to its end.

use super::error::ProfileError;
use super::measure::{How, Measured};
use super::recording::Record;
use super::writer::{self, Output};
use super::{clock, switch};
use crate::hal::Device;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Name of the file in a recording's folder.
pub(crate) const FILE: &str = "recording.tw";

/// What is recorded, and where to.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Bits of [`switch`].
    pub(crate) bits: u32,
    /// The folder of the file; `None` records into nothing.
    pub(crate) folder: Option<PathBuf>,
    /// The rank that the file says.
    pub(crate) rank: u32,
    /// Settings of the recording as `key=value` lines.
    pub(crate) settings: String,
}

/// What the threads of a session share.
pub(super) struct Shared {
    pub(super) number: u16,
    pub(super) bits: u32,
    /// Where it writes to, for messages.
    folder: PathBuf,
    devices: Mutex<Devices>,
    /// Records that are too large for a ring.
    pub(super) large: Mutex<Vec<Record>>,
    pub(super) ends: AtomicBool,
    /// Why the file ended before the session.
    pub(super) broken: Mutex<Option<ProfileError>>,
}

/// The devices that take part.
#[derive(Default)]
struct Devices {
    all: Vec<Arc<Measured>>,
    // No more come.
    closed: bool,
}

/// The session that runs, and its writer.
struct Current {
    shared: Arc<Shared>,
    writer: Option<std::thread::Thread>,
}

static CURRENT: Mutex<Option<Current>> = Mutex::new(None);

/// Longest time that the end of the process waits for devices: one that hangs must not keep the process.
const EXIT_WAIT: Duration = Duration::from_secs(10);

/// A session that runs. [`Session::stop`] ends it.
pub(crate) struct Session {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
    file: Option<PathBuf>,
}

/// Begins to record.
///
/// # Errors
/// A session runs; the folder or the file cannot be made.
pub(crate) fn start(options: &Options) -> Result<Session, ProfileError> {
    static NUMBER: AtomicU16 = AtomicU16::new(0);
    let mut current = CURRENT.lock();
    if let Some(running) = &*current {
        let folder = running.shared.folder.clone();
        return Err(ProfileError::Running { folder });
    }
    let file = options.folder.as_ref().map(|folder| folder.join(FILE));
    let output = match &file {
        Some(file) => Some(Output::create(file)?),
        None => None,
    };
    let mut number = NUMBER.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    if number == 0 {
        // 0 is none.
        number = NUMBER.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    }
    let shared = Arc::new(Shared {
        number,
        bits: options.bits,
        folder: options.folder.clone().unwrap_or_default(),
        devices: Mutex::default(),
        large: Mutex::default(),
        ends: AtomicBool::new(false),
        broken: Mutex::default(),
    });
    let first = writer::first(options, clock::now());
    let of_writer = Arc::clone(&shared);
    let writer = std::thread::Builder::new()
        .name("thalweg recorder".into())
        .spawn(move || writer::run(&of_writer, output, first))
        .map_err(|error| ProfileError::Thread {
            error: Arc::new(error),
        })?;
    *current = Some(Current {
        shared: Arc::clone(&shared),
        writer: Some(writer.thread().clone()),
    });
    drop(current);
    switch::set(options.bits, number);
    Ok(Session {
        shared,
        writer: Some(writer),
        file,
    })
}

impl Session {
    /// Ends the recording: waits for the devices and writes what is left.
    ///
    /// # Errors
    /// The file could not be written to its end.
    pub(crate) fn stop(mut self) -> Result<Option<PathBuf>, ProfileError> {
        self.end(stop)
    }

    /// As [`Session::stop`] at the end of the process, which waits for devices for a limited time.
    pub(crate) fn stop_at_exit(mut self) {
        let _ = self.end(|devices| {
            // On a thread of its own, since that of the exit has no thread-local values any more.
            let waits = std::thread::Builder::new().name("thalweg exit".into());
            let waits = waits.spawn(move || stop(devices));
            let start = Instant::now();
            while waits.as_ref().is_ok_and(|waits| !waits.is_finished()) && start.elapsed() < EXIT_WAIT {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }

    fn end(&mut self, stop: impl FnOnce(Vec<Arc<Measured>>)) -> Result<Option<PathBuf>, ProfileError> {
        let Some(writer) = self.writer.take() else {
            return Ok(None);
        };
        switch::set(0, 0);
        // Without the lock of the list: a wait may run callbacks of the program.
        stop(self.shared.close());
        self.shared.ends.store(true, Ordering::Release);
        writer.thread().unpark();
        // A writer that panicked has told so itself.
        let _ = writer.join();
        *CURRENT.lock() = None;
        match self.shared.broken.lock().take() {
            Some(error) => Err(error),
            None => Ok(self.file.take()),
        }
    }
}

/// Waits for devices, and ends their profiles.
fn stop(devices: Vec<Arc<Measured>>) {
    devices.iter().for_each(|measured| measured.stop());
}

impl Drop for Session {
    fn drop(&mut self) {
        // The writer has told what went wrong.
        let _ = self.end(stop);
    }
}

impl Shared {
    /// The devices that take part now.
    pub(super) fn devices(&self) -> Vec<Arc<Measured>> {
        self.devices.lock().all.clone()
    }

    /// All devices that took part.
    fn close(&self) -> Vec<Arc<Measured>> {
        let mut devices = self.devices.lock();
        devices.closed = true;
        devices.all.clone()
    }

    /// The file cannot be written: nothing is recorded from now on.
    pub(super) fn fail(&self, path: &Path, error: std::io::Error) {
        switch::set(0, 0);
        let error = ProfileError::Write {
            path: path.to_owned(),
            error: Arc::new(error),
        };
        tracing::warn!("{error}");
        *self.broken.lock() = Some(error);
    }
}

/// The writer has much to do.
#[cold]
pub(super) fn wake() {
    if let Some(Current {
        writer: Some(writer), ..
    }) = &*CURRENT.lock()
    {
        writer.unpark();
    }
}

/// The session of a number, if it runs.
fn running(number: u16) -> Option<Arc<Shared>> {
    let current = CURRENT.lock();
    let shared = &current.as_ref()?.shared;
    (shared.number == number).then(|| Arc::clone(shared))
}

/// Takes part with a device in a session.
pub(super) fn attach(number: u16, device: &Device, of_process: u32) -> How {
    let Some(shared) = running(number) else {
        return How::Not;
    };
    let (measured, how) = Measured::start(device, of_process, shared.bits);
    let mut devices = shared.devices.lock();
    if devices.closed {
        drop(devices);
        // Ends its profile, so that the next session can begin one.
        drop(measured);
        return How::Not;
    }
    devices.all.push(Arc::new(measured));
    how
}

/// Writes a record that is too large for a ring, before what refers to it.
pub(crate) fn tell(on: switch::On, record: Record) {
    if let Some(shared) = running(on.session()) {
        shared.large.lock().push(record);
    }
}
