//! Runs of the command.

use std::collections::HashMap;
use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use thalweg_layers::captured::{File, hash, write_file};

/// Asks the command about candidates.
pub(super) struct Trial<'a> {
    command: &'a str,
    candidate: PathBuf,
    /// Answers by the hash of the file.
    known: HashMap<u64, bool>,
    runs: usize,
    ends: Instant,
}

impl<'a> Trial<'a> {
    /// Candidates are written beside `path`, which is the result's.
    pub(super) fn new(command: &'a str, path: &Path, seconds: u64) -> Trial<'a> {
        let mut candidate = OsString::from(path);
        candidate.push(format!(".{}.candidate", std::process::id()));
        let now = Instant::now();
        Trial {
            command,
            candidate: candidate.into(),
            known: HashMap::new(),
            runs: 0,
            // A time that no clock has is none.
            ends: now.checked_add(Duration::from_secs(seconds)).unwrap_or(now),
        }
    }

    /// How often the command has run.
    pub(super) fn runs(&self) -> usize {
        self.runs
    }

    /// Whether the command ends with 0 for a candidate; none is any good when the time is up.
    pub(super) fn holds(&mut self, file: &File) -> Result<bool, Box<dyn Error>> {
        let mut bytes = Vec::new();
        file.write(&mut bytes)?;
        let hash = hash(&bytes);
        if let Some(&known) = self.known.get(&hash) {
            return Ok(known);
        }
        if self.is_over() {
            return Ok(false);
        }
        write_file(file, &self.candidate)?;
        let holds = self.holds_for(&self.candidate.clone())?;
        self.known.insert(hash, holds);
        Ok(holds)
    }

    /// Whether no new candidate is looked at.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.ends
    }

    /// Whether the command ends with 0 for a file.
    pub(super) fn holds_for(&mut self, path: &Path) -> Result<bool, Box<dyn Error>> {
        self.runs += 1;
        let text = path
            .to_str()
            .ok_or("the path of a candidate is no UTF-8; name another with --out")?;
        let quoted = format!("'{}'", text.replace('\'', r"'\''"));
        let status = Command::new("sh")
            .arg("-c")
            .arg(self.command.replace("{}", &quoted))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        Ok(status.success())
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        // It may never have been written.
        let _ = fs::remove_file(&self.candidate);
    }
}
