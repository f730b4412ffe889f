//! Files of [frames](thalweg_hal::kit::frames), read as far as they are whole.

use std::fmt;
use std::io::{self, Read};
use thalweg_hal::kit::frames::{self, HEAD};

/// How a file begins; the last byte is the version.
pub(crate) type Magic = [u8; 8];

/// A payload as a frame.
///
/// # Errors
/// It has 4 GiB or more.
pub(crate) fn frame(payload: &[u8]) -> io::Result<Vec<u8>> {
    Ok([&frames::head(payload)?, payload].concat())
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
    frames: frames::Frames<R>,
    whole: u64,
    cut: Option<Cut>,
    ended: bool,
}

impl<R: Read> Frames<R> {
    /// Begins to read a file that begins with `magic`; `what` it is called. A payload of more than `most` bytes is none.
    ///
    /// # Errors
    /// Those of `from`; [`io::ErrorKind::InvalidData`] for another file, or one of another version.
    pub(crate) fn new(from: R, magic: Magic, what: &str, most: u32) -> io::Result<Frames<R>> {
        Ok(Frames {
            frames: frames::Frames::begin(from, &magic, what, most)?,
            whole: magic.len() as u64,
            cut: None,
            ended: false,
        })
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
        self.whole -= (HEAD + payload.len()) as u64;
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
        match self.frames.next() {
            Ok(Some(payload)) => {
                self.whole += (HEAD + payload.len()) as u64;
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
}
