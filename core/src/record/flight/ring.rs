//! The last events of a process in a mapped file, which stay when the process is killed.

use crate::record::clock;
use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Events of a kind that are kept; a power of two.
pub(super) const EVENTS: usize = 4096;
/// The time is noted of one event in so many; to read a clock takes as long as all else.
pub(super) const TIMED: u64 = 16;
/// The first word of a file. Its last byte is the version.
const MAGIC: u64 = u64::from_be_bytes(*b"TWFLIGH\x01");
/// [`Layout::end`] of a process that has not ended; else the status and 1.
const RUNS: u64 = 0;

/// An event: three words of content, the time or 0, and a check over these and the number of the event.
type Slot = [AtomicU64; 5];

/// The file in words. Heads count events since the start, and lie apart so that threads do not share lines for nothing.
#[repr(C)]
struct Layout {
    magic: AtomicU64,
    end: AtomicU64,
    _apart: [AtomicU64; 6],
    launches: AtomicU64,
    _apart_too: [AtomicU64; 7],
    memory: AtomicU64,
    _rest: [AtomicU64; 47],
    slots: [[Slot; EVENTS]; 2],
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Launch,
    Memory,
}

/// A mapped file.
pub(super) struct Mapped(&'static Layout);

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) number: u64,
    pub(super) content: [u64; 3],
    /// Monotonic nanoseconds, of one event in [`TIMED`].
    pub(super) time: Option<u64>,
}

fn check(number: u64, [a, b, c]: [u64; 3], time: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = a ^ b.rotate_left(16) ^ c.rotate_left(32) ^ time.rotate_left(48);
    (mixed ^ (number.wrapping_add(1)).wrapping_mul(ODD)).wrapping_mul(ODD)
}

impl Mapped {
    /// Makes the file, which must not be there.
    pub(super) fn create(path: &Path) -> io::Result<Mapped> {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let bytes = size_of::<Layout>();
        // SAFETY: the descriptor is open. Without its blocks, a full disk would end the process at a store.
        let status = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as libc::off_t) };
        if status != 0 {
            return Err(io::Error::from_raw_os_error(status));
        }
        // SAFETY: a new mapping of a file of this size; nothing is at an address that the system chooses.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping begins at a page, has the size of `Layout`, whose words may have any bits, and is never unmapped.
        let layout: &'static Layout = unsafe { &*address.cast() };
        layout.magic.store(MAGIC, Ordering::Relaxed);
        Ok(Mapped(layout))
    }

    /// Notes an event. No other thread waits.
    #[inline]
    pub(super) fn push(&self, kind: Kind, content: [u64; 3]) {
        let (head, slots) = match kind {
            Kind::Launch => (&self.0.launches, &self.0.slots[0]),
            Kind::Memory => (&self.0.memory, &self.0.slots[1]),
        };
        let number = head.fetch_add(1, Ordering::Relaxed);
        let time = match number % TIMED {
            0 => clock::now(),
            _ => 0,
        };
        let slot = &slots[number as usize % EVENTS];
        for (word, value) in slot.iter().zip(content) {
            word.store(value, Ordering::Relaxed);
        }
        slot[3].store(time, Ordering::Relaxed);
        slot[4].store(check(number, content, time), Ordering::Release);
    }

    /// How many launches were noted.
    pub(super) fn launches(&self) -> u64 {
        self.0.launches.load(Ordering::Relaxed)
    }

    /// The process ended with this status.
    pub(super) fn ended(&self, status: i32) {
        let end = u64::from(status.unsigned_abs()) + RUNS + 1;
        self.0.end.store(end, Ordering::Relaxed);
    }
}

/// What a file says.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// The status that the process ended with; `None` where it did not end by itself.
    pub(super) status: Option<u32>,
    /// Of launches: how many there were, and the last ones.
    pub(super) launches: (u64, Vec<Event>),
    /// The same of memory.
    pub(super) memory: (u64, Vec<Event>),
    /// Events that are lost: half written when the process was killed, or written over by a thread
    /// that was stopped in its writing until the ring came round.
    pub(super) torn: usize,
}

