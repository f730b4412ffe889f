//! The values of a call that failed.

use super::folder::Folder;
use super::item::Item;
use super::manifest::Head;
use super::options::DumpOptions;
use crate::error::DumpError;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Most calls that a process writes: a training that fails in every step must not fill the disk.
const MOST: u64 = 16;

/// A call that failed.
pub(crate) struct Failed {
    /// The device.
    pub(crate) target: String,
    /// The error, in one line.
    pub(crate) error: String,
    /// Whether the device is lost.
    pub(crate) lost: bool,
    /// Its inputs, and its outputs without elements.
    pub(crate) items: Vec<Item>,
}

/// Writes a folder into the working directory; `None` for one too many.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn write(failed: Failed) -> Result<Option<PathBuf>, DumpError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    if number >= MOST {
        return Ok(None);
    }
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let path = PathBuf::from(format!(
        "exception_dump_{seconds}_{}_{number}",
        std::process::id()
    ));
    let head = Head {
        target: failed.target,
        iteration: 0,
        failed: Some((failed.error, failed.lost)),
    };
    let options = DumpOptions::default();
    let mut folder = Folder::create(path.clone(), head)?;
    for item in failed.items {
        folder.write(&options, item)?;
    }
    folder.finish(&options)?;
    Ok(Some(path))
}
