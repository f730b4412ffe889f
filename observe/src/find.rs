//! Where recordings are.

use crate::error::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The name of the file that everything is derived from.
pub const RECORDING: &str = "recording.tw";

/// Folders inside folders that are searched: `output/profile/rank_0/profiler`.
pub(crate) const DEPTH: usize = 4;

/// The recordings at `path`, in the order of their paths: the file itself, the one of a folder, or those of the folders in it, as of a
/// run with several ranks.
///
/// # Errors
/// [`Error::NotThere`], [`Error::NoRecording`], [`Error::Read`].
pub fn recordings(path: &Path) -> Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    if !path.exists() {
        return Err(Error::NotThere {
            path: path.to_owned(),
        });
    }
    let mut found = Vec::new();
    search(path, DEPTH, &mut found)?;
    if found.is_empty() {
        return Err(Error::NoRecording {
            path: path.to_owned(),
        });
    }
    Ok(found)
}

/// The folder of `path`: itself, or that of a file.
pub fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if path.is_file() => {
            if parent.as_os_str().is_empty() {
                Path::new(".")
            } else {
                parent
            }
        }
        _ => path,
    }
}

fn search(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<()> {
    let file = folder.join(RECORDING);
    if file.is_file() {
        found.push(file);
        return Ok(());
    }
    if depth == 0 {
        return Ok(());
    }
    let entries = fs::read_dir(folder).map_err(Error::reading(folder))?;
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::reading(folder))?;
        // A link may lead back.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            folders.push(entry.path());
        }
    }
    folders.sort();
    folders
        .iter()
        .try_for_each(|inner| search(inner, depth - 1, found))
}
