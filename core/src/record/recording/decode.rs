//! Reading recordings.

use super::codec::In;
use super::{MAGIC, Record};
use crate::record::frames::{Cut, Frames};
use std::io::{self, Read};

/// A payload that is larger is not read: writers end a frame long before.
const MAX_PAYLOAD: u32 = 1 << 28;

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
    records: std::vec::IntoIter<Record>,
}

impl<R: Read> Reader<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// Those of `from`; [`io::ErrorKind::InvalidData`] for a file that is no recording of this version.
    pub fn new(from: R) -> io::Result<Reader<R>> {
        Ok(Reader {
            frames: Frames::new(from, MAGIC, "recording", MAX_PAYLOAD)?,
            records: Vec::new().into_iter(),
        })
    }

    /// Why there are no more records, once [`Iterator::next`] gave none; `None` for a file that is whole.
    pub fn cut(&self) -> Option<&Cut> {
        self.frames.cut()
    }

    /// Bytes from the start of the file that were read and are whole.
    pub fn whole(&self) -> u64 {
        self.frames.whole()
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        loop {
            if let Some(record) = self.records.next() {
                return Some(record);
            }
            let payload = self.frames.next()?;
            let mut input = In::new(&payload);
            let mut records = Vec::new();
            while !input.is_empty() {
                match input.record() {
                    Ok(record) => records.push(record),
                    Err(_) => {
                        self.frames.refuse(&payload, "a record is malformed");
                        return None;
                    }
                }
            }
            self.records = records.into_iter();
        }
    }
}
