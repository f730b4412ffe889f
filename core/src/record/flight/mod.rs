//! The flight recorder: the last launches, changes of memory and graphs of a process, in files that stay when it is killed.
//!
//! ```text
//! launch, memory -> ring.tw (mapped)    \
//! places, programs -> names.tw           > Flight::read -> order.csv, memory.csv, a summary
//! compiled graphs -> graph_{n}.ir        |
//! lines of the log -> log.txt           /
//! ```

pub(crate) mod error;
mod log;
mod names;
pub(crate) mod read;
mod ring;
mod table;

use super::place::Call;
use super::recording::{PlaceId, Program};
use super::session::Options as SessionOptions;
use super::{clock, place, writer};
use error::FlightError;
use log::Tail;
use names::Names;
use parking_lot::Mutex;
use ring::{Kind, Mapped};
use std::ffi::{c_int, c_void};
use std::fmt::Display;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::SystemTime;

/// The mapped file of a folder.
const RING: &str = "ring.tw";
/// The file of names.
const NAMES: &str = "names.tw";
/// What went wrong.
const ERRORS: &str = "error.txt";
/// The last lines of the log.
const LOG: &str = "log.txt";
/// Graphs that are kept.
const GRAPHS: usize = 64;
/// Errors that are written; a program that lives with errors would do little else.
const MOST_ERRORS: usize = 64;

/// When readable files are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// On errors. A program that ends well leaves nothing.
    #[default]
    Errors,
    /// At the end too.
    End,
}

/// Where to and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// The folder of all ranks.
    pub(crate) path: PathBuf,
    pub(crate) rank: u32,
    pub(crate) mode: Mode,
}

/// The recorder of this process.
struct Recorder {
    options: Options,
    folder: PathBuf,
    pid: u32,
    ring: Mapped,
    names: Mutex<Names>,
    log: Mutex<Tail>,
    graphs: AtomicUsize,
    errors: Mutex<usize>,
    broken: AtomicBool,
}

static RECORDER: OnceLock<Recorder> = OnceLock::new();
static ON: AtomicBool = AtomicBool::new(false);
static STARTING: Mutex<()> = Mutex::new(());

/// Whether launches are noted.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Begins to record, until the process ends.
///
/// # Errors
/// It records with other options; the folder or a file cannot be made.
pub(crate) fn start(options: Options) -> Result<(), FlightError> {
    let _starting = STARTING.lock();
    if let Some(running) = RECORDER.get() {
        return match running.options == options {
            true => Ok(()),
            false => Err(FlightError::Running {
                folder: running.folder.clone(),
            }),
        };
    }
    let recorder = Recorder::new(options)?;
    if RECORDER.set(recorder).is_ok() {
        ON.store(true, Ordering::Relaxed);
        let known = (1..).take_while(|&id| place::get(id).is_some());
        known.for_each(place_is_known);
        // SAFETY: both functions stay as long as the process, and do not unwind.
        unsafe {
            on_exit(at_exit, std::ptr::null_mut());
            libc::pthread_atfork(None, None, Some(in_child));
        }
    }
    Ok(())
}

impl Recorder {
    fn new(options: Options) -> Result<Recorder, FlightError> {
        let start = writer::first(
            &SessionOptions {
                bits: 0,
                folder: None,
                rank: options.rank,
                settings: String::new(),
            },
            clock::now(),
        );
        let (seconds, pid) = (start.unix / 1_000_000_000, start.pid);
        let rank = format!("rank_{}", options.rank);
        let folder = options
            .path
            .join(rank)
            .join("rdr")
            .join(format!("{seconds}_{pid}"));
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| FlightError::Folder {
                path,
                error: error.into(),
            }
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(failed(&folder))?;
        let path = folder.join(RING);
        let ring = Mapped::create(&path).map_err(failed(&path))?;
        let path = folder.join(NAMES);
        let names = Names::create(&path, start).map_err(failed(&path))?;
        Ok(Recorder {
            log: Mutex::new(Tail::new(folder.join(LOG))),
            options,
            folder,
            pid,
            ring,
            names: Mutex::new(names),
            graphs: AtomicUsize::new(0),
            errors: Mutex::default(),
            broken: AtomicBool::new(false),
        })
    }

    /// Tells once that a file cannot be written.
    fn tell(&self, result: io::Result<()>, file: &str) {
        if let Err(error) = result
            && !self.broken.swap(true, Ordering::Relaxed)
        {
            let path = self.folder.join(file);
            let error = error.into();
            tracing::warn!("{}", FlightError::Write { path, error });
        }
    }

    fn name(&self, write: impl FnOnce(&mut Names) -> io::Result<()>) {
        if !self.broken.load(Ordering::Relaxed) {
            let written = write(&mut self.names.lock());
            self.tell(written, NAMES);
        }
    }

