//! Reading recordings.

use super::codec::In;
use super::{MAGIC, Record};
use std::fmt;
use std::io::{self, Read};

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
    from: R,
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
    pub fn new(mut from: R) -> io::Result<Reader<R>> {
        let mut magic = [0; MAGIC.len()];
        let read = fill(&mut from, &mut magic)?;
        let (name, version) = (&magic[..MAGIC.len() - 1], magic[MAGIC.len() - 1]);
        let wrong = if read < MAGIC.len() || name != &MAGIC[..MAGIC.len() - 1] {
            "this is no recording".to_owned()
        } else if version != MAGIC[MAGIC.len() - 1] {
            format!(
                "a recording of version {version}; this program reads version {}",
                MAGIC[MAGIC.len() - 1]
            )
        } else {
            return Ok(Reader {
                from,
                whole: MAGIC.len() as u64,
                records: Vec::new().into_iter(),
                cut: None,
                ended: false,
            });
        };
        Err(io::Error::new(io::ErrorKind::InvalidData, wrong))
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
        let mut head = [0; 8];
        let read = match fill(&mut self.from, &mut head) {
            Ok(read) => read,
            Err(_) => return self.stop("it cannot be read"),
        };
        if read == 0 {
            self.ended = true;
            return;
        }
        if read < head.len() {
            return self.stop("a frame is cut");
        }
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (length, sum) = (word(0), word(4));
        if length == 0 || length > MAX_PAYLOAD {
            return self.stop("the length of a frame is wrong");
        }
        let mut payload = Vec::new();
        // Grows with what is there: a wrong length asks for no memory.
        match (&mut self.from).take(u64::from(length)).read_to_end(&mut payload) {
            Ok(read) if read == length as usize => {}
            Ok(_) => return self.stop("a frame is cut"),
            Err(_) => return self.stop("it cannot be read"),
        }
        if crc32fast::hash(&payload) != sum {
            return self.stop("a frame is damaged");
        }
        let mut records = Vec::new();
        let mut input = In::new(&payload);
        while !input.is_empty() {
            match input.record() {
                Ok(record) => records.push(record),
                Err(_) => return self.stop("a record is malformed"),
            }
        }
        self.whole += 8 + u64::from(length);
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

/// Reads as much as there is, up to the length of `to`.
fn fill(from: &mut impl Read, to: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < to.len() {
        match from.read(&mut to[read..]) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}
