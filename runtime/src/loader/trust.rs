//! Who could have put a file where it is found: plugins are loaded only from places that root or the user alone write.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const GROUP: u32 = 0o020;
const OTHERS: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// How much of the group's write permission is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Neither group nor others may write.
    Strict,
    /// The group may write: for the folders that hold the running program itself, whoever may write there may
    /// replace the program too, and a umask of 002 makes every build folder such a folder.
    GroupMayWrite,
}

/// Why a place is not trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The system did not show it.
    #[error("cannot read {path}: {error}", path = .path.display())]
    Unreadable {
        /// The place.
        path: PathBuf,
        /// The system's text.
        error: String,
    },
    /// A file where a folder is expected, or the other way round.
    #[error("{path} is not a {expected}", path = .path.display())]
    Kind {
        /// The place.
        path: PathBuf,
        /// What was expected.
        expected: &'static str,
    },
    /// Others may write there.
    #[error("{path} can be written by {who} (mode {mode:04o}); run `chmod go-w {path}`", path = .path.display())]
    Writable {
        /// The place.
        path: PathBuf,
        /// `its group`, `others`.
        who: &'static str,
        /// Its permission bits.
        mode: u32,
    },
    /// It belongs to somebody else.
    #[error("{path} belongs to user {owner}; plugins are loaded from root's and user {own}'s files only", path = .path.display())]
    Owner {
        /// The place.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who is running.
        own: u32,
    },
}

/// Resolves links in `path` and checks the folder it leads to.
///
/// # Errors
/// [`TrustError`] with the place that was refused, which may be a folder above.
pub fn folder(path: &Path, strictness: Strictness) -> Result<PathBuf, TrustError> {
    let (path, meta) = resolve(path)?;
    if !meta.is_dir() {
        return Err(TrustError::Kind {
            path,
            expected: "folder",
        });
    }
    // In a sticky folder others may add files but not replace ours, and each file's owner is checked.
    if meta.mode() & STICKY == 0 {
        check_mode(&path, &meta, strictness)?;
    }
    check_owner(&path, &meta)?;
    check_above(&path)?;
    Ok(path)
}

/// Resolves links in `path` and checks the file it leads to.
///
/// # Errors
/// [`TrustError`] with the place that was refused, which may be a folder above.
pub fn file(path: &Path, strictness: Strictness) -> Result<PathBuf, TrustError> {
    let (path, meta) = resolve(path)?;
    if !meta.is_file() {
        return Err(TrustError::Kind {
            path,
            expected: "file",
        });
    }
    check_mode(&path, &meta, strictness)?;
    check_owner(&path, &meta)?;
    check_above(&path)?;
    Ok(path)
}

fn resolve(path: &Path) -> Result<(PathBuf, Metadata), TrustError> {
    let unreadable = |error: io::Error| TrustError::Unreadable {
        path: path.to_path_buf(),
        error: error.to_string(),
    };
    let path = path.canonicalize().map_err(unreadable)?;
    let meta = fs::metadata(&path).map_err(unreadable)?;
    Ok((path, meta))
}

fn check_mode(path: &Path, meta: &Metadata, strictness: Strictness) -> Result<(), TrustError> {
    let who = match meta.mode() {
        mode if mode & OTHERS != 0 => "others",
        mode if mode & GROUP != 0 && strictness == Strictness::Strict => "its group",
        _ => return Ok(()),
    };
    Err(TrustError::Writable {
        path: path.to_path_buf(),
        who,
        mode: meta.mode() & 0o7777,
    })
}

fn check_owner(path: &Path, meta: &Metadata) -> Result<(), TrustError> {
    // SAFETY: geteuid takes nothing and cannot fail.
    let own = unsafe { libc::geteuid() };
    match meta.uid() {
        0 => Ok(()),
        owner if owner == own => Ok(()),
        owner => Err(TrustError::Owner {
            path: path.to_path_buf(),
            owner,
            own,
        }),
    }
}

/// In a folder above that everybody may write, the checked folder could be exchanged after the check.
fn check_above(path: &Path) -> Result<(), TrustError> {
    for above in path.ancestors().skip(1) {
        let Ok(meta) = fs::metadata(above) else { continue };
        if meta.mode() & (OTHERS | STICKY) == OTHERS {
            let mode = meta.mode() & 0o7777;
            return Err(TrustError::Writable {
                path: above.to_path_buf(),
                who: "others",
                mode,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn modes_decide() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let (dir, lib) = (root.join("d"), root.join("d/f.so"));
        fs::create_dir(&dir).unwrap();
        fs::write(&lib, "x").unwrap();
        let refused = |mode, who| {
            Some(TrustError::Writable {
                path: dir.clone(),
                who,
                mode,
            })
        };
        for (mode, want) in [
            (0o755, None),
            (0o775, refused(0o775, "its group")),
            (0o757, refused(0o757, "others")),
            (0o1777, None),
        ] {
            chmod(&dir, mode);
            assert_eq!(folder(&dir, Strictness::Strict).err(), want, "{mode:o}");
        }
        chmod(&dir, 0o775);
        assert_eq!(folder(&dir, Strictness::GroupMayWrite), Ok(dir.clone()));
        chmod(&lib, 0o666);
        assert_eq!(
            file(&lib, Strictness::GroupMayWrite).unwrap_err().to_string(),
            format!(
                "{0} can be written by others (mode 0666); run `chmod go-w {0}`",
                lib.display()
            )
        );
        chmod(&lib, 0o644);
        assert_eq!(file(&lib, Strictness::Strict), Ok(lib.clone()));
        chmod(&dir, 0o777);
        assert!(
            matches!(file(&lib, Strictness::Strict), Err(TrustError::Writable { path, .. }) if path == dir)
        );
    }

    #[test]
    fn links_are_followed_before_the_check() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let (open, link) = (root.join("open"), root.join("link"));
        fs::create_dir(&open).unwrap();
        fs::write(open.join("f.so"), "x").unwrap();
        chmod(&open, 0o777);
        symlink(open.join("f.so"), &link).unwrap();
        assert!(
            matches!(file(&link, Strictness::Strict), Err(TrustError::Writable { path, .. }) if path == open)
        );
        assert!(matches!(
            folder(&link, Strictness::Strict),
            Err(TrustError::Kind {
                expected: "folder",
                ..
            })
        ));
        symlink("nowhere", root.join("dead")).unwrap();
        assert!(matches!(
            file(&root.join("dead"), Strictness::Strict),
            Err(TrustError::Unreadable { .. })
        ));
    }

    #[test]
    fn somebody_elses_file_is_refused() {
        // SAFETY: geteuid takes nothing and cannot fail.
        let own = unsafe { libc::geteuid() };
        let temp = tempfile::NamedTempFile::new().unwrap();
        if own == 0 {
            std::os::unix::fs::chown(temp.path(), Some(12345), None).unwrap();
            assert!(matches!(
                file(temp.path(), Strictness::Strict),
                Err(TrustError::Owner { owner: 12345, .. })
            ));
        } else {
            assert!(file(temp.path(), Strictness::Strict).is_ok());
            assert!(file(Path::new("/etc/passwd"), Strictness::Strict).is_ok());
        }
    }
}
