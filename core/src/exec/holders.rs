//! What holds memory, for errors.

use crate::error::Error;
use crate::hal::statistics::size_in_unit;
use crate::tensor::tag::OpTag;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

/// Buffers of this size and more are listed: next to filling one, entering it costs nothing.
pub(crate) const LISTED: u64 = 1 << 20;
/// Rows of the table.
const ROWS: usize = 10;

/// The large buffers of a device.
#[derive(Default)]
pub(crate) struct Holders {
    live: Mutex<Live>,
}

#[derive(Default)]
struct Live {
    last: u64,
    // Op and bytes.
    buffers: HashMap<u64, (OpTag, u64)>,
}

/// Keeps its buffer listed while it lives.
pub(crate) struct Listed {
    holders: Arc<Holders>,
    id: u64,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.holders.live.lock().buffers.remove(&self.id);
    }
}

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

impl Holders {
    /// Lists a buffer that `tag` made, if it is large.
    #[inline]
    pub(super) fn list(self: &Arc<Holders>, tag: OpTag, bytes: u64) -> Option<Box<Listed>> {
        if bytes < LISTED {
            return None;
        }
        let mut live = self.live.lock();
        live.last += 1;
        let id = live.last;
        live.buffers.insert(id, (tag, bytes));
        drop(live);
        let holders = Arc::clone(self);
        Some(Box::new(Listed { holders, id }))
    }

    pub(super) fn out_of_memory(&self, cause: crate::hal::OutOfMemory) -> Error {
        let mut sums = BTreeMap::<(String, String), (usize, u64)>::new();
        for (tag, bytes) in self.live.lock().buffers.values() {
            let location = tag
                .location
                .map(|at| format!("{}:{}", at.file(), at.line()))
                .unwrap_or_default();
            let sum = sums.entry((tag.op.to_owned(), location)).or_default();
            *sum = (sum.0 + 1, sum.1 + bytes);
        }
        let mut holders: Vec<Holder> = sums
            .into_iter()
            .map(|((op, location), (buffers, bytes))| Holder {
                op,
                location,
                buffers,
                bytes,
            })
            .collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
        Error::OutOfMemory(Box::new(OutOfMemory { cause, holders }))
    }
}
