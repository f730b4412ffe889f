//! Bounded room for records that many threads write.

use super::{Raw, row};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Records that were taken or given back together.
pub(super) type Chunk = Vec<Raw>;

// Threads whose numbers differ by less than this share no lane.
const LANES: usize = 16;
/// Most records of a chunk. A chunk costs an allocation, and holds capacity that other threads may need.
const LARGEST: u64 = 256;

// Lanes are other threads': none shares a line with its neighbour.
#[repr(align(128))]
struct Lane(Mutex<Records>);

struct Records {
    session: u32,
    lost: u64,
    /// Records that the open chunk has room for.
    room: u64,
    open: Chunk,
    full: Vec<Chunk>,
}

/// Room for a set number of records, given to threads in chunks.
pub(super) struct Ring {
    lanes: [Lane; LANES],
    chunk: AtomicU64,
    /// Records for which no lane has room yet.
    left: AtomicU64,
    spare: Mutex<Vec<Chunk>>,
}

impl Ring {
    pub(super) fn new() -> Ring {
        let lane = |_| {
            Lane(Mutex::new(Records {
                session: 0,
                lost: 0,
                room: 0,
                open: Vec::new(),
                full: Vec::new(),
            }))
        };
        Ring {
            lanes: std::array::from_fn(lane),
            chunk: AtomicU64::new(1),
            left: AtomicU64::new(0),
            spare: Mutex::new(Vec::new()),
        }
    }

    /// Drops all records and takes up to `capacity` of `session` from now on.
    pub(super) fn begin(&self, session: u32, capacity: u64) {
        // Nobody finds room meanwhile, so that none is given to a lane that is emptied afterwards.
        self.left.store(0, Ordering::Relaxed);
        for Lane(lane) in &self.lanes {
            *lane.lock() = Records {
                session,
                lost: 0,
                room: 0,
                open: Vec::new(),
                full: Vec::new(),
            };
        }
        self.spare.lock().clear();
        self.chunk
            .store((capacity / 64).clamp(1, LARGEST), Ordering::Relaxed);
        self.left.store(capacity, Ordering::Relaxed);
    }

    /// Keeps a record, unless it is of an earlier session. Without room it is lost.
    #[inline]
    pub(super) fn push(&self, session: u32, raw: Raw) {
        let Lane(lane) = &self.lanes[row() as usize % LANES];
        let mut records = lane.lock();
        if records.session != session {
            return;
        }
        if records.room == 0 && !self.find_room(&mut records) {
            records.lost += 1;
            return;
        }
        records.room -= 1;
        records.open.push(raw);
    }

    #[cold]
    fn find_room(&self, records: &mut Records) -> bool {
        let chunk = self.chunk.load(Ordering::Relaxed);
        let take = |left: u64| Some(left - left.min(chunk)).filter(|_| left > 0);
        let Ok(before) = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) else {
            return false;
        };
        let spare = self.spare.lock().pop();
        let open = spare.unwrap_or_else(|| Vec::with_capacity(chunk as usize));
        let full = std::mem::replace(&mut records.open, open);
        if !full.is_empty() {
            records.full.push(full);
        }
        records.room = before.min(chunk);
        true
    }

    /// Moves all records to `out`; how many were lost.
    pub(super) fn take(&self, out: &mut Vec<Chunk>) -> u64 {
        let mut lost = 0;
        for Lane(lane) in &self.lanes {
            let mut records = lane.lock();
            lost += std::mem::take(&mut records.lost);
            self.left
                .fetch_add(std::mem::take(&mut records.room), Ordering::Relaxed);
            out.append(&mut records.full);
            let open = std::mem::take(&mut records.open);
            drop(records);
            if !open.is_empty() {
                out.push(open);
            }
        }
        lost
    }

    /// Takes a chunk back whose records were handed out.
    pub(super) fn give_back(&self, chunk: Option<Chunk>) {
        let Some(mut chunk) = chunk else { return };
        self.left.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        chunk.clear();
        self.spare.lock().push(chunk);
    }
}
