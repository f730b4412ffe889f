//! A device without memory, and what holds it.

use crate::hal::statistics::size_in_unit;
use std::fmt;

/// Rows of the table.
const ROWS: usize = 10;

/// Buffers that one op made and that live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The op.
    pub op: String,
    /// The user's line, as `file:line`; empty where it is not known.
    pub location: String,
    /// How many buffers.
    pub buffers: usize,
    /// Their bytes together.
    pub bytes: u64,
}

/// A device has no memory for an op, even after its idle memory was given back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutOfMemory {
    /// Device, op, bytes, and the pool's figures.
    pub cause: crate::hal::OutOfMemory,
    /// Tensors of 1 MiB and more that live, by the op that made them, largest sum first.
    pub holders: Vec<Holder>,
}

impl std::error::Error for OutOfMemory {}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.cause, f)?;
        let listed: u64 = self.holders.iter().map(|holder| holder.bytes).sum();
        let rest = self.cause.stats.allocated.saturating_sub(listed);
        if !self.holders.is_empty() {
            f.write_str("\n  memory is held by")?;
        }
        for holder in self.holders.iter().take(ROWS) {
            let (size, unit) = size_in_unit(holder.bytes);
            write!(
                f,
                "\n    {size:>6} {unit:<2} in {:>4} of {}",
                holder.buffers, holder.op
            )?;
            if !holder.location.is_empty() {
                write!(f, " at {}", holder.location)?;
            }
        }
        if self.holders.len() > ROWS {
            let more = &self.holders[ROWS..];
            let (size, unit) = size_in_unit(more.iter().map(|holder| holder.bytes).sum());
            write!(f, "\n    {size:>6} {unit:<2} of {} other places", more.len())?;
        }
        if rest > 0 && !self.holders.is_empty() {
            let (size, unit) = size_in_unit(rest);
            write!(
                f,
                "\n    {size:>6} {unit:<2} in buffers below 1 MiB and work under way"
            )?;
        }
        Ok(())
    }
}
