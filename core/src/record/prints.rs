//! Where prints go: to the screen, or each as a frame of a file.

use super::frames::{self, Magic};
use parking_lot::Mutex;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// How a file begins.
pub(crate) const MAGIC: Magic = *b"THWPRNT\x01";

/// Where prints go from now on.
static OUTPUT: Mutex<Output> = Mutex::new(Output::Screen);

enum Output {
    Screen,
    File {
        /// As it was asked for.
        asked: PathBuf,
        /// Made by the first print.
        file: Option<File>,
    },
}

/// Whether prints can go to a file of this name.
///
/// # Errors
/// It is a folder, or lies in something that is none.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder")),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Sends prints to a file from now on, to the screen for an empty path. The file that prints go to already goes on.
pub(crate) fn direct(path: &Path) {
    let mut output = OUTPUT.lock();
    if path.as_os_str().is_empty() {
        *output = Output::Screen;
        return;
    }
    match &*output {
        Output::File { asked, .. } if asked == path => {}
        Output::File { .. } | Output::Screen => {
            *output = Output::File {
                asked: path.to_owned(),
                file: None,
            }
        }
    }
}

/// Shows `text`, or adds the record `payload` to the file. What a file does not take goes to the screen, so that nothing is lost.
pub(crate) fn put(text: impl FnOnce() -> String, payload: impl FnOnce() -> Vec<u8>) {
    let to_file = matches!(*OUTPUT.lock(), Output::File { .. });
    if to_file && append(payload()) {
        return;
    }
    let mut screen = io::stdout().lock();
    // A screen that nobody reads any more takes nothing.
    let _ = screen.write_all(text().as_bytes()).and_then(|()| screen.flush());
}

/// Adds a record to the file; `false` where prints go to the screen.
fn append(payload: Vec<u8>) -> bool {
    let frame = frames::frame(&payload);
    let mut output = OUTPUT.lock();
    let Output::File { asked, file } = &mut *output else {
        return false;
    };
    match frame.and_then(|frame| written(asked, file, &frame)) {
        Ok(()) => true,
        Err(error) => {
            let path = std::mem::take(asked);
            *output = Output::Screen;
            drop(output);
            tracing::error!("{}: {error}; prints go to the screen from now on", path.display());
            false
        }
    }
}

/// One call of the system for a frame, so that a process that ends at once leaves it whole or not at all.
fn written(asked: &Path, file: &mut Option<File>, frame: &[u8]) -> io::Result<()> {
    if let Some(file) = file {
        return file.write_all(frame);
    }
    let made = file.insert(create(asked)?);
    made.write_all(&[&MAGIC, frame].concat())
}

/// A new file of this name; with the time behind it where there is one already, which stays as it is.
fn create(path: &Path) -> io::Result<File> {
    check(path)?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let new = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path);
    let mut made = new(path);
    let mut seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    while let Err(error) = &made
        && error.kind() == io::ErrorKind::AlreadyExists
    {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{seconds}"));
        made = new(Path::new(&name));
        seconds += 1;
    }
    made
}
