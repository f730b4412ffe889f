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
    /// The part of the network, as `Default/conv1`; empty where it was not named.
    pub scope: String,
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
    /// Tensors that live, by the op that made them, largest sum first: of 1 MiB and more, or all that were made while
    /// [a history](crate::observe::record_memory_history) was kept.
    pub holders: Vec<Holder>,
    /// Bytes from which on tensors were listed.
    pub(crate) listed: u64,
}

impl fmt::Display for Holder {
    /// `3276 KB in    1 of conv2d at src/net.rs:44, Default/conv1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (size, unit) = size_in_unit(self.bytes);
        write!(f, "{size:>6} {unit:<2} in {:>4} of {}", self.buffers, self.op)?;
        if !self.location.is_empty() {
            write!(f, " at {}", self.location)?;
        }
        if !self.scope.is_empty() {
            write!(f, ", {}", self.scope)?;
        }
        Ok(())
    }
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
            write!(f, "\n    {holder}")?;
        }
        if self.holders.len() > ROWS {
            let more = &self.holders[ROWS..];
            let (size, unit) = size_in_unit(more.iter().map(|holder| holder.bytes).sum());
            write!(f, "\n    {size:>6} {unit:<2} of {} other places", more.len())?;
        }
        if rest > 0 && !self.holders.is_empty() {
            let (size, unit) = size_in_unit(rest);
            let what = match self.listed {
                0 => "earlier buffers and work under way",
                _ => "buffers below 1 MiB and work under way",
            };
            write!(f, "\n    {size:>6} {unit:<2} in {what}")?;
        }
        Ok(())
    }
}
