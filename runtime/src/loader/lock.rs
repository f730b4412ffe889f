//! The lock file of a backend folder: which files may load, and with which content.
//!
//! `thalweg-plugins.lock` has one line `sha256  filename` a file, as `sha256sum` writes and checks it. A folder that
//! has one loads the listed files only.

use super::discover::target_of;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use thalweg_hal::kit::file::replace;

/// The lock file's name.
pub const LOCK_FILE: &str = "thalweg-plugins.lock";

const MAX_LEN: u64 = 1 << 20;

/// Why a lock file keeps a plugin from loading, or cannot be used itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The system refused.
    #[error("cannot {action} {path}: {error}", path = .path.display())]
    Io {
        /// `read`, `write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's text.
        error: String,
    },
    /// A line that cannot be read.
    #[error("line {line} of {path} is not `sha256  filename`; write it anew with `thalweg plugins lock`", path = .path.display())]
    Line {
        /// The lock file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// The folder has a lock file that does not list the file.
    #[error("{file} is not listed in {LOCK_FILE}; add it with `thalweg plugins lock` when you trust it")]
    Unlisted {
        /// The file's name.
        file: String,
    },
    /// The content differs from what was locked.
    #[error(
        "{file} has changed since it was locked (sha256 {found:.12}…, locked {locked:.12}…); lock it again when you trust it"
    )]
    Changed {
        /// The file's name.
        file: String,
        /// The sum in the lock file.
        locked: String,
        /// The sum of the file.
        found: String,
    },
    /// Not the file of a plugin.
    #[error("{path} is not the file of a plugin (libthalweg_NAME.so)", path = .path.display())]
    NotAPlugin {
        /// What was given.
        path: PathBuf,
    },
}

impl LockError {
    fn io(action: &'static str, path: &Path, error: &io::Error) -> LockError {
        LockError::Io {
            action,
            path: path.to_path_buf(),
            error: error.to_string(),
        }
    }
}

/// A lock file's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    sums: BTreeMap<String, String>,
}

impl Lock {
    /// Reads the lock file of `folder`; `None` when it has none.
    ///
    /// # Errors
    /// When there is one that cannot be read; its folder then loads nothing.
    pub fn of_folder(folder: &Path) -> Result<Option<Lock>, LockError> {
        let path = folder.join(LOCK_FILE);
        let unreadable = |error: io::Error| LockError::io("read", &path, &error);
        let file = match regular(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.symlink_metadata().is_err() => {
                return Ok(None);
            }
            Err(error) => return Err(unreadable(error)),
        };
        let mut text = String::new();
        file.take(MAX_LEN + 1)
            .read_to_string(&mut text)
            .map_err(unreadable)?;
        if text.len() as u64 > MAX_LEN {
            return Err(LockError::Line { path, line: 1 });
        }
        let mut lock = Lock::default();
        for (i, line) in text.lines().enumerate() {
            let entry = line.split_once("  ").filter(|(sum, file)| {
                sum.len() == 64 && sum.bytes().all(|b| b.is_ascii_hexdigit()) && !file.contains('/')
            });
            let Some((sum, file)) = entry else {
                return Err(LockError::Line { path, line: i + 1 });
            };
            lock.sums.insert(file.into(), sum.to_ascii_lowercase());
        }
        Ok(Some(lock))
    }

    /// The listed files.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.sums.keys().map(String::as_str)
    }

    /// Checks `bytes`, the content of `file`.
    ///
    /// # Errors
    /// When the file is not listed or its content is not the locked one.
    pub fn check(&self, file: &str, bytes: &[u8]) -> Result<(), LockError> {
        let Some(locked) = self.sums.get(file) else {
            return Err(LockError::Unlisted { file: file.into() });
        };
        let found = sha256(bytes);
        if *locked == found {
            return Ok(());
        }
        Err(LockError::Changed {
            file: file.into(),
            locked: locked.clone(),
            found,
        })
    }

    fn write(&self, folder: &Path) -> Result<PathBuf, LockError> {
        let mut text = String::new();
        for (file, sum) in &self.sums {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{sum}  {file}");
        }
        let path = folder.join(LOCK_FILE);
        replace(&path, |file| file.write_all(text.as_bytes()))
            .map_err(|error| LockError::io("write", &path, &error))?;
        Ok(path)
    }
}

/// The SHA-256 sum of `bytes` in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Opens a file to read it. What is no regular file is refused, and is not waited for.
pub(super) fn regular(path: &Path) -> io::Result<fs::File> {
    let refused = || io::Error::other("it is no regular file");
    // A device may do something when it is opened.
    if !fs::metadata(path)?.is_file() {
        return Err(refused());
    }
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(refused()),
    }
}

