//! The last lines of the log, in a file that stays when the process is killed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Most bytes of the file; then its older half goes.
const MOST: u64 = 256 << 10;

/// The file, which the first line makes.
pub(super) struct Tail {
    path: PathBuf,
    file: Option<File>,
    bytes: u64,
}

impl Tail {
    pub(super) fn new(path: PathBuf) -> Tail {
        Tail {
            path,
            file: None,
            bytes: 0,
        }
    }

    /// Adds a line, which ends with a newline. Once it is written, the system has it, whatever becomes of the process.
    pub(super) fn push(&mut self, line: &str) -> io::Result<()> {
        if self.bytes > 0 && self.bytes + line.len() as u64 > MOST {
            self.shorten()?;
        }
        let mut file = match self.file.take() {
            Some(file) => file,
            None => {
                let mut options = File::options();
                options.create(true).append(true).mode(0o600).open(&self.path)?
            }
        };
        file.write_all(line.as_bytes())?;
        self.bytes += line.len() as u64;
        self.file = Some(file);
        Ok(())
    }

    /// Keeps whole lines of the newer half. A process that is killed here leaves the old file or the new one.
    fn shorten(&mut self) -> io::Result<()> {
        let part = self.path.with_extension("part");
        let bytes = fs::read(&self.path)?;
        let half = &bytes[bytes.len().saturating_sub(MOST as usize / 2)..];
        let begin = half
            .iter()
            .position(|&byte| byte == b'\n')
            .map_or(half.len(), |at| at + 1);
        let kept = &half[begin..];
        let mut file = File::options()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(&part)?;
        file.write_all(kept)?;
        fs::rename(&part, &self.path)?;
        (self.file, self.bytes) = (None, kept.len() as u64);
        Ok(())
    }
}

/// The whole lines of a file; empty for none.
pub(super) fn read(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let end = bytes
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.txt");
        assert_eq!(read(&path), "");
        let mut tail = Tail::new(path.clone());
        let line = |number: u64| format!("line {number} {}\n", "x".repeat(number as usize % 200));
        for number in 0..10_000 {
            tail.push(&line(number)).unwrap();
            assert!(fs::metadata(&path).unwrap().len() <= MOST);
        }
        let text = read(&path);
        let count = text.lines().count() as u64;
        assert!(count > 1000, "{count}");
        let wanted: String = (10_000 - count..10_000).map(line).collect();
        assert_eq!(text, wanted);
        // A line that was being written.
        tail.push("cut").unwrap();
        assert_eq!(read(&path), wanted);
        // One that is longer than all.
        let long = format!("{}\n", "y".repeat(2 * MOST as usize));
        tail.push(&long).unwrap();
        tail.push("end\n").unwrap();
        assert_eq!(read(&path), "end\n");
    }
}