    /// Writes a file whole or not at all. It need not outlive the machine.
    fn write(&self, name: &str, text: &str) {
        let (path, part) = (self.folder.join(name), self.folder.join(format!("{name}.part")));
        let written = fs::write(&part, text).and_then(|()| fs::rename(&part, path));
        if written.is_err() {
            let _ = fs::remove_file(&part);
        }
        self.tell(written, name);
    }

    /// Writes what people read.
    fn report(&self) {
        let written = read::Flight::read(&self.folder).and_then(|flight| flight.write());
        if let Err(error) = written {
            self.tell(Err(io::Error::other(error.to_string())), "order.csv");
        }
    }
}

/// Notes that work is about to be given to a device.
#[inline]
pub(crate) fn launch(call: Call, program: u32, device: u32, stream: u64) {
    if let Some(recorder) = RECORDER.get() {
        let content = [joined(call.place, call.number), joined(program, device), stream];
        recorder.ring.push(Kind::Launch, content);
    }
}

/// Notes that a buffer was made or went.
pub(crate) fn memory(call: Call, buffer: u64, bytes: u64, made: bool) {
    if let Some(recorder) = RECORDER.get() {
        let content = [
            joined(call.place, call.number),
            buffer << 1 | u64::from(made),
            bytes,
        ];
        recorder.ring.push(Kind::Memory, content);
    }
}

fn joined(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Notes the place of a number.
#[cold]
pub(crate) fn place_is_known(id: PlaceId) {
    if let Some(recorder) = RECORDER.get() {
        recorder.name(|names| names.place(id));
    }
}

/// Notes a program that launches name, and the target of its device.
#[cold]
pub(crate) fn program(program: Program, target: &str) {
    if let Some(recorder) = RECORDER.get() {
        recorder.name(|names| names.program(program, target));
    }
}

/// Keeps the text of a graph, in place of that of the same number; `None` gets a new one, which is returned.
#[cold]
pub(crate) fn graph(number: Option<usize>, text: &str) -> Option<usize> {
    let recorder = RECORDER.get()?;
    let number = number.unwrap_or_else(|| {
        let next = recorder.graphs.fetch_add(1, Ordering::Relaxed);
        if let Some(old) = next.checked_sub(GRAPHS) {
            // Another thread may not have written it yet.
            let _ = fs::remove_file(recorder.folder.join(of_graph(old)));
        }
        next
    });
    if !recorder.broken.load(Ordering::Relaxed) {
        recorder.write(&of_graph(number), text);
    }
    Some(number)
}

fn of_graph(number: usize) -> String {
    format!("graph_{number}.ir")
}

/// Keeps a line of the log, which ends with a newline.
pub(crate) fn line(line: &str) {
    let Some(recorder) = RECORDER.get().filter(|_| is_on()) else {
        return;
    };
    // A warning about the files is a line of the log too.
    if !recorder.broken.load(Ordering::Relaxed) {
        let written = recorder.log.lock().push(line);
        recorder.tell(written, LOG);
    }
}

/// As [`error`], where the recorder is on.
#[cold]
pub(crate) fn failed(error: &dyn Display) {
    if is_on() {
        self::error(error);
    }
}

/// Writes an error, and what went before it.
#[cold]
pub(crate) fn error(error: &dyn Display) {
    let Some(recorder) = RECORDER.get() else { return };
    let mut errors = recorder.errors.lock();
    if *errors >= MOST_ERRORS {
        return;
    }
    *errors += 1;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let launches = recorder.ring.launches();
    let text = format!(
        "at {:.3} after {launches} launches\n{error}\n\n",
        since.unwrap_or_default().as_secs_f64()
    );
    let file = File::options()
        .create(true)
        .append(true)
        .open(recorder.folder.join(ERRORS));
    recorder.tell(file.and_then(|mut file| file.write_all(text.as_bytes())), ERRORS);
    recorder.report();
}

unsafe extern "C" {
    /// As `atexit`; the function gets the status.
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

extern "C" fn at_exit(status: c_int, _: *mut c_void) {
    // A panic must not leave a function of C.
    let _ = std::panic::catch_unwind(|| {
        let Some(recorder) = RECORDER.get() else { return };
        // A child that was forked is no part of the flight.
        if recorder.pid != std::process::id() {
            return;
        }
        recorder.ring.ended(status);
        let good = status == 0 && recorder.errors.try_lock().is_some_and(|errors| *errors == 0);
        match (recorder.options.mode, good) {
            (Mode::Errors, true) => {
                let _ = fs::remove_dir_all(&recorder.folder);
            }
            (Mode::Errors, false) | (Mode::End, _) => recorder.report(),
        }
    });
}

extern "C" fn in_child() {
    ON.store(false, Ordering::Relaxed);
}
