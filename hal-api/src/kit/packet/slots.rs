//! The slots of a program, and what its packets reach of memory that a program does not make.

use super::{ORIGIN, Site};
use crate::status::{Error, Result};

/// The slots of a program, as its packets name them: first inputs, then what a run makes, then bound ones.
#[derive(Clone, Copy, Debug)]
pub struct Slots<'a> {
    /// Number of inputs.
    pub inputs: usize,
    /// Bytes of outputs, then of scratch buffers.
    pub made: &'a [u64],
    /// Number of bound slots.
    pub bound: usize,
}

impl Slots<'_> {
    /// The number of the slot that a packet names, and what is known of it.
    ///
    /// # Errors
    /// `InvalidArgument` where there is no such slot.
    pub fn find(&self, handle: u64) -> Result<(usize, Site)> {
        let count = self.inputs + self.made.len() + self.bound;
        let number = match usize::try_from(handle) {
            Ok(number) if (1..=count).contains(&number) => number - 1,
            _ => {
                return Err(Error::invalid_argument(format!(
                    "slot {handle} of a program of {count} slots, which are named from 1 on"
                )));
            }
        };
        let made = (number.checked_sub(self.inputs)).and_then(|made| self.made.get(made));
        let site = Site {
            base: number,
            shift: if made.is_some() { 0 } else { ORIGIN },
            bytes: made.copied(),
            own: true,
            writable: number >= self.inputs,
        };
        Ok((number, site))
    }
}

/// What the packets reach of an input or a bound slot, in bytes from its origin.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reach {
    low: i64,
    high: i64,
    // Of the origin; 0 where nothing is reached.
    alignment: u64,
    written: bool,
}

impl Reach {
    /// Adds bytes from `start` to `end`, from the origin, for elements of `alignment` bytes.
    pub fn widen(&mut self, start: i64, end: i64, written: bool, alignment: u64) {
        (self.low, self.high) = match self.alignment {
            0 => (start, end),
            _ => (self.low.min(start), self.high.max(end)),
        };
        self.alignment = self.alignment.max(alignment);
        self.written |= written;
    }

    /// Whether all of it lies in a buffer of `bytes` bytes, from byte `offset` on.
    #[inline(always)]
    pub fn fits(&self, offset: u64, bytes: u64) -> bool {
        offset <= bytes
            // A buffer has fewer than 2^62 bytes, and reaches are bounded likewise.
            && offset as i64 + self.low >= 0
            && offset as i64 + self.high <= bytes as i64
            // Sizes are powers of two.
            && offset & self.alignment.saturating_sub(1) == 0
    }

    /// The error where [`Reach::fits`] says no.
    #[cold]
    pub fn misses(&self, what: &str, offset: u64, bytes: u64) -> Error {
        Error::out_of_bounds(format!(
            "{what} starts at byte {offset} of a buffer of {bytes} bytes; the program reaches {} bytes before and {} \
             behind, from a multiple of {}",
            self.low.min(0).unsigned_abs(),
            self.high.max(0),
            self.alignment.max(1)
        ))
    }

    /// First byte and the byte behind the last of what is reached from an origin.
    pub fn from(&self, origin: u64) -> (i64, i64) {
        (origin as i64 + self.low, origin as i64 + self.high)
    }

    /// Whether some of it is written.
    pub fn is_written(&self) -> bool {
        self.written
    }
}
