//! Frames: a file is eight bytes of magic and then frames, and is good up to its last whole one.
//!
//! A frame is the length of the payload (4 bytes), the CRC-32 of it (4 bytes, as in zip files), the payload. Numbers are
//! little-endian. The last byte of the magic is the version of the format.
//!
//! ```
//! use thalweg_hal::kit::frames::{Frames, head};
//! let mut file = b"EXAMPLE\x01".to_vec();
//! file.extend(head(b"payload")?);
//! file.extend(b"payload");
//! let mut frames = Frames::begin(&file[..], b"EXAMPLE\x01", "example", 1 << 20)?;
//! assert_eq!(frames.next(), Ok(Some(b"payload".to_vec())));
//! assert_eq!(frames.next(), Ok(None));
//! # Ok::<(), std::io::Error>(())
//! ```

use std::io::{self, Read};

/// Bytes before the payload of a frame.
pub const HEAD: usize = 8;

/// What stands before a payload in its frame. Both are written in one call, so that a process that ends at once leaves a frame whole
/// or not at all, as far as the system goes.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] for 4 GiB or more.
pub fn head(payload: &[u8]) -> io::Result<[u8; HEAD]> {
    let length = u32::try_from(payload.len())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a frame of 4 GiB or more"))?;
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
    Ok(head)
}

/// Reads frames in order. It never panics and takes no more memory than the largest frame.
#[derive(Debug)]
pub struct Frames<R: Read> {
    from: R,
    most: u32,
}

impl<R: Read> Frames<R> {
    /// Begins to read a file, whose kind is `what` in messages. A payload of more than `most` bytes counts as damaged.
    ///
    /// # Errors
    /// Those of `from`; [`io::ErrorKind::InvalidData`] for a file of another kind or version.
    pub fn begin(mut from: R, magic: &[u8; 8], what: &str, most: u32) -> io::Result<Frames<R>> {
        let mut found = [0; 8];
        let read = fill(&mut from, &mut found)?;
        let wrong = if read < 8 || found[..7] != magic[..7] {
            format!("this is no {what}")
        } else if found[7] != magic[7] {
            format!(
                "a {what} of version {}; this program reads version {}",
                found[7], magic[7]
            )
        } else {
            return Ok(Frames { from, most });
        };
        Err(io::Error::new(io::ErrorKind::InvalidData, wrong))
    }

    /// The next payload; `None` at the end of a file that is whole.
    ///
    /// # Errors
    /// What follows the last whole frame.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator goes on behind an error"
    )]
    pub fn next(&mut self) -> Result<Option<Vec<u8>>, &'static str> {
        const UNREADABLE: &str = "it cannot be read";
        let mut head = [0; HEAD];
        match fill(&mut self.from, &mut head) {
            Ok(0) => return Ok(None),
            Ok(HEAD) => {}
            Ok(_) => return Err("a frame is cut"),
            Err(_) => return Err(UNREADABLE),
        }
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (length, sum) = (word(0), word(4));
        if length == 0 || length > self.most {
            return Err("the length of a frame is wrong");
        }
        let mut payload = Vec::new();
        // Grows with what is there: a wrong length asks for no memory.
        match (&mut self.from).take(u64::from(length)).read_to_end(&mut payload) {
            Ok(read) if read == length as usize => {}
            Ok(_) => return Err("a frame is cut"),
            Err(_) => return Err(UNREADABLE),
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
