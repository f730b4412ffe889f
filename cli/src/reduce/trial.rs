//! Runs of the command.

use std::collections::HashMap;
use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use thalweg::graph::Graph;
use thalweg_layers::captured::{File, hash, write_file};

/// What a command is asked about.
pub(super) trait Candidate {
    /// Its file.
    fn bytes(&self) -> io::Result<Vec<u8>>;

    /// Writes the file.
    fn write_to(&self, path: &Path) -> io::Result<()>;
}

impl Candidate for File {
    fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.write(&mut bytes)?;
        Ok(bytes)
    }

    fn write_to(&self, path: &Path) -> io::Result<()> {
        write_file(self, path)
    }
}

impl Candidate for Graph {
    fn bytes(&self) -> io::Result<Vec<u8>> {
        Ok(self.to_text().into_bytes())
    }

    fn write_to(&self, path: &Path) -> io::Result<()> {
        fs::write(path, self.to_text())
    }
}

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
    pub(super) fn holds(&mut self, candidate: &impl Candidate) -> Result<bool, Box<dyn Error>> {
        let hash = hash(&candidate.bytes()?);
        if let Some(&known) = self.known.get(&hash) {
            return Ok(known);
        }
        if self.is_over() {
            return Ok(false);
        }
        candidate.write_to(&self.candidate)?;
        let holds = self.holds_for(&self.candidate.clone())?;
        self.known.insert(hash, holds);
        Ok(holds)
    }

    /// Whether no new candidate is looked at.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.ends
    }

    /// An error where the command does not end with 0 for the file that is to be reduced.
    pub(super) fn begins_with(&mut self, path: &Path) -> Result<(), Box<dyn Error>> {
        match self.holds_for(path)? {
            true => Ok(()),
            false => Err(format!(
                "the command does not end with 0 for {} itself; write one that ends with 0 as long as something is wrong",
                path.display()
            )
            .into()),
        }
    }

    /// Whether the command ends with 0 for a file.
    fn holds_for(&mut self, path: &Path) -> Result<bool, Box<dyn Error>> {
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
