//! Reading and writing whole captures.

use super::{Call, MAGIC, Record, Start};
use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
use thalweg_hal::kit::frames::{self, Frames, HEAD};

/// A capture that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// Which process.
    pub start: Start,
    /// What follows the start, in order.
    pub records: Vec<Record>,
    /// Why the file ends before its end; `None` where it is whole. A process that was killed leaves a cut file at most.
    pub cut: Option<&'static str>,
}

/// Why a file is no capture.
#[derive(Debug)]
pub enum Refusal {
    /// It cannot be read, or is a file of another kind or version.
    Io(io::Error),
    /// It has no whole record.
    Empty,
    /// Its first record is none of the start.
    NoStart,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Io(error) => error.fmt(f),
            Refusal::Empty => f.write_str("the capture has no whole record"),
            Refusal::NoStart => f.write_str("the capture does not begin with its start"),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        Refusal::Io(error)
    }
}

impl File {
    /// Reads a file as far as it is whole.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn open(path: &Path) -> Result<File, Refusal> {
        File::read(io::BufReader::new(fs::File::open(path)?))
    }

    /// As [`File::open`], from anywhere.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn read(from: impl Read) -> Result<File, Refusal> {
        let mut frames = Frames::begin(from, &MAGIC, "capture", u32::MAX)?;
        let (mut records, mut cut) = (Vec::new(), None);
        loop {
            match frames.next() {
                Ok(Some(payload)) => match Record::read(&payload) {
                    Ok(record) => records.push(record),
                    Err(_) => {
                        cut = Some("a record is malformed");
                        break;
                    }
                },
                Ok(None) => break,
                Err(why) => {
                    cut = Some(why);
                    break;
                }
            }
        }
        let mut records = records.into_iter();
        match records.next().map(|record| record.call) {
            Some(Call::Start(start)) => Ok(File {
                start,
                records: records.collect(),
                cut,
            }),
            Some(_) => Err(Refusal::NoStart),
            None => Err(Refusal::Empty),
        }
    }

    /// Writes all records.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&MAGIC)?;
        let start = Record {
            backend: 0,
            call: Call::Start(self.start.clone()),
        };
        let mut frame = Vec::new();
        for record in std::iter::once(&start).chain(&self.records) {
            seal(record, &mut frame)?;
            to.write_all(&frame)?;
        }
        Ok(())
    }
}

/// Puts a record as a frame into `frame`, whose memory is used again.
pub(crate) fn seal(record: &Record, frame: &mut Vec<u8>) -> io::Result<()> {
    frame.clear();
    frame.resize(HEAD, 0);
    record.write(frame);
    let head = frames::head(&frame[HEAD..])?;
    frame[..HEAD].copy_from_slice(&head);
    Ok(())
}

/// Writes a capture in place of what is at `path`, whole or not at all.
///
/// # Errors
/// As [`replace`](thalweg_hal::kit::file::replace).
pub fn write_file(file: &File, path: &Path) -> io::Result<()> {
    thalweg_hal::kit::file::replace(path, |to| {
        let mut to = io::BufWriter::new(to);
        file.write(&mut to)?;
        to.flush()
    })
}
