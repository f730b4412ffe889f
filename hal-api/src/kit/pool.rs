//! The caching pool: one per device, true figures, reuse that knows about streams.
//!
//! Memory is reserved from the device in blocks of a set size and handed out in multiples of [`GRANULARITY`]. A freed
//! range that no stream uses any more lies in the common lists. One that a single stream may still use lies in that
//! stream's lists, where the stream itself takes it again at once; when the stream has passed the last such use, its
//! lists join the common ones. A range in use by several streams waits until all have passed.

mod blocks;

use super::tlsf::{Bins, NONE};
use crate::status::{Error, Result, Status};
use crate::tables::{MemoryRange, MemoryStatistics, MemoryUse};
use std::collections::HashMap;

/// Sizes and offsets are multiples of this many bytes.
pub const GRANULARITY: u64 = 512;
/// Bytes of a reserved block unless the device is opened with another size.
pub const DEFAULT_BLOCK_SIZE: u64 = 1 << 30;

const LARGE_ROUND: u64 = 2 << 20;

/// A point in a stream: all work up to `position`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fence {
    /// Any number that names the stream, never 0.
    pub stream: u64,
    /// Position in it.
    pub position: u64,
}

/// A range that was handed out.
#[derive(Debug)]
pub struct Range<C> {
    /// What the device reserved. Lives as long as the range is not freed.
    pub chunk: *const C,
    /// Offset in the chunk in bytes.
    pub offset: u64,
    /// Bytes, a multiple of [`GRANULARITY`].
    pub size: u64,
    /// For [`Pool::free`].
    pub block: u32,
    /// Work of the stream that asked which may still use the range, from before it was freed; [`Pool::free`] must be told
    /// of it again.
    pub fence: Option<Fence>,
}

struct Block {
    chunk: u32,
    offset: u64,
    size: u64,
    prev: u32,
    next: u32,
    // Links of the free list while the block is free.
    free_prev: u32,
    free_next: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Used,
    // In the lists of this stream, or in the common ones (0).
    Free(u64),
    // In `Pool::waiting`.
    Waiting,
    // The entry of `Pool::blocks` is unused.
    Vacant,
}

struct Lists {
    bins: Box<Bins>,
    bytes: u64,
    position: u64,
}

impl Lists {
    fn new() -> Lists {
        Lists {
            bins: Bins::new(),
            bytes: 0,
            position: 0,
        }
    }
}

struct Chunk<C> {
    memory: Box<C>,
    size: u64,
}

/// How the pool reaches its device.
pub trait Source {
    /// What one reservation is.
    type Chunk;
    /// Reserves `bytes` bytes, a multiple of [`GRANULARITY`], aligned to it.
    fn reserve(&self, bytes: u64) -> Result<Self::Chunk>;
    /// Told of a reservation that was given back.
    fn released(&self, bytes: u64) {
        let _ = bytes;
    }
    /// Whether a stream has passed a point.
    fn passed(&self, fence: Fence) -> bool;
    /// Like [`passed`](Source::passed), as far as it is known without asking a driver.
    fn known_passed(&self, fence: Fence) -> bool {
        self.passed(fence)
    }
}

/// The caching pool of one device.
pub struct Pool<C> {
    blocks: Vec<Block>,
    vacant: Vec<u32>,
    chunks: Vec<Option<Chunk<C>>>,
    common: Lists,
    streams: HashMap<u64, Lists>,
    waiting: Vec<(u32, Vec<Fence>)>,
    block_size: u64,
    capacity: u64,
    figures: MemoryStatistics,
}

// SAFETY: the pointers in ranges lead to chunks, which are `Send` when `C` is; the pool itself holds indices.
unsafe impl<C: Send> Send for Pool<C> {}

fn round_up(bytes: u64, to: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(to)
}

impl<C> Pool<C> {
    /// An empty pool. `limit` bounds the reserved bytes, 0 for none; `block_size` 0 means [`DEFAULT_BLOCK_SIZE`];
    /// `capacity` is the device's memory in bytes, 0 if unknown.
    pub fn new(limit: u64, block_size: u64, capacity: u64) -> Pool<C> {
        let block_size = if block_size == 0 {
            DEFAULT_BLOCK_SIZE
        } else {
            block_size
        };
        Pool {
            blocks: Vec::new(),
            vacant: Vec::new(),
            chunks: Vec::new(),
            common: Lists::new(),
            streams: HashMap::new(),
            waiting: Vec::new(),
            block_size: round_up(block_size, GRANULARITY).unwrap_or(u64::MAX / GRANULARITY * GRANULARITY),
            capacity,
            figures: MemoryStatistics {
                limit,
                ..MemoryStatistics::default()
            },
        }
    }

