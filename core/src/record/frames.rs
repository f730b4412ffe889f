//! Files of frames: eight bytes of magic, then the length of each payload (4 bytes), its CRC-32 (4 bytes, as in zip files), and the payload.

use std::fmt;
use std::io::{self, Read};

/// How a file begins; the last byte is the version.
pub(crate) type Magic = [u8; 8];

/// A payload as a frame.
///
/// # Errors
/// It has 4 GiB or more.
pub(crate) fn frame(payload: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(payload.len())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a frame of 4 GiB or more"))?;
    let mut frame = Vec::with_capacity(8 + payload.len());
    frame.extend(length.to_le_bytes());
    frame.extend(crc32fast::hash(payload).to_le_bytes());
    frame.extend(payload);
    Ok(frame)
}

/// Why a file of frames ends before its end.
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
            "the file is whole up to byte {}, then {}",
            self.whole, self.why
        )
    }
}

/// Reads the payloads of a file in order, as far as it is whole. It takes no more memory than the largest.
#[derive(Debug)]
pub(crate) struct Frames<R: Read> {
    from: R,
    max: u32,
    whole: u64,
    cut: Option<Cut>,
    ended: bool,
}

impl<R: Read> Frames<R> {
    /// Begins to read a file that begins with `magic`; `what` it is called. A payload of more than `max` bytes is none.
    ///
    /// # Errors
    /// Those of `from`; [`io::ErrorKind::InvalidData`] for another file, or one of another version.
    pub(crate) fn new(mut from: R, magic: Magic, what: &str, max: u32) -> io::Result<Frames<R>> {
        let mut found = Magic::default();
        let read = fill(&mut from, &mut found)?;
        let ([name @ .., version], [wanted @ .., reads]) = (&found, &magic);
        let wrong = if read < magic.len() || name != wanted {
            format!("this is no {what}")
        } else if version != reads {
            format!("a {what} of version {version}; this program reads version {reads}")
        } else {
            return Ok(Frames {
                from,
                max,
                whole: magic.len() as u64,
                cut: None,
                ended: false,
            });
        };
        Err(io::Error::new(io::ErrorKind::InvalidData, wrong))
    }

    /// Why there are no more payloads, once there were none.
    pub(crate) fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// Bytes from the start of the file that were read and are whole.
    pub(crate) fn whole(&self) -> u64 {
        self.whole
    }

    /// The last payload is none, because `why`.
    pub(crate) fn refuse(&mut self, payload: &[u8], why: &'static str) {
        self.whole -= 8 + payload.len() as u64;
        self.stop(why);
    }

    fn stop(&mut self, why: &'static str) {
        self.ended = true;
        self.cut = Some(Cut {
            whole: self.whole,
            why,
        });
    }

    /// The next payload.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        if self.ended {
            return None;
        }
        let payload = self.read();
        match payload {
            Ok(Some(payload)) => {
                self.whole += 8 + payload.len() as u64;
                Some(payload)
            }
            Ok(None) => {
                self.ended = true;
                None
            }
            Err(why) => {
                self.stop(why);
                None
            }
        }
    }

    fn read(&mut self) -> Result<Option<Vec<u8>>, &'static str> {
        let mut head = [0; 8];
        let read = fill(&mut self.from, &mut head).map_err(|_| "it cannot be read")?;
        if read == 0 {
            return Ok(None);
        }
        if read < head.len() {
            return Err("a frame is cut");
        }
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (length, sum) = (word(0), word(4));
        if length == 0 || length > self.max {
            return Err("the length of a frame is wrong");
        }
        let mut payload = Vec::new();
        // Grows with what is there: a wrong length asks for no memory.
        match (&mut self.from).take(u64::from(length)).read_to_end(&mut payload) {
            Ok(read) if read == length as usize => {}
            Ok(_) => return Err("a frame is cut"),
            Err(_) => return Err("it cannot be read"),
        }
        match crc32fast::hash(&payload) == sum {
            true => Ok(Some(payload)),
            false => Err("a frame is damaged"),
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
