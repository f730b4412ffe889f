//! What holds the memory of a device, and how that came to be.

use crate::context::Context;
use crate::engine::holders::{self, Happened, Made};
use crate::error::Holder;
use crate::error::tag::OpTag;
use crate::hal::MemoryStats;
use crate::hal::statistics::{MemoryRange, MemoryUse, size_in_unit};
use crate::record::memory;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// Keeps the last `changes` changes of memory for each device: which op made a buffer, at which line and in which part of the network,
/// and when it went. With 0, which holds at first, no history is kept.
///
/// While it is kept, snapshots and [`OutOfMemory`](crate::OutOfMemory) name every buffer that was made since, not those of 1 MiB and
/// more alone. An op takes some 100 ns more.
///
/// ```
/// use thalweg::{Context, DType, Tensor, observe};
/// let cx = Context::new("cpu")?;
/// observe::record_memory_history(1000);
/// let before = observe::memory_snapshot(&cx)?;
/// let x = {
///     let _scope = observe::scope("input");
///     Tensor::ones([4, 8], DType::F32, &cx)
/// };
/// let after = observe::memory_snapshot(&cx)?;
/// let more = after.diff(&before);
/// assert_eq!((more[0].op.as_str(), more[0].scope.as_str(), more[0].bytes), ("ones", "Default/input", 128));
/// # observe::record_memory_history(0);
/// # drop(x);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn record_memory_history(changes: usize) {
    memory::set_history(changes);
}

/// A buffer that lives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveBuffer {
    /// Its number among those of the device, in the order in which they were made.
    pub id: u64,
    /// The op that made it, with scope and number: `Default/conv1/conv2d-op3`.
    pub name: String,
    /// The user's line, as `file:line`; empty where it is not known.
    pub location: String,
    /// Bytes that were asked for.
    pub bytes: u64,
    /// When it was made, in nanoseconds of the monotonic clock; 0 where no history was kept then.
    pub time: u64,
}

/// A block that the pool has reserved from the device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Block {
    /// Its bytes.
    pub bytes: u64,
    /// What it is made of, without gaps.
    pub ranges: Vec<BlockRange>,
}

/// A part of a [`Block`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockRange {
    /// Where it starts in the block, in bytes.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
    /// What it is for. What is `Allocated` and has no `buffer` is not listed, or holds what a program computes on the way.
    pub usage: MemoryUse,
    /// The [`LiveBuffer::id`] of the buffer in it, where that is listed.
    pub buffer: Option<u64>,
}

/// A buffer was made or went.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// When, in nanoseconds of the monotonic clock.
    pub time: u64,
    /// Whether it was made.
    pub made: bool,
    /// The [`LiveBuffer::id`] of the buffer.
    pub buffer: u64,
    /// The op that made it.
    pub name: String,
    /// The user's line.
    pub location: String,
    /// Its bytes.
    pub bytes: u64,
}

/// The memory of a device at a moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MemorySnapshot {
    /// The device, as `cpu:0`.
    pub device: String,
    /// The figures of its pool.
    pub stats: MemoryStats,
    /// The buffers that are listed, oldest first.
    pub buffers: Vec<LiveBuffer>,
    /// The blocks of the pool.
    pub blocks: Vec<Block>,
    /// Their sums by op, line and scope, the largest first.
    pub holders: Vec<Holder>,
    /// What happened last, as far as a history is kept.
    pub history: Vec<Change>,
}

/// What an op holds more or less than before.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryChange {
    /// The op.
    pub op: String,
    /// The user's line.
    pub location: String,
    /// The part of the network.
    pub scope: String,
    /// How many buffers more; less than 0 for fewer.
    pub buffers: i64,
    /// How many bytes more.
    pub bytes: i64,
}

/// Who holds the memory of the device of `cx` now. It does not wait for the device.
///
/// # Errors
/// The device does not tell the figures of its pool.
pub fn memory_snapshot(cx: &Context) -> crate::Result<MemorySnapshot> {
    let (live, history) = cx.engine().holders();
    let buffer = |(id, made): &(u64, Made)| LiveBuffer {
        id: *id,
        name: made.tag.name(),
        location: holders::location(&made.tag),
        bytes: made.bytes,
        time: made.time,
    };
    let change = |happened: &Happened| Change {
        time: happened.time,
        made: happened.made,
        buffer: happened.buffer,
        name: OpTag::name(&happened.tag),
        location: holders::location(&happened.tag),
        bytes: happened.bytes,
    };
    Ok(MemorySnapshot {
        device: cx.device().target().to_owned(),
        stats: cx.device().memory_stats()?,
        buffers: live.iter().map(buffer).collect(),
        blocks: blocks(&cx.device().memory_ranges()?, &live),
        holders: holders::sums(&mut live.iter().map(|(_, made)| made)),
        history: history.iter().map(change).collect(),
    })
}

fn blocks(ranges: &[MemoryRange], live: &[(u64, Made)]) -> Vec<Block> {
    let ids: HashMap<u64, u64> = live.iter().map(|(id, made)| (made.handle, *id)).collect();
    let range = |range: &MemoryRange| BlockRange {
        offset: range.offset,
        bytes: range.bytes,
        // A use that a later contract has is one of memory that nobody else gets.
        usage: MemoryUse::from_code(range.usage).unwrap_or(MemoryUse::Allocated),
        buffer: ids.get(&range.buffer).copied(),
    };
    (ranges.chunk_by(|a, b| a.block == b.block))
        .map(|ranges| Block {
            bytes: ranges[0].block_bytes,
            ranges: ranges.iter().map(range).collect(),
        })
        .collect()
}

impl MemorySnapshot {
    /// What ops hold more or less than in an earlier snapshot, the largest change first; what holds as much is not listed.
    pub fn diff(&self, earlier: &MemorySnapshot) -> Vec<MemoryChange> {
        let mut changes = BTreeMap::<(&str, &str, &str), (i64, i64)>::new();
        for (snapshot, sign) in [(self, 1), (earlier, -1)] {
            for holder in &snapshot.holders {
                let key = (
                    holder.op.as_str(),
                    holder.location.as_str(),
                    holder.scope.as_str(),
                );
                let change = changes.entry(key).or_default();
                change.0 += sign * holder.buffers as i64;
                change.1 += sign * holder.bytes as i64;
            }
        }
        let mut all: Vec<MemoryChange> = (changes.into_iter())
            .filter(|(_, change)| *change != (0, 0))
            .map(|((op, location, scope), (buffers, bytes))| MemoryChange {
                op: op.to_owned(),
                location: location.to_owned(),
                scope: scope.to_owned(),
                buffers,
                bytes,
            })
            .collect();
        all.sort_by_key(|change| std::cmp::Reverse(change.bytes.unsigned_abs()));
        all
    }
}

impl fmt::Display for MemorySnapshot {
    /// The figures, and a line for each holder.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((used, unit), (reserved, of)) = (
            size_in_unit(self.stats.allocated),
            size_in_unit(self.stats.reserved),
        );
        write!(f, "{}: {used} {unit} of {reserved} {of} in use", self.device)?;
        self.holders
            .iter()
            .try_for_each(|holder| write!(f, "\n  {holder}"))
    }
}
