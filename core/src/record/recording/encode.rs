//! Writing recordings.

use super::codec::Out;
use super::{MAGIC, Record};
use crate::record::frames;
use std::io::{self, Write};

/// Records that are written in one piece.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    out: Out,
}

impl Frame {
    /// Adds a record.
    pub fn push(&mut self, record: &Record) {
        self.out.record(record);
    }

    /// Bytes of the records so far.
    pub fn bytes(&self) -> usize {
        self.out.bytes.len()
    }
}

/// Writes frames.
#[derive(Debug)]
pub struct Writer<W: Write> {
    to: W,
    written: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn new(mut to: W) -> io::Result<Writer<W>> {
        to.write_all(&MAGIC)?;
        Ok(Writer {
            to,
            written: MAGIC.len() as u64,
        })
    }

    /// Writes the records of `frame`, which is empty then, and flushes; nothing where it has none.
    ///
    /// # Errors
    /// Those of `to`; the frame is kept then.
    pub fn write(&mut self, frame: &mut Frame) -> io::Result<()> {
        let payload = &frame.out.bytes;
        if payload.is_empty() {
            return Ok(());
        }
        // One call, so that a process that ends at once leaves a frame whole or not at all, as far as the system goes.
        let whole = frames::frame(payload)?;
        self.to.write_all(&whole)?;
        self.to.flush()?;
        self.written += whole.len() as u64;
        frame.out.clear();
        Ok(())
    }

    /// Bytes that were written.
    pub fn written(&self) -> u64 {
        self.written
    }
}