/// Writes the lock files for `paths`: a folder stands for all of its plugins and is locked anew, a file is added to
/// the lock of its folder. Returns the lock files written.
///
/// # Errors
/// The first path that cannot be read or is no plugin.
pub fn lock(paths: &[PathBuf]) -> Result<Vec<PathBuf>, LockError> {
    let mut locks: BTreeMap<PathBuf, Lock> = BTreeMap::new();
    for path in paths {
        let path = path
            .canonicalize()
            .map_err(|error| LockError::io("read", path, &error))?;
        let (folder, files) = if path.is_dir() {
            locks.insert(path.clone(), Lock::default());
            let files = plugins_in(&path)?;
            (path, files)
        } else {
            let file = plugin_name(&path)?;
            (path.parent().unwrap_or(Path::new("/")).to_path_buf(), vec![file])
        };
        if !locks.contains_key(&folder) {
            locks.insert(folder.clone(), Lock::of_folder(&folder)?.unwrap_or_default());
        }
        for file in files {
            let path = folder.join(&file);
            let bytes = content(&path)?;
            locks
                .entry(folder.clone())
                .or_default()
                .sums
                .insert(file, sha256(&bytes));
        }
    }
    locks.iter().map(|(folder, lock)| lock.write(folder)).collect()
}

/// Takes `file` out of the lock of `folder`, where there is one.
///
/// # Errors
/// When the lock file cannot be read or written.
pub fn forget(folder: &Path, file: &str) -> Result<(), LockError> {
    let Some(mut lock) = Lock::of_folder(folder)? else {
        return Ok(());
    };
    if lock.sums.remove(file).is_some() {
        lock.write(folder)?;
    }
    Ok(())
}

/// A file's name and whether it is the locked one.
pub type Verified = (String, Result<(), LockError>);

/// Checks every file that is in `folder` or listed in its lock file; one row each, sorted by name.
///
/// # Errors
/// When the folder or its lock file cannot be read.
pub fn verify(folder: &Path) -> Result<Vec<Verified>, LockError> {
    let missing = || LockError::io("read", &folder.join(LOCK_FILE), &io::ErrorKind::NotFound.into());
    let lock = Lock::of_folder(folder)?.ok_or_else(missing)?;
    let files: BTreeSet<String> = plugins_in(folder)?
        .into_iter()
        .chain(lock.files().map(String::from))
        .collect();
    let judge = |file: &String| {
        let path = folder.join(file);
        let bytes = content(&path)?;
        lock.check(file, &bytes)
    };
    Ok(files
        .into_iter()
        .map(|file| (file.clone(), judge(&file)))
        .collect())
}

fn content(path: &Path) -> Result<Vec<u8>, LockError> {
    let mut bytes = Vec::new();
    regular(path)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .map_err(|error| LockError::io("read", path, &error))?;
    Ok(bytes)
}

fn plugins_in(folder: &Path) -> Result<Vec<String>, LockError> {
    let entries = fs::read_dir(folder).map_err(|error| LockError::io("read", folder, &error))?;
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.filter(|name| target_of(name).is_some()).collect())
}

fn plugin_name(path: &Path) -> Result<String, LockError> {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .filter(|name| target_of(name).is_some());
    name.map(String::from).ok_or_else(|| LockError::NotAPlugin {
        path: path.to_path_buf(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::discover::file_name;

    #[test]
    fn locked_files_pass_and_others_do_not() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().canonicalize().unwrap();
        let (a, b) = (file_name("a"), file_name("b"));
        assert_eq!(Lock::of_folder(&dir), Ok(None));
        fs::write(dir.join(&a), "abc").unwrap();
        fs::write(dir.join("readme"), "").unwrap();
        assert_eq!(lock(std::slice::from_ref(&dir)).unwrap(), [dir.join(LOCK_FILE)]);
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(
            fs::read_to_string(dir.join(LOCK_FILE)).unwrap(),
            format!("{sum}  {a}\n")
        );
        fs::write(dir.join(&b), "new").unwrap();
        let rows = verify(&dir).unwrap();
        assert_eq!(rows[0], (a.clone(), Ok(())));
        assert_eq!(
            rows[1].1.as_ref().unwrap_err().to_string(),
            format!(
                "{b} is not listed in thalweg-plugins.lock; add it with `thalweg plugins lock` when you trust it"
            )
        );
        lock(&[dir.join(&b)]).unwrap();
        assert!(verify(&dir).unwrap().iter().all(|(_, row)| row.is_ok()));
        forget(&dir, &b).unwrap();
        assert_eq!(
            Lock::of_folder(&dir)
                .unwrap()
                .unwrap()
                .files()
                .collect::<Vec<_>>(),
            [a.as_str()]
        );
        lock(&[dir.join(&b)]).unwrap();
        fs::write(dir.join(&a), "abd").unwrap();
        assert_eq!(
            verify(&dir).unwrap()[0].1.as_ref().unwrap_err().to_string(),
            format!(
                "{a} has changed since it was locked (sha256 a52d159f262b…, locked ba7816bf8f01…); \
                 lock it again when you trust it"
            )
        );
        fs::remove_file(dir.join(&b)).unwrap();
        assert!(matches!(
            verify(&dir).unwrap()[1].1,
            Err(LockError::Io { action: "read", .. })
        ));
    }

    #[test]
    fn a_damaged_lock_file_names_its_line() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join(LOCK_FILE);
        for text in ["nonsense\n", "00  f\n", &format!("{}  ../f\n", "0".repeat(64))] {
            fs::write(&path, text).unwrap();
            assert_eq!(
                Lock::of_folder(temp.path()),
                Err(LockError::Line {
                    path: path.clone(),
                    line: 1
                }),
                "{text}"
            );
        }
        assert!(matches!(
            lock(std::slice::from_ref(&path)),
            Err(LockError::NotAPlugin { .. })
        ));
    }
}
