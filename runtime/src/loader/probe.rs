//! The first load of an unknown file, in a child process: a constructor that crashes, exits or hangs is a row in a
//! report and not the end of the program. The child goes as far as the host does before it opens a device: it runs the entry
//! function, reads the tables and lists the devices. Then it exits as the host will, with the destructors.
//!
//! A library has no program of its own to start, and a fork of a program with threads inherits the system loader's
//! tables in the middle of a change. So the child is the system's loader, started afresh on a program of a few bytes
//! that calls what this process tells it to call.

use super::sealed::Sealed;
use child::{Lost, Remote};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};
use steps::{Found, Steps};

mod child;
mod code;
mod program;
mod steps;

/// How many times the limit of the rest the list of devices and the end have: drivers start and stop then.
const DEVICES: u32 = 6;

/// What the child was at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum During {
    /// The load, with the constructors.
    Load,
    /// The entry function and the tables.
    Start,
    /// The list of devices.
    Devices,
    /// The destructors, when the process exits.
    End,
}

impl fmt::Display for During {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            During::Load => "while it is loaded",
            During::Start => "while it starts",
            During::Devices => "while it lists its devices",
            During::End => "while its destructors run",
        })
    }
}

/// How a trial in a child process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProbeOutcome {
    /// It came to its end.
    Ok,
    /// The system's loader refused it without running any of it.
    LoadError {
        /// Its text.
        text: String,
    },
    /// What it handed over cannot be used.
    Unsound {
        /// Why.
        text: String,
    },
    /// A signal ended the child.
    Signal {
        /// What it was at.
        during: During,
        /// The signal.
        number: i32,
        /// The last line on its standard error.
        said: String,
    },
    /// The child ended itself.
    Exited {
        /// What it was at.
        during: During,
        /// The exit code; not known in a program that ignores SIGCHLD.
        code: Option<i32>,
        /// The last line on its standard error.
        said: String,
    },
    /// It had not done when the time was up.
    TimedOut {
        /// What it was at.
        during: During,
        /// The limit in milliseconds.
        limit_ms: u64,
    },
}

impl fmt::Display for ProbeOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeOutcome::Ok => write!(f, "loads"),
            ProbeOutcome::LoadError { text } | ProbeOutcome::Unsound { text } => write!(f, "{text}"),
            ProbeOutcome::Signal { during, number, said } => {
                let name = signal_name(*number);
                write!(f, "it crashes {during} (signal {number}{name}){}", Said(said))
            }
            ProbeOutcome::Exited { during, code, said } => {
                let code = code.map_or_else(|| "code unknown".into(), |code| format!("exit code {code}"));
                write!(f, "it ends the process {during} ({code}){}", Said(said))
            }
            ProbeOutcome::TimedOut { during, limit_ms } => {
                let done = match during {
                    During::Load => "loaded",
                    During::Start => "started",
                    During::Devices => "ready to list its devices",
                    During::End => "done with its destructors",
                };
                write!(f, "it is not {done} within {} s", *limit_ms as f64 / 1000.0)
            }
        }
    }
}

impl ProbeOutcome {
    /// Whether the file alone decides it: not a library that may be installed, a driver, or a machine that was busy.
    pub(super) fn is_the_files(&self) -> bool {
        match self {
            ProbeOutcome::Ok => true,
            ProbeOutcome::Signal { during, .. } | ProbeOutcome::Exited { during, .. } => {
                *during == During::Load
            }
            ProbeOutcome::LoadError { .. } | ProbeOutcome::Unsound { .. } | ProbeOutcome::TimedOut { .. } => {
                false
            }
        }
    }
}

struct Said<'a>(&'a str);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, ": {}", self.0)
        }
    }
}

fn signal_name(number: i32) -> &'static str {
    match number {
        libc::SIGSEGV => ", SIGSEGV",
        libc::SIGBUS => ", SIGBUS",
        libc::SIGILL => ", SIGILL",
        libc::SIGFPE => ", SIGFPE",
        libc::SIGABRT => ", SIGABRT",
        libc::SIGTRAP => ", SIGTRAP",
        libc::SIGKILL => ", SIGKILL",
        libc::SIGTERM => ", SIGTERM",
        libc::SIGSYS => ", SIGSYS",
        _ => "",
    }
}

