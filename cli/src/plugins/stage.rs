//! How an installation becomes all or nothing.

use super::install::Result;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use thalweg::loader::discover::target_of;
use thalweg::loader::lock;

/// How the names of folders of unfinished installations begin.
const STAGE: &str = ".installing.";
/// Within the stage: the plugins that are replaced.
const OLD: &str = "old";

/// The names of the plugin files in `folder`, sorted.
pub(super) fn plugins_in(folder: &Path) -> Result<Vec<String>> {
    let unreadable = |error: io::Error| format!("cannot read {}: {error}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name().into_string().ok();
        names.extend(name.filter(|name| target_of(name).is_some()));
    }
    names.sort();
    Ok(names)
}

/// Folders that were made for an installation; removed again unless it succeeds.
pub(super) struct Made(Vec<PathBuf>);

impl Made {
    pub(super) fn folders(place: &Path) -> Result<Made> {
        let missing = place.ancestors().take_while(|path| !path.exists());
        let made = Made(missing.map(Path::to_path_buf).collect());
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(place)
            .map_err(|error| format!("cannot make {}: {error}", place.display()))?;
        Ok(made)
    }

    pub(super) fn keep(&mut self) {
        self.0.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for folder in &self.0 {
            // A folder that somebody else uses by now is not empty and stays.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// While this lives, no other process installs into the folder.
pub(super) struct Alone {
    _folder: File,
}

impl Alone {
    pub(super) fn in_folder(folder: &Path) -> Result<Alone> {
        let shown = folder.display();
        let file = File::open(folder).map_err(|error| format!("cannot read {shown}: {error}"))?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => format!("another `thalweg plugins` is changing {shown}"),
            TryLockError::Error(error) => format!("cannot lock {shown}: {error}"),
        })?;
        Ok(Alone { _folder: file })
    }
}

/// The folder of an installation under way; removed with what is left in it.
pub(super) struct Stage {
    pub(super) folder: PathBuf,
    _alone: Alone,
}

impl Stage {
    /// A stage inside `place`, so that files move from one to the other within a file system.
    pub(super) fn new(place: &Path) -> Result<Stage> {
        let alone = Alone::in_folder(place)?;
        for entry in fs::read_dir(place)?.flatten() {
            // Nobody else installs here now: a killed process left this.
            if entry.file_name().to_string_lossy().starts_with(STAGE) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        let folder = place.join(format!("{STAGE}{}", std::process::id()));
        DirBuilder::new()
            .mode(0o755)
            .create(&folder)
            .map_err(|error| format!("cannot write to {}: {error}", place.display()))?;
        Ok(Stage {
            folder,
            _alone: alone,
        })
    }

    /// Moves `files` to their place and locks them; when that fails, what was there is put back. Without a lock so far, the other
    /// plugins of the folder are locked too, or a lock of the new ones would end their use.
    pub(super) fn commit(&self, place: &Path, files: &[&str], was_locked: bool) -> Result<()> {
        let old = self.folder.join(OLD);
        fs::create_dir(&old)?;
        for file in files.iter().filter(|file| place.join(file).exists()) {
            fs::hard_link(place.join(file), old.join(file))?;
        }
        let mut done = (files.iter())
            .try_for_each(|file| fs::rename(self.folder.join(file), place.join(file)))
            .map_err(|error| format!("cannot write to {}: {error}", place.display()).into());
        if done.is_ok() {
            let locked = if was_locked {
                files.iter().map(|file| place.join(file)).collect()
            } else {
                vec![place.to_owned()]
            };
            done = lock::lock(&locked).map(drop).map_err(Into::into);
        }
        if done.is_err() {
            for file in files.iter().filter(|file| !self.folder.join(file).exists()) {
                let kept = old.join(file);
                let path = place.join(file);
                // The first error is the one to tell.
                let _ = if kept.exists() {
                    fs::rename(kept, path)
                } else {
                    fs::remove_file(path)
                };
            }
        }
        done
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // The next installation removes what is left.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_failed_commit_puts_back_what_was_there() {
        let temp = tempfile::tempdir().unwrap();
        let place = temp.path();
        fs::write(place.join("libthalweg_a.so"), "old").unwrap();
        let stage = Stage::new(place).unwrap();
        assert!(Alone::in_folder(place).is_err(), "one at a time");
        for file in ["libthalweg_a.so", "libthalweg_b.so"] {
            fs::write(stage.folder.join(file), "new").unwrap();
        }
        // A lock cannot be written over a file that cannot be read.
        symlink("/nowhere", place.join("libthalweg_dead.so")).unwrap();
        let files = ["libthalweg_a.so", "libthalweg_b.so"];
        let error = stage.commit(place, &files, false).unwrap_err().to_string();
        assert!(error.contains("libthalweg_dead.so"), "{error}");
        drop(stage);
        assert_eq!(fs::read(place.join("libthalweg_a.so")).unwrap(), b"old");
        let left: Vec<_> = fs::read_dir(place)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }

    #[test]
    fn what_a_killed_installation_left_is_removed() {
        let temp = tempfile::tempdir().unwrap();
        let left = temp.path().join(".installing.1");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("libthalweg_a.so"), "half").unwrap();
        drop(Stage::new(temp.path()).unwrap());
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
    }

    #[test]
    fn folders_that_were_made_go_again() {
        let temp = tempfile::tempdir().unwrap();
        let place = temp.path().join("a/b/c");
        drop(Made::folders(&place).unwrap());
        assert!(!temp.path().join("a").exists());
        Made::folders(&place).unwrap().keep();
        assert!(place.is_dir());
    }
}
