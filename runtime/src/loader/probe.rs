//! The first load of an unknown file, in a child process: a constructor that crashes, exits or hangs is a row in a
//! report and not the end of the program.
//!
//! A library has no program of its own to start, and a fork of a program with threads inherits the system loader's
//! tables in the middle of a change. So the child is the system's loader, started afresh on a program of a few bytes
//! that needs the plugin.

use super::sealed::Sealed;
use program::SIGN;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

mod child;
mod program;

/// How a load in a child process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProbeOutcome {
    /// It loaded.
    Ok,
    /// The system's loader refused it without running any of it. A `dlopen` of the file will say the same.
    LoadError {
        /// Its text.
        text: String,
    },
    /// A signal ended the child.
    Signal {
        /// The signal.
        number: i32,
        /// The last line on its standard error.
        said: String,
    },
    /// The child ended itself.
    Exited {
        /// The exit code.
        code: i32,
        /// The last line on its standard error.
        said: String,
    },
    /// It was still loading when the time was up.
    TimedOut {
        /// The limit in milliseconds.
        limit_ms: u64,
    },
}

impl fmt::Display for ProbeOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeOutcome::Ok => write!(f, "loads"),
            ProbeOutcome::LoadError { text } => write!(f, "{text}"),
            ProbeOutcome::Signal { number, said } => {
                write!(
                    f,
                    "it crashes while it is loaded (signal {number}{}){}",
                    signal_name(*number),
                    Said(said)
                )
            }
            ProbeOutcome::Exited { code, said } => {
                write!(
                    f,
                    "it ends the process while it is loaded (exit code {code}){}",
                    Said(said)
                )
            }
            ProbeOutcome::TimedOut { limit_ms } => {
                write!(f, "it is not loaded within {} s", *limit_ms as f64 / 1000.0)
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

/// Loads `path` in a child process.
///
/// # Errors
/// Where this cannot be done: on systems without glibc, in a program with raised privileges, where no process can be
/// started.
pub fn probe(path: &Path, limit: Duration) -> io::Result<ProbeOutcome> {
    if super::discover::privileged() {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the program runs with raised privileges",
        ));
    }
    // A name with a `$` would be expanded by the loader; it is passed as a descriptor of this process.
    let odd = path.as_os_str().as_encoded_bytes().contains(&b'$');
    let held = if odd { Some(File::open(path)?) } else { None };
    let path = match &held {
        Some(file) => path_of_descriptor(file.as_raw_fd()),
        None => path.to_path_buf(),
    };
    let outcome = load(&path, limit)?;
    let suspicious = matches!(outcome, ProbeOutcome::Signal { .. } | ProbeOutcome::Exited { .. });
    if suspicious && load(&file_of(c"gnu_get_libc_version")?, limit)? != ProbeOutcome::Ok {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the system's loader cannot be run here",
        ));
    }
    Ok(outcome)
}

fn load(path: &Path, limit: Duration) -> io::Result<ProbeOutcome> {
    let program = Sealed::new(&program::program(path)?)?;
    let mut command = Command::new(file_of(c"_r_debug")?);
    // Resolves every symbol at once, as RTLD_NOW does.
    command
        .arg(path_of_descriptor(program.fd()))
        .env("LD_BIND_NOW", "1");
    Ok(judge(child::run(command, limit)?, limit))
}

/// The path under which a child can open a descriptor of this process.
pub(super) fn path_of_descriptor(fd: RawFd) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{fd}", std::process::id()))
}

fn judge(end: child::End, limit: Duration) -> ProbeOutcome {
    use std::os::unix::process::ExitStatusExt;
    let child::End {
        status,
        output,
        errors,
    } = end;
    let Some(status) = status else {
        return ProbeOutcome::TimedOut {
            limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
        };
    };
    let errors = String::from_utf8_lossy(&errors);
    for mark in LOADER_MARKS {
        if let Some((_, text)) = errors.split_once(mark) {
            return ProbeOutcome::LoadError {
                text: text.lines().next().unwrap_or_default().into(),
            };
        }
    }
    let said = errors
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    let said = said.chars().take(200).collect();
    match (status.code(), status.signal()) {
        (Some(0), _) if output.windows(SIGN.len()).any(|part| part == SIGN) => ProbeOutcome::Ok,
        (Some(code), _) => ProbeOutcome::Exited { code, said },
        (None, signal) => ProbeOutcome::Signal {
            number: signal.unwrap_or(0),
            said,
        },
    }
}

/// How the texts of glibc's loader begin when it refuses a file in an orderly way.
const LOADER_MARKS: [&str; 2] = ["error while loading shared libraries: ", "symbol lookup error: "];

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
