//! Files that appear whole or not at all: the one writer of them.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Links that are followed from one to the next, as the system does.
const MAX_LINKS: usize = 40;
/// Age from which a file that nobody has locked was left by a process that was killed: its owner locks it after it has made it.
const LEFT: Duration = Duration::from_secs(60);
const SUFFIX: &str = ".tmp";

/// Writes a file under another name and gives it its own when it is on the disk, so that a reader, also after a crash, sees the
/// old file or the new one. Folders are made. A symbolic link stays one, and the file that it leads to is replaced. The file keeps
/// its mode, and its owner where this process may give files away; other hard links keep the old content. What earlier writers of
/// the same path left when they were killed is removed.
///
/// # Errors
/// That of `write`; the file cannot be made; at `path` there is something else than a regular file.
pub fn replace<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<(), E> {
    let (path, old) = target(path)?;
    let folder = folder_of(&path);
    fs::create_dir_all(folder)?;
    let name = path.file_name().unwrap_or_default();
    remove_left(folder, name);
    let (temporary, mut file) = temporary(folder, name, old.as_ref())?;
    let result = write(&mut file).and_then(|()| Ok(finish(&file, &temporary, &path, old.as_ref())?));
    if result.is_err() {
        // It may not exist.
        let _ = fs::remove_file(&temporary);
    }
    result
}

/// Gives the file that was written the old one's mode and its name.
fn finish(file: &File, temporary: &Path, path: &Path, old: Option<&Metadata>) -> io::Result<()> {
    if let Some(old) = old {
        // Who is not root cannot give a file away; then it is this process's, with the old mode.
        let _ = fchown(file, Some(old.uid()), Some(old.gid()));
        file.set_permissions(old.permissions())?;
    }
    file.sync_all()?;
    fs::rename(temporary, path)?;
    File::open(folder_of(path))?.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// The file behind links that begin at `path`, and what is there now.
fn target(path: &Path) -> io::Result<(PathBuf, Option<Metadata>)> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let meta = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok((path, None)),
            meta => meta?,
        };
        if meta.is_file() {
            return Ok((path, Some(meta)));
        }
        if !meta.is_symlink() {
            let what = if meta.is_dir() {
                "a folder"
            } else {
                "a device, a pipe or a socket"
            };
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                format!(
                    "{} is {what}; files are written in place of regular files only",
                    path.display()
                ),
            ));
        }
        let to = fs::read_link(&path)?;
        path = path.parent().unwrap_or(Path::new("")).join(to);
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

/// A file of a name that nobody else writes to: neither another thread, nor a process of the same number in another container,
/// nor one that was killed.
fn temporary(folder: &Path, name: &OsStr, old: Option<&Metadata>) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // What only its owner may read is not shown to others while it is written.
    let mode = old.map_or(0o666, |old| old.mode() & 0o600);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut name = name.to_owned();
        name.push(format!(".{}.{number}{SUFFIX}", std::process::id()));
        let path = folder.join(name);
        match File::options()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path)
        {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(file) => {
                // Where the file system has no locks, nobody takes the file for one that was left before its age says so.
                let _ = file.try_lock();
                return Ok((path, file));
            }
        }
    }
}

/// Removes what writers of `name` left when they were killed: files of the names that they choose, old, and locked by nobody.
fn remove_left(folder: &Path, name: &OsStr) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if !is_temporary(entry.file_name(), name) {
            continue;
        }
        let path = entry.path();
        let age = entry
            .metadata()
            .and_then(|meta| meta.modified())
            .ok()
            .and_then(|time| time.elapsed().ok());
        let options = File::options()
            .write(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&path);
        if let (Some(age), Ok(file)) = (age, options)
            && age > LEFT
            && file.metadata().is_ok_and(|meta| meta.is_file())
            && file.try_lock().is_ok()
        {
            // Another process may have been faster.
            let _ = fs::remove_file(&path);
        }
    }
}

/// Whether `file` is `name`, two numbers and the suffix.
fn is_temporary(file: OsString, name: &OsStr) -> bool {
    let file = file.into_vec();
    let numbers = file
        .strip_prefix(name.as_bytes())
        .and_then(|rest| rest.strip_prefix(b"."))
        .and_then(|rest| rest.strip_suffix(SUFFIX.as_bytes()));
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    numbers.is_some_and(|numbers| {
        let mut parts = numbers.split(|&byte| byte == b'.');
        parts.next().is_some_and(is_number) && parts.next().is_some_and(is_number) && parts.next().is_none()
    })
}

#[cfg(test)]
mod tests;
