//! Blocks and the free lists that they lie in.

use super::{Block, Fence, GRANULARITY, Lists, NONE, Pool, State};

impl<C> Pool<C> {
    pub(super) fn new_block(&mut self, chunk: u32, offset: u64, size: u64, prev: u32, next: u32) -> u32 {
        let block = Block {
            chunk,
            offset,
            size,
            prev,
            next,
            free_prev: NONE,
            free_next: NONE,
            state: State::Used,
        };
        match self.vacant.pop() {
            Some(index) => {
                self.blocks[index as usize] = block;
                index
            }
            None => {
                self.blocks.push(block);
                self.blocks.len() as u32 - 1
            }
        }
    }

    fn lists(&mut self, stream: u64) -> &mut Lists {
        if stream == 0 {
            &mut self.common
        } else {
            self.streams.entry(stream).or_insert_with(Lists::new)
        }
    }

    /// Takes a block of exactly `size` out of the free lists that `stream` may use, with the point up to which the
    /// stream may use it already.
    #[inline]
    pub(super) fn take(&mut self, size: u64, stream: u64) -> Option<(u32, Option<Fence>)> {
        if stream != 0
            && !self.streams.is_empty()
            && let Some(block) = self.take_from(size, stream)
        {
            let position = self.lists(stream).position;
            return Some((block, Some(Fence { stream, position })));
        }
        self.take_from(size, 0).map(|block| (block, None))
    }

    fn take_from(&mut self, size: u64, stream: u64) -> Option<u32> {
        let units = size / GRANULARITY;
        let lists = if stream == 0 {
            &mut self.common
        } else {
            self.streams.get_mut(&stream)?
        };
        let own = *lists.bins.head(units);
        let fits = own != NONE && self.blocks[own as usize].size >= size;
        let block = if fits { own } else { lists.bins.find(units) };
        if block == NONE {
            return None;
        }
        self.unlink(block);
        let Block {
            chunk,
            offset,
            size: whole,
            next,
            ..
        } = self.blocks[block as usize];
        self.blocks[block as usize].state = State::Used;
        if whole > size {
            let rest = self.new_block(chunk, offset + size, whole - size, block, next);
            if next != NONE {
                self.blocks[next as usize].prev = rest;
            }
            self.blocks[block as usize].next = rest;
            self.blocks[block as usize].size = size;
            let position = self.lists(stream).position;
            self.link(rest, stream, position);
        }
        Some(block)
    }

    /// Puts a block into a stream's lists, merged with its neighbours in the same lists.
    pub(super) fn put(&mut self, mut block: u32, stream: u64, position: u64) {
        let Block { prev, next, .. } = self.blocks[block as usize];
        if next != NONE && self.blocks[next as usize].state == State::Free(stream) {
            self.unlink(next);
            self.merge(block, next);
        }
        if prev != NONE && self.blocks[prev as usize].state == State::Free(stream) {
            self.unlink(prev);
            self.merge(prev, block);
            block = prev;
        }
        self.link(block, stream, position);
    }

    fn merge(&mut self, block: u32, next: u32) {
        let Block {
            size, next: after, ..
        } = self.blocks[next as usize];
        self.blocks[block as usize].size += size;
        self.blocks[block as usize].next = after;
        if after != NONE {
            self.blocks[after as usize].prev = block;
        }
        self.blocks[next as usize].state = State::Vacant;
        self.vacant.push(next);
    }

    fn link(&mut self, block: u32, stream: u64, position: u64) {
        let size = self.blocks[block as usize].size;
        let units = size / GRANULARITY;
        let lists = self.lists(stream);
        lists.bytes += size;
        lists.position = lists.position.max(position);
        let head = std::mem::replace(lists.bins.head(units), block);
        lists.bins.update(units);
        if head != NONE {
            self.blocks[head as usize].free_prev = block;
        }
        let entry = &mut self.blocks[block as usize];
        (entry.free_prev, entry.free_next, entry.state) = (NONE, head, State::Free(stream));
    }

    pub(super) fn unlink(&mut self, block: u32) {
        let Block {
            size,
            free_prev,
            free_next,
            state,
            ..
        } = self.blocks[block as usize];
        let State::Free(stream) = state else { return };
        if free_next != NONE {
            self.blocks[free_next as usize].free_prev = free_prev;
        }
        if free_prev != NONE {
            self.blocks[free_prev as usize].free_next = free_next;
        }
        let lists = self.lists(stream);
        lists.bytes -= size;
        if free_prev == NONE {
            *lists.bins.head(size / GRANULARITY) = free_next;
            lists.bins.update(size / GRANULARITY);
        }
    }

    /// Moves a stream's lists to the common ones.
    pub(super) fn join(&mut self, stream: u64) {
        let Some(lists) = self.streams.remove(&stream) else {
            return;
        };
        let mut blocks = Vec::new();
        for head in lists.bins.heads() {
            let mut block = head;
            while block != NONE {
                blocks.push(block);
                block = self.blocks[block as usize].free_next;
            }
        }
        // Out of all lists first, so that merging does not touch the lists that are gone.
        for &block in &blocks {
            self.blocks[block as usize].state = State::Waiting;
        }
        for block in blocks {
            self.put(block, 0, 0);
        }
    }
}
