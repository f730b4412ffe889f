//! Reading recordings.

use super::codec::In;
use super::{MAGIC, Record};
use std::fmt;
use std::io::{self, Read};
use thalweg_hal::kit::frames::{Frames, HEAD};

/// A payload that is larger is not read: writers end a frame long before.
const MAX_PAYLOAD: u32 = 1 << 28;

/// Why a recording ends before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Bytes from the start of the file that are whole.
    pub whole: u64,
    /// What follows them.
    pub why: &'static str,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the recording is whole up to byte {}, then {}",
            self.whole, self.why
        )
    }
}

/// Reads the records of a file in order, as far as it is whole. It never panics and takes no more memory than the largest frame.
///
/// ```
/// use thalweg::observe::recording::{Frame, Reader, Record, Writer};
/// let mut file = Vec::new();
/// let mut writer = Writer::new(&mut file)?;
/// let mut frame = Frame::default();
/// frame.push(&Record::End { time: 7 });
/// writer.write(&mut frame)?;
/// let mut reader = Reader::new(&file[..])?;
/// assert_eq!(reader.next(), Some(Record::End { time: 7 }));
/// assert_eq!((reader.next(), reader.cut()), (None, None));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Reader<R: Read> {
    frames: Frames<R>,
    whole: u64,
    records: std::vec::IntoIter<Record>,
    cut: Option<Cut>,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// Those of `from`; [`io::ErrorKind::InvalidData`] for a file that is no recording of this version.
    pub fn new(from: R) -> io::Result<Reader<R>> {
        Ok(Reader {
            frames: Frames::begin(from, &MAGIC, "recording", MAX_PAYLOAD)?,
            whole: MAGIC.len() as u64,
            records: Vec::new().into_iter(),
            cut: None,
            ended: false,
        })
    }

    /// Why there are no more records, once [`Iterator::next`] gave none; `None` for a file that is whole.
    pub fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// Bytes from the start of the file that were read and are whole.
    pub fn whole(&self) -> u64 {
        self.whole
    }

    fn stop(&mut self, why: &'static str) {
        self.ended = true;
        self.cut = Some(Cut {
            whole: self.whole,
            why,
        });
    }

    /// Reads the next frame.
    fn frame(&mut self) {
        let payload = match self.frames.next() {
            Ok(Some(payload)) => payload,
            Ok(None) => {
                self.ended = true;
                return;
            }
            Err(why) => return self.stop(why),
        };
        let mut records = Vec::new();
        let mut input = In::new(&payload);
        while !input.is_empty() {
            match input.record() {
                Ok(record) => records.push(record),
                Err(_) => return self.stop("a record is malformed"),
            }
        }
        self.whole += (HEAD + payload.len()) as u64;
        self.records = records.into_iter();
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        loop {
            if let Some(record) = self.records.next() {
                return Some(record);
            }
            if self.ended {
                return None;
            }
            self.frame();
        }
    }
}