impl Content {
    /// Of the bytes of a file; `None` for those of another kind of file.
    pub(super) fn of(bytes: &[u8]) -> Option<Content> {
        if bytes.len() != size_of::<Layout>() {
            return None;
        }
        let word = |at: usize| -> u64 {
            let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_ne_bytes)
        };
        if word(std::mem::offset_of!(Layout, magic)) != MAGIC {
            return None;
        }
        let mut torn = 0;
        let mut of = |kind: usize, head: usize| {
            let count = word(head);
            let first = std::mem::offset_of!(Layout, slots) + kind * EVENTS * size_of::<Slot>();
            let mut events = Vec::new();
            for number in count.saturating_sub(EVENTS as u64)..count {
                let at = first + (number as usize % EVENTS) * size_of::<Slot>();
                let [a, b, c, time, sum] = std::array::from_fn(|part| word(at + part * 8));
                let content = [a, b, c];
                if check(number, content, time) != sum {
                    torn += 1;
                    continue;
                }
                let time = (time != 0).then_some(time);
                events.push(Event {
                    number,
                    content,
                    time,
                });
            }
            (count, events)
        };
        let launches = of(0, std::mem::offset_of!(Layout, launches));
        let memory = of(1, std::mem::offset_of!(Layout, memory));
        let end = word(std::mem::offset_of!(Layout, end));
        Some(Content {
            status: (end != RUNS).then(|| u32::try_from(end - 1).unwrap_or(u32::MAX)),
            launches,
            memory,
            torn,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(of: u64) -> [u64; 3] {
        [of, of * 3, !of]
    }

    #[test]
    fn the_last_events_of_all_threads_are_there_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ring");
        let mapped = Mapped::create(&path).unwrap();
        assert!(Mapped::create(&path).is_err());
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let mapped = &mapped;
                scope.spawn(move || {
                    (0..3000).for_each(|event| mapped.push(Kind::Launch, content(thread << 32 | event)));
                });
            }
        });
        mapped.push(Kind::Memory, content(7));
        let read = Content::of(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!((read.status, read.launches.0), (None, 12_000));
        // A thread that is stopped inside `push` writes over a newer event when it goes on.
        assert!(read.torn <= 4, "{}", read.torn);
        assert_eq!(read.launches.1.len(), EVENTS - read.torn);
        let mut last = [None; 4];
        for event in &read.launches.1 {
            let [of, ..] = event.content;
            assert_eq!(event.content, content(of));
            assert_eq!(event.time.is_some(), event.number % TIMED == 0);
            let (thread, number) = ((of >> 32) as usize, of & 0xffff_ffff);
            assert!(last[thread] < Some(number));
            last[thread] = Some(number);
        }
        assert_eq!((read.memory.0, read.memory.1[0].content), (1, content(7)));
        mapped.ended(101);
        let read = Content::of(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(read.status, Some(101));
    }

    #[test]
    fn an_event_that_is_half_written_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ring");
        let mapped = Mapped::create(&path).unwrap();
        (0..10).for_each(|event| mapped.push(Kind::Launch, content(event)));
        let bytes = std::fs::read(&path).unwrap();
        let first = std::mem::offset_of!(Layout, slots);
        for byte in 0..size_of::<Slot>() {
            let mut torn = bytes.clone();
            torn[first + 4 * size_of::<Slot>() + byte] ^= 1;
            let read = Content::of(&torn).unwrap();
            assert_eq!((read.torn, read.launches.1.len()), (1, 9), "byte {byte}");
        }
        assert!(Content::of(&bytes[1..]).is_none());
        // A head that says anything.
        let mut wrong = bytes;
        wrong[std::mem::offset_of!(Layout, launches)..][..8].fill(0xff);
        assert_eq!(Content::of(&wrong).unwrap().launches.1.len(), 0);
    }
}
