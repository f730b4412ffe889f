//! Files that a process could not end.

use crate::error::{Error, Result};
use crate::find::RECORDING;
use crate::survey::open;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// What was done to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// It was whole.
    Whole {
        /// Which.
        path: PathBuf,
    },
    /// It was cut where it stopped being whole.
    Cut {
        /// Which.
        path: PathBuf,
        /// Bytes that it has now.
        kept: u64,
        /// Bytes that were cut off.
        lost: u64,
    },
}

/// Cuts a recording at its last whole frame.
///
/// # Errors
/// A file that is no recording, cannot be read, or cannot be written.
pub fn recording(path: &Path) -> Result<Repair> {
    let mut reader = open(path)?;
    reader.by_ref().for_each(drop);
    let kept = match reader.cut() {
        None => {
            return Ok(Repair::Whole {
                path: path.to_owned(),
            });
        }
        Some(cut) => cut.whole,
    };
    let file = OpenOptions::new()
        .write(true)
        .open(path)
        .map_err(Error::writing(path))?;
    let bytes = file.metadata().map_err(Error::reading(path))?.len();
    file.set_len(kept).map_err(Error::writing(path))?;
    Ok(Repair::Cut {
        path: path.to_owned(),
        kept,
        lost: bytes.saturating_sub(kept),
    })
}

/// Closes a timeline that was cut: what follows its last whole event goes, and the list ends there.
///
/// # Errors
/// A file that is no timeline of ours, cannot be read, or cannot be written.
pub fn timeline(path: &Path) -> Result<Repair> {
    let file = File::open(path).map_err(Error::reading(path))?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let (mut line, mut kept, mut read) = (Vec::new(), 0_u64, 0_u64);
    loop {
        line.clear();
        let count = reader
            .read_until(b'\n', &mut line)
            .map_err(Error::reading(path))?;
        let text = line.trim_ascii_end();
        if read == 0 && !b"[".starts_with(text) {
            return Err(Error::Format {
                path: path.to_owned(),
                why: "no timeline: its first line is not `[`".to_owned(),
            });
        }
        if text == b"]" {
            return Ok(Repair::Whole {
                path: path.to_owned(),
            });
        }
        let event = text.strip_suffix(b",").unwrap_or(text);
        let head = read == 0 && event == b"[";
        if !head && serde_json::from_slice::<serde::de::IgnoredAny>(event).is_err() {
            break;
        }
        kept = read + event.len() as u64;
        read += count as u64;
    }
    let bytes = fs::metadata(path).map_err(Error::reading(path))?.len();
    let mut file = OpenOptions::new()
        .write(true)
        .open(path)
        .map_err(Error::writing(path))?;
    let mut close = || -> std::io::Result<()> {
        file.set_len(kept)?;
        file.seek(SeekFrom::End(0))?;
        file.write_all(if kept == 0 { b"[\n]\n" } else { b"\n]\n" })
    };
    close().map_err(Error::writing(path))?;
    Ok(Repair::Cut {
        path: path.to_owned(),
        kept,
        lost: bytes.saturating_sub(kept),
    })
}

/// Repairs what `path` is, or the recordings and timelines in it.
///
/// # Errors
/// As of [`recording`] and [`timeline`]; [`Error::NoRecording`] where there is neither.
pub fn repair(path: &Path) -> Result<Vec<Repair>> {
    if path.is_file() {
        let kind = path.extension().and_then(|kind| kind.to_str());
        return Ok(vec![match kind {
            Some("json") => timeline(path)?,
            Some(_) | None => recording(path)?,
        }]);
    }
    let mut repairs = Vec::new();
    let (found, missing) = match crate::find::recordings(path) {
        Ok(found) => (found, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    for file in &found {
        repairs.push(recording(file)?);
    }
    let beside = (found.iter()).filter_map(|file| file.parent().map(|folder| folder.join("trace.json")));
    let mut timelines: Vec<PathBuf> = beside.chain([path.join("trace.json")]).collect();
    timelines.sort();
    timelines.dedup();
    for file in timelines.iter().filter(|file| file.is_file()) {
        repairs.push(timeline(file)?);
    }
    match missing {
        Some(error) if repairs.is_empty() => Err(error),
        Some(_) | None => Ok(repairs),
    }
}

/// Whether a file is a recording by its name.
pub fn is_recording(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == RECORDING)
}
