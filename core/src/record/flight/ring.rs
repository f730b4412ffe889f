//! The last events of a process in a mapped file, which stay when the process is killed.

use crate::record::clock;
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::mem::size_of;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Events of a kind that are kept.
pub(super) const EVENTS: usize = 4096;
/// Slots of a kind: those events, and numbers that stand for none.
const SLOTS: usize = EVENTS + 256;
/// A thread takes so many numbers at once, for an atomic addition takes as long as all else of an event. The time is noted of
/// the first of them.
pub(super) const TAKEN: u64 = 16;
/// The first word of a file. Its last byte is the version.
const MAGIC: u64 = u64::from_be_bytes(*b"TWFLIGH\x02");
/// [`Layout::end`] of a process that has not ended; else the status and 1.
const RUNS: u64 = 0;
/// The content of a number that a thread took and did not need.
const NOTHING: [u64; 3] = [u64::MAX; 3];

/// An event: three words of content, the time or 0, and a check over these and the number of the event.
type Slot = [AtomicU64; 5];

/// Numbers of a kind of events. Heads lie apart so that threads do not share lines for nothing.
#[repr(C)]
struct Head {
    /// How many were taken.
    taken: AtomicU64,
    /// Of those, how many stand for no event and never will.
    void: AtomicU64,
    _apart: [AtomicU64; 6],
}

