//! Compiled programs on disk, so that a kernel is compiled once for a machine and not once for a process.
//!
//! A file is named by the SHA-256 of all that its content depends on. It starts with the SHA-256 of the rest: a file that
//! broke is built again. Files appear whole, by renaming, and one that cannot be written costs time only.

use crate::host::Host;
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Length of a digest.
const DIGEST: usize = 32;

/// A folder of programs for one device and driver.
#[derive(Debug)]
pub struct Cache {
    folder: Option<PathBuf>,
    device: String,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// What one entry is for.
#[derive(Debug)]
pub struct Key(String);

impl Cache {
    /// A cache in `folder`, or none; `device` is the text that tells devices, drivers and versions of the backend apart.
    pub fn new(folder: Option<PathBuf>, device: String) -> Cache {
        Cache {
            folder,
            device,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The folder that the configuration key `key` names, `thalweg/NAME` in the user's cache folder without it, and none when
    /// it is `off` or there is no such folder.
    pub fn folder(host: Host, key: &str, name: &str) -> Option<PathBuf> {
        match host.config(key) {
            Some(value) if value == "off" => None,
            Some(value) => Some(PathBuf::from(value)),
            None => {
                let absolute = |name| {
                    let path = std::env::var_os(name).map(PathBuf::from);
                    path.filter(|path| path.is_absolute())
                };
                let folder = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
                Some(folder.join("thalweg").join(name))
            }
        }
    }

    /// Whether anything is kept.
    pub fn is_on(&self) -> bool {
        self.folder.is_some()
    }

    /// The key of what is made from `parts` for this device.
    pub fn key(&self, parts: &[&str]) -> Key {
        let mut hash = Sha256::new();
        for part in [env!("CARGO_PKG_VERSION"), &self.device].iter().chain(parts) {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Key(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The bytes that were kept, if they are there and whole.
    pub fn load(&self, key: &Key) -> Option<Vec<u8>> {
        let found = self.path(key).and_then(|path| read(&path));
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Keeps bytes.
    ///
    /// # Errors
    /// What the file system refused; the cache works on without the entry.
    pub fn store(&self, key: &Key, bytes: &[u8]) -> io::Result<()> {
        match self.path(key) {
            Some(path) => write(&path, bytes),
            None => Ok(()),
        }
    }

    /// Entries found and not found so far.
    pub fn counts(&self) -> (u64, u64) {
        (
            self.hits.load(Ordering::Relaxed),
            self.misses.load(Ordering::Relaxed),
        )
    }

    fn path(&self, key: &Key) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        Some(folder.join(format!("{}.bin", key.0)))
    }
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let bytes = fs::read(path).ok()?;
    let (digest, content) = bytes.split_at_checked(DIGEST)?;
    (Sha256::digest(content).as_slice() == digest).then(|| content.to_vec())
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    let folder = path.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder)?;
    let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let draft = path.with_extension(format!("{}-{number}", std::process::id()));
    let mut bytes = Sha256::digest(content).to_vec();
    bytes.extend(content);
    fs::write(&draft, bytes)
        .and_then(|()| fs::rename(&draft, path))
        .inspect_err(|_| drop(fs::remove_file(&draft)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(folder: &Path, device: &str) -> Cache {
        Cache::new(Some(folder.to_owned()), device.to_owned())
    }

    #[test]
    fn keeps_what_it_is_given_and_notices_what_broke() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("deep/down");
        let one = cache(&folder, "one");
        let key = one.key(&["source", "options"]);
        assert_eq!(one.load(&key), None);
        one.store(&key, b"binary").unwrap();
        assert_eq!(one.load(&key).as_deref(), Some(&b"binary"[..]));
        assert_eq!(one.counts(), (1, 1));
        let files: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(files.len(), 1, "no draft is left: {files:?}");
        let whole = fs::read(&files[0]).unwrap();
        for broken in [&whole[..whole.len() - 1], &whole[..10], &[]] {
            fs::write(&files[0], broken).unwrap();
            assert_eq!(one.load(&key), None);
        }
        one.store(&key, b"again").unwrap();
        assert_eq!(one.load(&key).as_deref(), Some(&b"again"[..]));
    }

    #[test]
    fn keys_tell_devices_and_parts_apart() {
        let place = tempfile::tempdir().unwrap();
        let (one, other) = (cache(place.path(), "one"), cache(place.path(), "other"));
        let keys = [
            one.key(&["ab", "c"]),
            one.key(&["a", "bc"]),
            one.key(&["abc"]),
            other.key(&["ab", "c"]),
        ];
        for (i, key) in keys.iter().enumerate() {
            assert!(keys[i + 1..].iter().all(|next| next.0 != key.0));
        }
        assert_eq!(one.key(&["x"]).0, one.key(&["x"]).0);
    }

    #[test]
    fn without_a_folder_nothing_is_kept() {
        let none = Cache::new(None, String::new());
        let key = none.key(&["x"]);
        none.store(&key, b"x").unwrap();
        assert_eq!(none.load(&key), None);
    }
}
