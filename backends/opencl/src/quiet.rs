//! Keeps a compiler off the process's standard error.
//!
//! PoCL's compiler counts its errors there, beside the log that it hands out. While it runs, file 2 of the process is a file
//! in memory; afterwards the compiler's lines go to the log, and what anybody else wrote meanwhile goes where it belongs.

use parking_lot::Mutex;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use thalweg_hal::Host;
use thalweg_hal::tables::LogLevel;

// There is one file 2 in a process.
static STANDARD_ERROR: Mutex<()> = Mutex::new(());

struct Diverted {
    original: File,
    memory: File,
}

impl Diverted {
    fn new() -> Option<Diverted> {
        // SAFETY: plain calls; both descriptors are ours when they are not negative.
        unsafe {
            let memory = libc::memfd_create(c"compiler".as_ptr(), libc::MFD_CLOEXEC);
            if memory < 0 {
                return None;
            }
            let memory = File::from(OwnedFd::from_raw_fd(memory));
            let original = libc::fcntl(2, libc::F_DUPFD_CLOEXEC, 3);
            if original < 0 {
                return None;
            }
            let original = File::from(OwnedFd::from_raw_fd(original));
            (libc::dup2(memory.as_raw_fd(), 2) >= 0).then_some(Diverted { original, memory })
        }
    }
}

impl Drop for Diverted {
    fn drop(&mut self) {
        // SAFETY: both descriptors are open.
        unsafe { libc::dup2(self.original.as_raw_fd(), 2) };
    }
}

/// Whether the line is a compiler's count: `2 errors generated.`, `1 warning and 1 error generated.`
fn is_count(line: &str) -> bool {
    let mut words = line.split(' ');
    words.next().is_some_and(|word| word.parse::<u32>().is_ok())
        && words
            .next()
            .is_some_and(|word| word.starts_with("error") || word.starts_with("warning"))
        && line.ends_with("generated.")
}

/// Runs `compile` with standard error diverted.
pub(crate) fn quietly<R>(host: Host, compile: impl FnOnce() -> R) -> R {
    let _lock = STANDARD_ERROR.lock();
    let Some(diverted) = Diverted::new() else {
        return compile();
    };
    let result = compile();
    let (memory, original) = (diverted.memory.try_clone(), diverted.original.try_clone());
    drop(diverted);
    if let (Ok(mut memory), Ok(mut original)) = (memory, original) {
        let mut bytes = Vec::new();
        if memory
            .rewind()
            .and_then(|()| memory.read_to_end(&mut bytes))
            .is_ok()
        {
            for line in bytes.split_inclusive(|&byte| byte == b'\n') {
                match std::str::from_utf8(line).map(str::trim_end) {
                    Ok(text) if is_count(text) => host.log(LogLevel::Debug, "opencl", text),
                    // There is nobody to tell when standard error refuses it.
                    _ => drop(original.write_all(line)),
                }
            }
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::is_count;

    #[test]
    fn counts_of_a_compiler() {
        for line in [
            "1 error generated.",
            "2 errors generated.",
            "1 warning and 2 errors generated.",
        ] {
            assert!(is_count(line), "{line}");
        }
        for line in [
            "",
            "2 errors",
            "errors generated.",
            "3 files generated.",
            "x errors generated.",
        ] {
            assert!(!is_count(line), "{line}");
        }
    }
}
