//! Files that appear whole or not at all.

use crate::error::{Error, Result};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The error of a call on `path`.
pub(super) fn failed(path: &Path) -> impl Fn(io::Error) -> Error {
    move |error| Error::File {
        path: path.to_owned(),
        error,
    }
}

/// A file of a name that nobody else writes to: neither another thread, nor a process of the same number in another container,
/// nor one that was killed.
fn temporary(folder: &Path, name: &OsStr) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut name = name.to_owned();
        name.push(format!(".{}.{number}.tmp", std::process::id()));
        let path = folder.join(name);
        match File::options().write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|file| (path, file)),
        }
    }
}

/// Writes a file under another name and gives it its own when it is on the disk, so that a reader, also after a crash, sees the
/// old file or the new one. Folders are made.
///
/// # Errors
/// That of `write`; the file cannot be made.
pub(super) fn replace(path: &Path, write: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    let parent = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = parent.unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(failed(path))?;
    let name = path.file_name().unwrap_or_default();
    let (temporary, mut file) = temporary(folder, name).map_err(failed(path))?;
    let result = write(&mut file).and_then(|()| {
        let finish = || {
            file.sync_all()?;
            fs::rename(&temporary, path)?;
            File::open(folder)?.sync_all()
        };
        finish().map_err(failed(path))
    });
    if result.is_err() {
        // It may not exist.
        let _ = fs::remove_file(&temporary);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn threads_that_write_one_path_do_not_mix_their_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/file");
        let save = |byte: u8| {
            replace(&path, |file| {
                for _ in 0..20 {
                    file.write_all(&[byte; 100]).map_err(failed(&path))?;
                    std::thread::yield_now();
                }
                Ok(())
            })
        };
        save(0).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    let bytes = fs::read(&path).unwrap();
                    assert!(bytes.len() == 2000 && bytes.iter().all(|byte| *byte == bytes[0]));
                }
            });
            let writers: Vec<_> = (1..=4)
                .map(|byte| scope.spawn(move || (0..20).try_for_each(|_| save(byte))))
                .collect();
            let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
            done.store(true, Ordering::SeqCst);
            reader.join().unwrap();
            written.into_iter().for_each(|result| result.unwrap().unwrap());
        });
        let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn files_that_others_left_are_passed_by_and_failed_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        // What processes of the same number may have left.
        for number in 0..1000 {
            let name = format!("file.{}.{number}.tmp", std::process::id());
            fs::write(folder.path().join(name), "others").unwrap();
        }
        let broken = || io::Error::other("no");
        assert!(replace(&path, |_| Err(failed(&path)(broken()))).is_err());
        assert!(!path.exists());
        replace(&path, |file| file.write_all(b"own").map_err(failed(&path))).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"own");
        let mut others = 0;
        for entry in fs::read_dir(folder.path()).unwrap() {
            others += usize::from(fs::read(entry.unwrap().path()).unwrap() == b"others");
        }
        assert_eq!(others, 1000);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1001);
    }
}