    /// Hands out at least `bytes` bytes to `stream` (0: the device at large); 0 bytes take one granule.
    ///
    /// Tries, in this order: the stream's own lists, the common lists, ranges whose streams have moved on, a new block. When
    /// that fails, wait for the streams without holding the pool, where [`Pool::may_fit`] says that it can help, and call
    /// [`Pool::alloc_at_last`].
    pub fn alloc(&mut self, bytes: u64, stream: u64, source: &impl Source<Chunk = C>) -> Result<Range<C>> {
        let taken = Pool::<C>::rounded(bytes).and_then(|size| match self.take(size, stream) {
            Some(taken) => Ok(taken),
            None => self.alloc_slow(size, stream, source),
        });
        self.hand_out(bytes, taken)
    }

    /// Like [`Pool::alloc`] and, if need be, gives cached blocks back to make room for a new one.
    pub fn alloc_at_last(
        &mut self,
        bytes: u64,
        stream: u64,
        source: &impl Source<Chunk = C>,
    ) -> Result<Range<C>> {
        let taken = Pool::<C>::rounded(bytes).and_then(|size| {
            self.alloc_slow(size, stream, source).or_else(|error| {
                if self.trim(source) == 0 {
                    return Err(error);
                }
                self.alloc_slow(size, stream, source)
            })
        });
        self.figures.retries += u64::from(taken.is_ok());
        self.hand_out(bytes, taken)
    }

    /// Whether `bytes` bytes fit into what the limit and the device allow at all.
    pub fn may_fit(&self, bytes: u64) -> bool {
        let most = [self.figures.limit, self.capacity];
        let mut set = most.into_iter().filter(|&most| most > 0);
        Pool::<C>::rounded(bytes).is_ok_and(|size| set.all(|most| size <= most))
    }

    fn rounded(bytes: u64) -> Result<u64> {
        round_up(bytes.max(1), GRANULARITY)
            .ok_or_else(|| Error::out_of_memory("more bytes than any device has"))
    }

    fn hand_out(&mut self, bytes: u64, taken: Result<(u32, Option<Fence>)>) -> Result<Range<C>> {
        let (block, fence) = taken.map_err(|error| self.explain(bytes, error))?;
        let Block {
            chunk, offset, size, ..
        } = self.blocks[block as usize];
        self.figures.allocations += 1;
        self.figures.live += 1;
        self.figures.allocated += size;
        match &self.chunks[chunk as usize] {
            Some(chunk) => Ok(Range {
                chunk: &raw const *chunk.memory,
                offset,
                size,
                block,
                fence,
            }),
            None => Err(Error::internal(
                "a block of the pool lies in a chunk that was given back",
            )),
        }
    }

    /// Counts an allocation that its caller has given up.
    pub fn count_failure(&mut self) {
        self.figures.out_of_memory += 1;
    }

    /// Takes a range back. `fences` are the points that streams must pass before anybody else may use it.
    pub fn free(&mut self, block: u32, fences: &[Fence], source: &impl Source<Chunk = C>) {
        let size = self.blocks[block as usize].size;
        self.figures.frees += 1;
        self.figures.live -= 1;
        self.figures.allocated -= size;
        let mut open = fences
            .iter()
            .copied()
            .filter(|&fence| !source.known_passed(fence));
        match (open.next(), open.next()) {
            (None, _) => self.put(block, 0, 0),
            (Some(fence), None) => self.put(block, fence.stream, fence.position),
            (Some(first), Some(second)) => {
                let open = [first, second].into_iter().chain(open).collect();
                self.blocks[block as usize].state = State::Waiting;
                self.waiting.push((block, open));
            }
        }
    }

    /// Moves ranges whose streams have moved on to the common lists.
    pub fn poll(&mut self, source: &impl Source<Chunk = C>) {
        let done: Vec<u64> = (self.streams.iter())
            .filter(|(stream, lists)| {
                source.passed(Fence {
                    stream: **stream,
                    position: lists.position,
                })
            })
            .map(|(stream, _)| *stream)
            .collect();
        for stream in done {
            self.join(stream);
        }
        let mut at = 0;
        while at < self.waiting.len() {
            self.waiting[at].1.retain(|&fence| !source.passed(fence));
            if self.waiting[at].1.is_empty() {
                let (block, _) = self.waiting.swap_remove(at);
                self.put(block, 0, 0);
            } else {
                at += 1;
            }
        }
    }

    /// The points that streams must pass before all freed memory is free for everybody.
    pub fn fences(&self) -> Vec<Fence> {
        let lists = (self.streams.iter()).map(|(&stream, lists)| Fence {
            stream,
            position: lists.position,
        });
        lists
            .chain(self.waiting.iter().flat_map(|(_, fences)| fences.iter().copied()))
            .collect()
    }

    /// Gives chunks that are wholly free back to the device and returns their bytes.
    pub fn trim(&mut self, source: &impl Source<Chunk = C>) -> u64 {
        self.poll(source);
        let mut released = 0;
        for index in 0..self.chunks.len() {
            let Some(chunk) = &self.chunks[index] else {
                continue;
            };
            let size = chunk.size;
            let whole = self.blocks.iter().position(|block| {
                block.chunk as usize == index && block.state == State::Free(0) && block.size == size
            });
            let Some(whole) = whole else { continue };
            self.unlink(whole as u32);
            self.blocks[whole].state = State::Vacant;
            self.vacant.push(whole as u32);
            self.chunks[index] = None;
            source.released(size);
            released += size;
        }
        self.figures.reserved -= released;
        released
    }

