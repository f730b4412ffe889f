//! Compiled programs on disk, so that a kernel is compiled once for a machine and not once for a process.
//!
//! A file is named by the SHA-256 of all that its content depends on. It starts with the SHA-256 of its name and the rest: a
//! file that broke, or took another's name, is built again. Files appear whole, by renaming, and one that cannot be written
//! costs time only.
//!
//! What is kept here runs with the rights of whoever loads it. So the folder and each file belong to the user of the process
//! and nobody else may write to them; others are passed over, and the reason is the error of [`Cache::store`]. A process with
//! more rights than its user's (set-user-ID and the like) keeps nothing, because its environment is its user's.

use crate::host::Host;
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
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
    /// it is `off`, there is no such folder, or the process has more rights than its user.
    pub fn folder(host: Host, key: &str, name: &str) -> Option<PathBuf> {
        let variable = |name: &str| std::env::var_os(name);
        choose(is_privileged(), host.config(key), variable, name)
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

    /// The bytes that were kept, if they are there, whole, and from this user.
    pub fn load(&self, key: &Key) -> Option<Vec<u8>> {
        let found = self.folder.as_ref().and_then(|folder| read(folder, key).ok());
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Keeps bytes.
    ///
    /// # Errors
    /// What the file system refused, or why the folder is not to be trusted; the cache works on without the entry.
    pub fn store(&self, key: &Key, bytes: &[u8]) -> io::Result<()> {
        match &self.folder {
            Some(folder) => write(folder, key, bytes),
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
}

fn choose(
    privileged: bool,
    setting: Option<String>,
    variable: impl Fn(&str) -> Option<OsString>,
    name: &str,
) -> Option<PathBuf> {
    let absolute = |name| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    match setting.as_deref() {
        // The setting may come from the environment too.
        _ if privileged => None,
        Some("off") => None,
        Some(folder) => Some(PathBuf::from(folder)),
        None => {
            let folder = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
            Some(folder.join("thalweg").join(name))
        }
    }
}

impl Key {
    fn file(&self) -> String {
        format!("{}.bin", self.0)
    }

    /// What a file with this content starts with.
    fn digest(&self, content: &[u8]) -> [u8; DIGEST] {
        Sha256::new()
            .chain_update(&self.0)
            .chain_update(content)
            .finalize()
            .into()
    }
}

fn read(folder: &Path, key: &Key) -> io::Result<Vec<u8>> {
    owned::check(folder, &fs::metadata(folder)?)?;
    let path = folder.join(key.file());
    let mut file = owned::open(&path)?;
    // Of the open file: another may have its name by now.
    owned::check(&path, &file.metadata()?)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    match bytes.split_at_checked(DIGEST) {
        Some((digest, content)) if key.digest(content) == digest => Ok(content.to_vec()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn write(folder: &Path, key: &Key, content: &[u8]) -> io::Result<()> {
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    owned::create_folder(folder)?;
    owned::check(folder, &fs::metadata(folder)?)?;
    let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let draft = folder.join(format!("{}.{}-{number}", key.0, std::process::id()));
    let fill = |mut file: File| {
        file.write_all(&key.digest(content))?;
        file.write_all(content)
    };
    // One of a process that had this number and died.
    drop(fs::remove_file(&draft));
    owned::create(&draft)
        .and_then(fill)
        .and_then(|()| fs::rename(&draft, folder.join(key.file())))
        .inspect_err(|_| drop(fs::remove_file(&draft)))
}

/// Whether the process runs with more rights than its user has, so that its environment may be an attacker's.
fn is_privileged() -> bool {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    // SAFETY: a plain call.
    return unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    #[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
    // SAFETY: plain calls.
    return unsafe { libc::geteuid() != libc::getuid() || libc::getegid() != libc::getgid() };
    #[cfg(not(unix))]
    return false;
}

/// Files and folders that only the user of this process may write to.
#[cfg(unix)]
mod owned {
    use std::fs::{DirBuilder, File, Metadata, OpenOptions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
    use std::path::Path;

    /// Refuses what belongs to someone else, and what others may write to.
    pub(super) fn check(path: &Path, found: &Metadata) -> io::Result<()> {
        // SAFETY: a plain call.
        let user = unsafe { libc::geteuid() };
        let (owner, mode) = (found.uid(), found.mode() & 0o7777);
        let why = if owner != user {
            format!("belongs to user {owner}, not to user {user} of this process")
        } else if mode & 0o022 != 0 {
            format!("may be written by others (mode {mode:o}); `chmod go-w` it or name another folder")
        } else {
            return Ok(());
        };
        let refused = io::ErrorKind::PermissionDenied;
        Err(io::Error::new(refused, format!("{} {why}", path.display())))
    }

    pub(super) fn create_folder(path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    /// A new file; none that is there already, whoever made it.
    pub(super) fn create(path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).open(path)
    }

    /// Links are not followed, and a pipe is not waited for.
    pub(super) fn open(path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        options.read(true).custom_flags(flags).open(path)
    }
}

/// Here the folder's own list of rights decides who may write.
#[cfg(not(unix))]
mod owned {
    use std::fs::{self, File, Metadata};
    use std::io;
    use std::path::Path;

    pub(super) fn check(_: &Path, _: &Metadata) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn create_folder(path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    pub(super) fn create(path: &Path) -> io::Result<File> {
        File::create_new(path)
    }

    pub(super) fn open(path: &Path) -> io::Result<File> {
        File::open(path)
    }
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

    /// A file under another's name is not taken for it: whole as it is, it holds another program.
    #[test]
    fn names_are_part_of_the_content() {
        let place = tempfile::tempdir().unwrap();
        let one = cache(place.path(), "one");
        let (key, other) = (one.key(&["key"]), one.key(&["other"]));
        one.store(&key, b"binary").unwrap();
        fs::rename(place.path().join(key.file()), place.path().join(other.file())).unwrap();
        assert_eq!(one.load(&other), None);
    }

    #[cfg(unix)]
    #[test]
    fn others_cannot_write_what_is_loaded() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("new/folder");
        let one = cache(&folder, "one");
        let key = one.key(&["key"]);
        one.store(&key, b"binary").unwrap();
        let file = folder.join(key.file());
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        for path in [&file, &folder] {
            let before = mode(path);
            for wide in [before | 0o020, before | 0o002] {
                set(path, wide);
                assert_eq!(one.load(&key), None, "{} of mode {wide:o}", path.display());
            }
            let refused = one.store(&key, b"binary");
            assert_eq!(refused.is_err(), path == &folder, "{refused:?}");
            set(path, before);
            one.store(&key, b"binary").unwrap();
            assert_eq!(one.load(&key).as_deref(), Some(&b"binary"[..]));
        }
        // Readable is harmless.
        set(&folder, 0o755);
        assert!(one.load(&key).is_some());
        // A link may lead to another's file.
        let moved = place.path().join("moved");
        fs::rename(&file, &moved).unwrap();
        std::os::unix::fs::symlink(&moved, &file).unwrap();
        assert_eq!(one.load(&key), None);
        // It is replaced, and what it names stays.
        one.store(&key, b"other").unwrap();
        assert_eq!(one.load(&key).as_deref(), Some(&b"other"[..]));
        assert!(fs::read(&moved).unwrap().ends_with(b"binary"));
    }

    /// What a stranger put there is refused by its owner, and the message says which folder and whose it is.
    #[cfg(unix)]
    #[test]
    fn owners_are_checked() {
        // SAFETY: a plain call.
        let is_root = unsafe { libc::geteuid() } == 0;
        let place = tempfile::tempdir().unwrap();
        // Root gives its own away; everybody else finds one of root's.
        let (foreign, owner) = match is_root {
            true => (place.path(), 65_534),
            false => (Path::new("/"), 0),
        };
        if is_root {
            std::os::unix::fs::chown(foreign, Some(owner), None).unwrap();
        }
        let one = cache(foreign, "one");
        let error = one.store(&one.key(&["key"]), b"binary").unwrap_err();
        let expected = format!("{} belongs to user {owner}, not to user ", foreign.display());
        assert!(error.to_string().starts_with(&expected), "{error}");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(one.load(&one.key(&["key"])), None);
    }

    #[test]
    fn folders_come_from_the_setting_then_the_environment() {
        let variables = |set: &'static [(&str, &str)]| {
            let find = |name: &str| set.iter().find(|(key, _)| *key == name);
            move |name: &str| find(name).map(|(_, value)| OsString::from(value))
        };
        let (home, both) = (
            &[("HOME", "/h")][..],
            &[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")][..],
        );
        let choose = |privileged, setting: Option<&str>, set| {
            let found = choose(privileged, setting.map(str::to_owned), variables(set), "cuda");
            found.map(|path| path.display().to_string())
        };
        assert_eq!(
            choose(false, None, home).as_deref(),
            Some("/h/.cache/thalweg/cuda")
        );
        assert_eq!(choose(false, None, both).as_deref(), Some("/x/thalweg/cuda"));
        assert_eq!(choose(false, None, &[("HOME", "relative")]), None);
        assert_eq!(choose(false, Some("/s"), both).as_deref(), Some("/s"));
        assert_eq!(choose(false, Some("off"), both), None);
        // With rights that its user lacks, a process listens to neither.
        for setting in [None, Some("/s")] {
            assert_eq!(choose(true, setting, both), None);
        }
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