/// The file in words.
#[repr(C)]
struct Layout {
    magic: AtomicU64,
    end: AtomicU64,
    _apart: [AtomicU64; 6],
    heads: [Head; 2],
    _rest: [AtomicU64; 40],
    slots: [[Slot; SLOTS]; 2],
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Kind {
    Launch,
    Memory,
}

/// A mapped file.
pub(super) struct Mapped(&'static Layout);

/// The numbers that a thread has taken, of each kind, and the file that they belong to.
struct Mine {
    of: Cell<Option<&'static Layout>>,
    numbers: [Cell<(u64, u64)>; 2],
}

thread_local! {
    static MINE: Mine = const {
        Mine { of: Cell::new(None), numbers: [const { Cell::new((0, 0)) }; 2] }
    };
}

impl Mine {
    #[inline]
    fn next(&self, layout: &'static Layout, kind: Kind) -> u64 {
        if !self.of.get().is_some_and(|of| std::ptr::eq(of, layout)) {
            self.give_back();
            self.of.set(Some(layout));
        }
        let numbers = &self.numbers[kind as usize];
        let (mut next, mut end) = numbers.get();
        let taken = layout.heads[kind as usize].taken.load(Ordering::Relaxed);
        // The slots of numbers that were taken long ago have newer events.
        if next == end || taken - next >= SLOTS as u64 {
            layout.give_back(kind, next..end);
            (next, end) = layout.take(kind);
        }
        numbers.set((next + 1, end));
        next
    }

    fn give_back(&self) {
        let Some(layout) = self.of.take() else { return };
        for kind in [Kind::Launch, Kind::Memory] {
            let (next, end) = self.numbers[kind as usize].take();
            layout.give_back(kind, next..end);
        }
    }
}

impl Drop for Mine {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Layout {
    fn take(&self, kind: Kind) -> (u64, u64) {
        let first = self.heads[kind as usize]
            .taken
            .fetch_add(TAKEN, Ordering::Relaxed);
        (first, first + TAKEN)
    }

    /// These numbers stand for no event.
    fn give_back(&self, kind: Kind, numbers: Range<u64>) {
        let head = &self.heads[kind as usize];
        if numbers.is_empty() {
            return;
        }
        head.void
            .fetch_add(numbers.end - numbers.start, Ordering::Relaxed);
        if head.taken.load(Ordering::Relaxed) - numbers.start < SLOTS as u64 {
            numbers.for_each(|number| self.write(kind, number, NOTHING, 0));
        }
    }

    #[inline]
    fn write(&self, kind: Kind, number: u64, content: [u64; 3], time: u64) {
        let slot = &self.slots[kind as usize][number as usize % SLOTS];
        for (word, value) in slot.iter().zip(content) {
            word.store(value, Ordering::Relaxed);
        }
        slot[3].store(time, Ordering::Relaxed);
        slot[4].store(check(number, content, time), Ordering::Release);
    }
}

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) number: u64,
    pub(super) content: [u64; 3],
    /// Monotonic nanoseconds, of the first of [`TAKEN`].
    pub(super) time: Option<u64>,
}

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Of `number`, which [`number`] gets back.
fn check(number: u64, content: [u64; 3], time: u64) -> u64 {
    (mixed(content, time) ^ number.wrapping_add(1).wrapping_mul(ODD)).wrapping_mul(ODD)
}

/// The number that a check was made of. That of a slot whose words do not belong together is any.
fn number(check: u64, content: [u64; 3], time: u64) -> u64 {
    (check.wrapping_mul(INVERSE) ^ mixed(content, time))
        .wrapping_mul(INVERSE)
        .wrapping_sub(1)
}

fn mixed([a, b, c]: [u64; 3], time: u64) -> u64 {
    a ^ b.rotate_left(16) ^ c.rotate_left(32) ^ time.rotate_left(48)
}

/// Of [`ODD`] modulo 2^64, by Newton's iteration, which doubles the bits that are right.
const INVERSE: u64 = {
    let mut inverse = ODD;
    let mut right = 3;
    while right < 64 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(ODD.wrapping_mul(inverse)));
        right *= 2;
    }
    inverse
};

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
        let number = MINE.try_with(|mine| mine.next(self.0, kind));
        // A thread that ends keeps no numbers.
        let number = number.unwrap_or_else(|_| {
            let (first, end) = self.0.take(kind);
            self.0.give_back(kind, first + 1..end);
            first
        });
        let time = match number % TAKEN {
            0 => clock::now(),
            _ => 0,
        };
        self.0.write(kind, number, content, time);
    }

    /// How many launches were noted, and up to [`TAKEN`] more for each other thread.
    pub(super) fn launches(&self) -> u64 {
        let head = &self.0.heads[Kind::Launch as usize];
        let mine = MINE.try_with(|mine| match mine.of.get() {
            Some(of) if std::ptr::eq(of, self.0) => mine.numbers[Kind::Launch as usize].get(),
            _ => (0, 0),
        });
        let (next, end) = mine.unwrap_or_default();
        head.taken.load(Ordering::Relaxed) - head.void.load(Ordering::Relaxed) - (end - next)
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
    /// Of launches: how many there were, less those that an older one was written over, and the last ones by number.
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
        let mut of = |kind: Kind| {
            let head = std::mem::offset_of!(Layout, heads) + kind as usize * size_of::<Head>();
            let first = std::mem::offset_of!(Layout, slots) + kind as usize * SLOTS * size_of::<Slot>();
            let taken = word(head + std::mem::offset_of!(Head, taken));
            let void = word(head + std::mem::offset_of!(Head, void));
            let (mut open, mut events) = (0, Vec::new());
            for numbered in taken.saturating_sub(SLOTS as u64)..taken {
                let at = first + (numbered as usize % SLOTS) * size_of::<Slot>();
                let [a, b, c, time, sum] = std::array::from_fn(|part| word(at + part * 8));
                let content = [a, b, c];
                let never = content == [0; 3] && time == 0 && sum == 0;
                // A number that a thread took and has not used yet leaves the event of the round before.
                let behind = numbered.wrapping_sub(number(sum, content, time));
                let whole = behind.is_multiple_of(SLOTS as u64) && behind <= numbered;
                match (never, whole) {
                    (true, _) => open += 1,
                    (false, false) => torn += 1,
                    (false, true) => {
                        open += u64::from(behind > 0);
                        if content != NOTHING && behind <= SLOTS as u64 {
                            events.push(Event {
                                number: numbered - behind,
                                content,
                                time: (time != 0).then_some(time),
                            });
                        }
                    }
                }
            }
            events.sort_unstable_by_key(|event| event.number);
            events.drain(..events.len().saturating_sub(EVENTS));
            (taken.saturating_sub(void).saturating_sub(open), events)
        };
        let launches = of(Kind::Launch);
        let memory = of(Kind::Memory);
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
            let mapped = &mapped;
            let threads = [0, 1, 2, 3_u64].map(|thread| {
                scope.spawn(move || {
                    (0..3000).for_each(|event| mapped.push(Kind::Launch, content(thread << 32 | event)));
                })
            });
            // Threads give back what they took when they end, which a scope does not wait for.
            for thread in threads {
                thread.join().unwrap();
            }
        });
        mapped.push(Kind::Memory, content(7));
        let read = Content::of(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(read.status, None);
        // A thread that is stopped inside `push` writes over a newer event when it goes on: over a part of it, or all.
        let over = 12_000 - read.launches.0;
        assert!(read.torn as u64 + over <= 4, "{} {over}", read.torn);
        assert_eq!(read.launches.1.len(), EVENTS);
        let mut last = [None; 4];
        for event in &read.launches.1 {
            let [of, ..] = event.content;
            assert_eq!(event.content, content(of));
            assert_eq!(event.time.is_some(), event.number % TAKEN == 0);
            let (thread, number) = ((of >> 32) as usize, of & 0xffff_ffff);
            assert!(last[thread] < Some(number));
            last[thread] = Some(number);
        }
        assert_eq!(read.memory.0, 1);
        assert_eq!(read.memory.1[0].content, content(7));
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
        assert_eq!(Content::of(&bytes).unwrap().launches.0, 10);
        for byte in 0..size_of::<Slot>() {
            let mut torn = bytes.clone();
            torn[first + 4 * size_of::<Slot>() + byte] ^= 1;
            let read = Content::of(&torn).unwrap();
            assert_eq!((read.torn, read.launches.1.len()), (1, 9), "byte {byte}");
        }
        assert!(Content::of(&bytes[1..]).is_none());
        // A head that says anything.
        let mut wrong = bytes;
        wrong[std::mem::offset_of!(Layout, heads)..][..8].fill(0xff);
        assert_eq!(Content::of(&wrong).unwrap().launches.1.len(), 0);
    }
}
