//! Files that appear whole or not at all.

use crate::error::{Error, Result};
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// The error of a call on `path`.
pub(super) fn failed(path: &Path) -> impl Fn(io::Error) -> Error {
    move |error| Error::File {
        path: path.to_owned(),
        error,
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
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = folder.join(name);
    let result = File::create(&temporary)
        .map_err(failed(path))
        .and_then(|mut file| {
            write(&mut file)?;
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
