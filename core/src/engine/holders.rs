//! What holds memory, for errors.

use crate::error::tag::OpTag;
use crate::error::{Error, Holder, OutOfMemory};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Buffers of this size and more are listed: next to filling one, entering it costs nothing.
pub(crate) const LISTED: u64 = 1 << 20;

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