    /// The figures as they are now, but for `max_allocated`, which the [`Magazine`](super::magazine::Magazine) counts.
    pub fn statistics(&mut self, source: &impl Source<Chunk = C>) -> MemoryStatistics {
        self.poll(source);
        let waiting: u64 = self
            .waiting
            .iter()
            .map(|(block, _)| self.blocks[*block as usize].size)
            .sum();
        let eager_free = waiting + self.streams.values().map(|lists| lists.bytes).sum::<u64>();
        let heads = self.common.bins.heads().map(|head| {
            let list = std::iter::successors(Some(head), |&b| {
                Some(self.blocks[b as usize].free_next).filter(|&n| n != NONE)
            });
            list.map(|block| self.blocks[block as usize].size)
                .max()
                .unwrap_or(0)
        });
        MemoryStatistics {
            idle: self.figures.reserved - self.figures.allocated - eager_free,
            eager_free,
            largest_free: heads.max().unwrap_or(0),
            ..self.figures
        }
    }

    /// The parts of all reserved blocks, block by block, each with the number that [`Range::block`] has.
    pub fn ranges(&mut self, source: &impl Source<Chunk = C>) -> Vec<(u32, MemoryRange)> {
        self.poll(source);
        let usage = |state: State| match state {
            State::Used => Some(MemoryUse::Allocated),
            State::Free(0) => Some(MemoryUse::Idle),
            State::Free(_) | State::Waiting => Some(MemoryUse::EagerFree),
            State::Vacant => None,
        };
        let range = |(number, block): (u32, &Block)| {
            let range = MemoryRange {
                block: block.chunk.into(),
                block_bytes: self.chunks[block.chunk as usize].as_ref()?.size,
                offset: block.offset,
                bytes: block.size,
                buffer: 0,
                usage: usage(block.state)? as u32,
                reserved: 0,
            };
            Some((number, range))
        };
        let mut ranges: Vec<_> = (0..).zip(&self.blocks).filter_map(range).collect();
        ranges.sort_unstable_by_key(|(_, range)| (range.block, range.offset));
        ranges
    }

    /// Sets the peak of the reserved bytes to the present value.
    pub fn reset_peak(&mut self) {
        self.figures.max_reserved = self.figures.reserved;
    }

    /// Changes the limit on reserved bytes; 0 for none.
    pub fn set_limit(&mut self, limit: u64) {
        self.figures.limit = limit;
    }

    /// Says what the pool holds, unless memory is not what is wrong.
    fn explain(&self, bytes: u64, cause: Error) -> Error {
        if cause.status == Status::DeviceLost {
            return cause;
        }
        let MemoryStatistics {
            allocated,
            reserved,
            limit,
            ..
        } = self.figures;
        let room = match (limit, self.capacity) {
            (0, 0) => String::new(),
            (0, capacity) => format!(", the device has {capacity} B"),
            (limit, _) => format!(", the limit is {limit} B"),
        };
        Error::out_of_memory(format!(
            "{bytes} B do not fit: {allocated} B allocated, {reserved} B reserved{room} ({})",
            cause.message
        ))
    }

    fn alloc_slow(
        &mut self,
        size: u64,
        stream: u64,
        source: &impl Source<Chunk = C>,
    ) -> Result<(u32, Option<Fence>)> {
        self.poll(source);
        if let Some(taken) = self.take(size, stream) {
            return Ok(taken);
        }
        self.grow(size, source)?;
        self.take(size, stream)
            .ok_or_else(|| Error::internal("a new block of the pool is too small"))
    }

    fn grow(&mut self, size: u64, source: &impl Source<Chunk = C>) -> Result<()> {
        let room = match self.figures.limit {
            0 => u64::MAX,
            limit => limit.saturating_sub(self.figures.reserved) / GRANULARITY * GRANULARITY,
        };
        if size > room {
            return Err(Error::out_of_memory(format!("{room} B may still be reserved")));
        }
        let large = if size > self.block_size {
            round_up(size, LARGE_ROUND).unwrap_or(size)
        } else {
            self.block_size
        };
        let wanted = large.min(room);
        let (memory, got) = match source.reserve(wanted) {
            Ok(memory) => (memory, wanted),
            Err(_) if wanted > size => (source.reserve(size)?, size),
            Err(error) => return Err(error),
        };
        let chunk = Chunk {
            memory: Box::new(memory),
            size: got,
        };
        let index = match self.chunks.iter().position(Option::is_none) {
            Some(index) => {
                self.chunks[index] = Some(chunk);
                index
            }
            None => {
                self.chunks.push(Some(chunk));
                self.chunks.len() - 1
            }
        };
        self.figures.reserved += got;
        self.figures.max_reserved = self.figures.max_reserved.max(self.figures.reserved);
        self.figures.reserves += 1;
        let block = self.new_block(index as u32, 0, got, NONE, NONE);
        self.put(block, 0, 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
