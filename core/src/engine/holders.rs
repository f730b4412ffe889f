//! What holds memory, for errors and snapshots.

use crate::error::tag::OpTag;
use crate::error::{Error, Holder, OutOfMemory};
use crate::hal::Buffer;
use crate::record::memory::{self, LISTED};
use crate::record::scope::ScopeId;
use crate::record::{clock, flight};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The buffers of a device that are listed: all where the history is on, else the large ones.
#[derive(Default)]
pub(crate) struct Holders {
    live: Mutex<Live>,
}

#[derive(Default)]
struct Live {
    last: u64,
    buffers: HashMap<u64, Made>,
    /// What happened last, the latest last.
    history: VecDeque<Happened>,
}

/// A buffer and who made it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    pub(crate) tag: OpTag,
    pub(crate) bytes: u64,
    /// Handle of the buffer.
    pub(crate) handle: u64,
    /// Monotonic nanoseconds; 0 where the history was off.
    pub(crate) time: u64,
}

/// A buffer was made or went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Happened {
    pub(crate) time: u64,
    pub(crate) buffer: u64,
    pub(crate) made: bool,
    pub(crate) tag: OpTag,
    pub(crate) bytes: u64,
}

/// Keeps its buffer listed while it lives.
pub(crate) struct Listed {
    holders: Arc<Holders>,
    id: u64,
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut live = self.holders.live.lock();
        if let Some(Made { tag, bytes, .. }) = live.buffers.remove(&self.id) {
            live.note(self.id, false, tag, bytes);
            drop(live);
            in_flight(self.id, false, tag, bytes);
        }
    }
}

/// Tells the flight recorder.
fn in_flight(buffer: u64, made: bool, tag: OpTag, bytes: u64) {
    if flight::is_on() {
        flight::memory(tag.of_record(), buffer, bytes, made);
    }
}

impl Live {
    fn note(&mut self, buffer: u64, made: bool, tag: OpTag, bytes: u64) {
        let most = memory::history();
        if most == 0 {
            self.history = VecDeque::new();
            return;
        }
        while self.history.len() >= most {
            self.history.pop_front();
        }
        self.history.push_back(Happened {
            time: clock::now(),
            buffer,
            made,
            tag,
            bytes,
        });
    }
}

/// Sums over the buffers that an op made at a line in a scope.
pub(crate) fn sums(buffers: &mut dyn Iterator<Item = &Made>) -> Vec<Holder> {
    let mut sums = BTreeMap::<(&str, String, ScopeId), (usize, u64)>::new();
    for Made { tag, bytes, .. } in buffers {
        let sum = sums.entry((tag.op, location(tag), tag.scope)).or_default();
        *sum = (sum.0 + 1, sum.1 + bytes);
    }
    let mut holders: Vec<Holder> = sums
        .into_iter()
        .map(|((op, location, scope), (buffers, bytes))| Holder {
            op: op.to_owned(),
            location,
            scope: scope.path().to_string(),
            buffers,
            bytes,
        })
        .collect();
    holders.sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
    holders
}

/// `src/net.rs:48`; empty where it is not known.
pub(crate) fn location(tag: &OpTag) -> String {
    let text = tag.location().map(|at| format!("{}:{}", at.file(), at.line()));
    text.unwrap_or_default()
}

impl Holders {
    /// Lists a buffer that `tag` made, if it is large or the history is on.
    #[inline]
    pub(super) fn list(self: &Arc<Holders>, tag: &OpTag, buffer: &Buffer) -> Option<Box<Listed>> {
        if buffer.size() < LISTED.load(Ordering::Relaxed) {
            return None;
        }
        Some(self.listed(*tag, buffer))
    }

    fn listed(self: &Arc<Holders>, tag: OpTag, buffer: &Buffer) -> Box<Listed> {
        let (bytes, handle) = (buffer.size(), buffer.handle());
        let mut live = self.live.lock();
        live.last += 1;
        let id = live.last;
        let time = if memory::history() > 0 { clock::now() } else { 0 };
        let made = Made {
            tag,
            bytes,
            handle,
            time,
        };
        live.buffers.insert(id, made);
        live.note(id, true, tag, bytes);
        drop(live);
        in_flight(id, true, tag, bytes);
        let holders = Arc::clone(self);
        Box::new(Listed { holders, id })
    }

    /// The buffers that live, oldest first, and what happened.
    pub(super) fn snapshot(&self) -> (Vec<(u64, Made)>, Vec<Happened>) {
        let live = self.live.lock();
        let mut buffers: Vec<(u64, Made)> = live.buffers.iter().map(|(&id, &made)| (id, made)).collect();
        let history = live.history.iter().copied().collect();
        drop(live);
        buffers.sort_unstable_by_key(|(id, _)| *id);
        (buffers, history)
    }

    pub(super) fn out_of_memory(&self, cause: crate::hal::OutOfMemory) -> Error {
        let holders = sums(&mut self.live.lock().buffers.values());
        Error::OutOfMemory(Box::new(OutOfMemory {
            cause,
            holders,
            listed: LISTED.load(Ordering::Relaxed),
        }))
    }
}