/// Tries the plugin at `path` in a child process: the load and the start within `limit`, the list of devices and the exit within six
/// times that.
///
/// # Errors
/// Where this cannot be done: on systems without glibc, in a program with raised privileges, where no process can be
/// started, where /proc is missing.
pub fn probe(path: &Path, limit: Duration) -> io::Result<ProbeOutcome> {
    if super::discover::privileged() {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the program runs with raised privileges",
        ));
    }
    // A name with a `$` would be expanded by the loader.
    let file = super::lock::regular(path)?;
    let path = path_of_descriptor(file.as_raw_fd());
    let program = Sealed::new(c"thalweg-trial", &program::program(&file_of(c"dlopen")?)?)?;
    let mut command = Command::new(file_of(c"_r_debug")?);
    command.arg(path_of_descriptor(program.fd()));
    let begun = Instant::now();
    // Until the program answers, nothing of the plugin runs.
    let mut remote = Remote::start(command, begun + limit).map_err(no_trial)?;
    let mut steps = Steps {
        remote: &mut remote,
        during: During::Load,
    };
    let run = steps.run(&path, begun + limit * DEVICES);
    let during = steps.during;
    let outcome = match run {
        Ok(Found::Sound) => ProbeOutcome::Ok,
        Ok(Found::Refused(text)) => ProbeOutcome::LoadError { text },
        Ok(Found::Unsound(text)) => ProbeOutcome::Unsound { text },
        Err(Lost::System(error)) => return Err(error),
        Err(Lost::TimedOut) => {
            let limit = match during {
                During::Load | During::Start => limit,
                During::Devices | During::End => limit * DEVICES,
            };
            let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
            ProbeOutcome::TimedOut { during, limit_ms }
        }
        Err(Lost::Ended(status)) => ended(during, status, remote.last_words()),
    };
    Ok(outcome)
}

fn no_trial(lost: Lost) -> io::Error {
    match lost {
        Lost::System(error) => error,
        Lost::TimedOut => io::Error::new(
            io::ErrorKind::TimedOut,
            "the system's loader did not start in time",
        ),
        Lost::Ended(_) => io::Error::new(
            io::ErrorKind::Unsupported,
            "the system's loader cannot be run here",
        ),
    }
}

fn ended(during: During, status: Option<ExitStatus>, said: String) -> ProbeOutcome {
    use std::os::unix::process::ExitStatusExt;
    match status.and_then(|status| status.signal()) {
        Some(number) => ProbeOutcome::Signal { during, number, said },
        None => ProbeOutcome::Exited {
            during,
            code: status.and_then(|status| status.code()),
            said,
        },
    }
}

/// The path under which a child can open a descriptor of this process.
pub(super) fn path_of_descriptor(fd: RawFd) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{fd}", std::process::id()))
}

/// The file that defines `symbol` in this process.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn file_of(symbol: &std::ffi::CStr) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let missing = || io::Error::new(io::ErrorKind::NotFound, "the system's loader was not found");
    // SAFETY: the name ends in zero; `info` lives through the call, and is read only after a success, when its file
    // name points to a text that lives as long as the library.
    let name = unsafe {
        let address = libc::dlsym(libc::RTLD_DEFAULT, symbol.as_ptr());
        let mut info: libc::Dl_info = std::mem::zeroed();
        if address.is_null() || libc::dladdr(address, &mut info) == 0 || info.dli_fname.is_null() {
            return Err(missing());
        }
        std::ffi::CStr::from_ptr(info.dli_fname)
    };
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes()));
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(missing())
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn file_of(_: &std::ffi::CStr) -> io::Result<PathBuf> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this system's loader cannot be asked",
    ))
}

#[cfg(test)]
mod tests;
