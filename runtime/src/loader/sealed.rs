//! A copy of a file in memory that nobody can change any more: what was checked is what is loaded.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::path::PathBuf;

/// A sealed file in memory.
#[derive(Debug)]
pub struct Sealed {
    file: File,
}

impl Sealed {
    /// Copies `bytes` and seals the copy. `name` is for tools that list what a process has mapped.
    ///
    /// # Errors
    /// When the system has no memory for it or does not offer sealed files; when the process may not write files as large.
    pub fn new(name: &CStr, bytes: &[u8]) -> io::Result<Sealed> {
        room_for(bytes.len())?;
        let mut file = create(name)?;
        file.write_all(bytes)?;
        seal(&file)?;
        Ok(Sealed { file })
    }

    /// The path under which this process can load the copy. Valid while the value lives.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// The file descriptor behind [`Sealed::path`].
    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Keeps the copy and its path for as long as the process runs.
    ///
    /// The system's loader knows libraries by path; a path that another file could get later would give the old
    /// library for the new file.
    pub fn keep(self) {
        std::mem::forget(self.file);
    }
}

/// A write beyond the limit would end the process with SIGXFSZ.
fn room_for(len: usize) -> io::Result<()> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` lives through the call.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
    match known && (limit.rlim_cur as u128) < len as u128 {
        true => Err(io::Error::other(format!(
            "it has {len} bytes, and the process may write files of {} bytes (ulimit -f)",
            limit.rlim_cur
        ))),
        false => Ok(()),
    }
}

#[cfg(target_os = "linux")]
fn create(name: &CStr) -> io::Result<File> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // Kernels before 6.3 do not know MFD_EXEC; later ones may be set to require it.
    for flags in [flags | libc::MFD_EXEC, flags] {
        // SAFETY: the name ends in zero.
        let fd = unsafe { libc::memfd_create(name.as_ptr(), flags) };
        if fd >= 0 {
            // SAFETY: the descriptor was just created and belongs to nobody else.
            return Ok(unsafe { File::from_raw_fd(fd) });
        }
    }
    Err(io::Error::last_os_error())
}

#[cfg(target_os = "linux")]
fn seal(file: &File) -> io::Result<()> {
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE | libc::F_SEAL_SEAL;
    // SAFETY: the descriptor is open; the call changes no memory.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(not(target_os = "linux"))]
fn create(_: &CStr) -> io::Result<File> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this system has no sealed files",
    ))
}

#[cfg(not(target_os = "linux"))]
fn seal(_: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_copy_cannot_be_changed() {
        let sealed = Sealed::new(c"abc", b"abc").unwrap();
        assert_eq!(fs::read(sealed.path()).unwrap(), b"abc");
        let mut again = fs::OpenOptions::new().write(true).open(sealed.path()).unwrap();
        assert!(again.write_all(b"x").is_err() && again.set_len(1).is_err());
        assert_eq!(fs::read(sealed.path()).unwrap(), b"abc");
    }
}
