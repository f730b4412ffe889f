//! Bounded room for records that many threads write.

use super::raw::Raw;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Most records of a chunk. A chunk costs an allocation, and holds capacity that other threads may need.
const LARGEST: u64 = 256;

/// Words of a record.
const WORDS: usize = 8;
/// A record, as its fields are put together.
pub(super) type Words = [u64; WORDS];

/// Room for records of one thread, which alone writes them. Words are written and read one by one, which costs what plain memory does:
/// no other thread sees half of a record, because it reads those alone that are counted.
pub(super) struct Chunk {
    words: Box<[AtomicU64]>,
    written: AtomicUsize,
    /// The thread takes another one for its next record. One that it is about to write still comes.
    closed: AtomicBool,
}

impl Chunk {
    fn new(records: usize) -> Chunk {
        Chunk {
            words: (0..records * WORDS).map(|_| AtomicU64::new(0)).collect(),
            written: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// Writes the next record, unless the chunk is full or closed.
    #[inline(always)]
    fn push(&self, raw: &Words) -> bool {
        let at = self.written.load(Ordering::Relaxed);
        let Some(record) = self.words.get(at * WORDS..(at + 1) * WORDS) else {
            return false;
        };
        if self.closed.load(Ordering::Relaxed) {
            return false;
        }
        for (to, word) in record.iter().zip(raw) {
            to.store(*word, Ordering::Relaxed);
        }
        self.written.store(at + 1, Ordering::Release);
        true
    }

    /// How many records it has room for.
    fn room(&self) -> usize {
        self.words.len() / WORDS
    }

    /// How many records are there.
    pub(super) fn len(&self) -> usize {
        self.written.load(Ordering::Acquire)
    }

    /// One of the records that are there.
    pub(super) fn get(&self, at: usize) -> Raw {
        let record = &self.words[at * WORDS..];
        Raw::of_words(std::array::from_fn(|word| record[word].load(Ordering::Relaxed)))
    }
}

/// What a thread writes for a ring.
struct Open {
    ring: u64,
    session: u32,
    chunk: Arc<Chunk>,
}

thread_local! {
    /// One for each ring; most threads have one.
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
}

/// A chunk that was taken from its thread.
pub(super) struct Taken {
    chunk: Arc<Chunk>,
    /// Records that were handed out.
    pub(super) read: usize,
    /// Records whose room comes back when all were handed out.
    room: usize,
}

impl Taken {
    pub(super) fn chunk(&self) -> &Chunk {
        &self.chunk
    }
}

/// What threads need a lock for: once a chunk.
struct Room {
    session: u32,
    /// Records of a chunk.
    chunk: u64,
    /// Records for which no chunk has room yet.
    left: u64,
    /// All that threads write.
    open: Vec<Arc<Chunk>>,
    spare: Vec<Arc<Chunk>>,
}

/// Room for a set number of records, given to threads in chunks.
pub(super) struct Ring {
    /// Tells rings of a process apart.
    number: u64,
    room: Mutex<Room>,
    lost: AtomicU64,
}

impl Ring {
    pub(super) fn new() -> Ring {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Ring {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            room: Mutex::new(Room {
                session: 0,
                chunk: 1,
                left: 0,
                open: Vec::new(),
                spare: Vec::new(),
            }),
            lost: AtomicU64::new(0),
        }
    }

    /// Drops all records and takes up to `capacity` of `session` from now on.
    pub(super) fn begin(&self, session: u32, capacity: u64) {
        *self.room.lock() = Room {
            session,
            chunk: (capacity / 64).clamp(1, LARGEST),
            left: capacity,
            open: Vec::new(),
            spare: Vec::new(),
        };
        self.lost.store(0, Ordering::Relaxed);
    }

    /// Keeps a record, unless it is of an earlier session. Without room it is lost.
    #[inline(always)]
    pub(super) fn push(&self, session: u32, raw: &Words) {
        let written = OPEN.try_with(|open| {
            let mut open = open.borrow_mut();
            let own = |open: &&Open| open.ring == self.number && open.session == session;
            open.iter().find(own).is_some_and(|open| open.chunk.push(raw))
                || self.push_anew(&mut open, session, raw)
        });
        if written.is_err() {
            // A thread at its very end has no chunk any more.
            self.push_anew(&mut Vec::new(), session, raw);
        }
    }

    /// Keeps a record in a chunk that the thread has not had before.
    #[cold]
    fn push_anew(&self, open: &mut Vec<Open>, session: u32, raw: &Words) -> bool {
        // Those of rings that are no more, and of sessions that ended, are this thread's alone.
        open.retain(|open| open.ring != self.number && Arc::strong_count(&open.chunk) > 1);
        let mut room = self.room.lock();
        if room.session != session {
            return true;
        }
        let records = room.chunk.min(room.left);
        if records == 0 {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        room.left -= records;
        let spare = match records == room.chunk {
            true => room.spare.pop(),
            false => None,
        };
        let chunk = spare.unwrap_or_else(|| Arc::new(Chunk::new(records as usize)));
        chunk.push(raw);
        room.open.push(Arc::clone(&chunk));
        open.push(Open {
            ring: self.number,
            session,
            chunk,
        });
        true
    }

    /// Moves all chunks to `out`; how many records were lost.
    pub(super) fn take(&self, out: &mut Vec<Taken>) -> u64 {
        let mut room = self.room.lock();
        for chunk in std::mem::take(&mut room.open) {
            chunk.closed.store(true, Ordering::Relaxed);
            let used = chunk.len();
            // What is not used can be given to another thread at once.
            room.left += (chunk.room() - used) as u64;
            out.push(Taken {
                chunk,
                read: 0,
                room: used,
            });
        }
        drop(room);
        self.lost.swap(0, Ordering::Relaxed)
    }

    /// Takes chunks back whose records were handed out. Those that a thread has not let go stay, for a record may come.
    pub(super) fn give_back(&self, taken: &mut Vec<Taken>) {
        let mut room = self.room.lock();
        taken.retain_mut(|taken| {
            if taken.read < taken.room {
                return true;
            }
            room.left += std::mem::take(&mut taken.room) as u64;
            let Some(chunk) = Arc::get_mut(&mut taken.chunk) else {
                return true;
            };
            if *chunk.written.get_mut() > taken.read {
                return true;
            }
            (chunk.written, chunk.closed) = (AtomicUsize::new(0), AtomicBool::new(false));
            if chunk.room() as u64 == room.chunk {
                room.spare.push(Arc::clone(&taken.chunk));
            }
            false
        });
    }
}
