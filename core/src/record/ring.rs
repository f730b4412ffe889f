//! What a thread writes events to, and one other thread reads.

use super::event::{Event, WORDS, Words};
use super::{session, switch};
use parking_lot::Mutex;
use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Events that a thread can be ahead of the writer: 1 MiB, touched as it is used.
const CAPACITY: usize = 1 << 14;

/// An event as words that are written and read one by one: no other thread sees half of one, because the index says which are whole.
type Slot = [AtomicU64; WORDS];

/// The events of a thread that were not written yet. Only that thread pushes, only the holder of the list's lock takes.
pub(crate) struct Ring {
    /// Number of the thread in this process, from 1.
    pub(crate) thread: u32,
    /// Its name.
    pub(crate) name: String,
    slots: Box<[Slot]>,
    // Of events since the start; the slot is the remainder.
    taken: AtomicUsize,
    pushed: AtomicUsize,
    lost: AtomicU64,
}

/// The rings of all threads.
static RINGS: Mutex<Vec<Arc<Ring>>> = Mutex::new(Vec::new());

thread_local! {
    static MINE: OnceCell<Arc<Ring>> = const { OnceCell::new() };
}

/// Notes an event of this thread, unless it is not recorded any more.
#[inline(always)]
pub(crate) fn push(on: switch::On, event: Event) {
    let words = event.words(on.session());
    // A thread at its very end has no ring any more.
    let _ = MINE.try_with(|mine| mine.get_or_init(Ring::listed).push(&words));
}

impl Ring {
    fn new(capacity: usize) -> Ring {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let thread = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = std::thread::current().name().map(str::to_owned);
        Ring {
            thread,
            name: name.unwrap_or_else(|| format!("thread {thread}")),
            slots: (0..capacity).map(|_| Slot::default()).collect(),
            taken: AtomicUsize::new(0),
            pushed: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
        }
    }

    #[cold]
    fn listed() -> Arc<Ring> {
        let ring = Arc::new(Ring::new(CAPACITY));
        RINGS.lock().push(Arc::clone(&ring));
        ring
    }

    fn slot(&self, at: usize) -> &Slot {
        &self.slots[at & (self.slots.len() - 1)]
    }

    #[inline(always)]
    fn push(&self, words: &Words) {
        let at = self.pushed.load(Ordering::Relaxed);
        let waiting = at.wrapping_sub(self.taken.load(Ordering::Acquire));
        if waiting >= self.slots.len() {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        for (slot, word) in self.slot(at).iter().zip(words) {
            slot.store(*word, Ordering::Relaxed);
        }
        self.pushed.store(at.wrapping_add(1), Ordering::Release);
        if waiting == self.slots.len() / 2 {
            session::wake();
        }
    }

    /// Hands all events that are there to `each`, and returns how many were dropped since the last time.
    fn take(&self, each: &mut dyn FnMut(Words)) -> u64 {
        let first = self.taken.load(Ordering::Relaxed);
        let pushed = self.pushed.load(Ordering::Acquire);
        let mut at = first;
        while at != pushed {
            let slot = self.slot(at);
            each(std::array::from_fn(|word| slot[word].load(Ordering::Relaxed)));
            at = at.wrapping_add(1);
            // The thread may go on before all are taken.
            if at.wrapping_sub(first).is_multiple_of(256) {
                self.taken.store(at, Ordering::Release);
            }
        }
        self.taken.store(at, Ordering::Release);
        self.lost.swap(0, Ordering::Relaxed)
    }
}

/// Hands the events of every thread to `each`, and to `lost` how many were dropped. Rings of threads that ended go.
pub(super) fn drain(each: &mut dyn FnMut(&Ring, Words), lost: &mut dyn FnMut(&Ring, u64)) {
    let mut rings = RINGS.lock();
    rings.retain(|ring| {
        // Before the events are taken: the thread pushes none after it let go.
        let ended = Arc::strong_count(ring) == 1;
        let dropped = ring.take(&mut |words| each(ring, words));
        if dropped > 0 {
            lost(ring, dropped);
        }
        !ended
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(of: u64) -> Words {
        std::array::from_fn(|at| of * 10 + at as u64)
    }

    #[test]
    fn events_come_out_whole_and_in_order_and_what_does_not_fit_is_counted() {
        let ring = Ring::new(64);
        let all = 200_000_u64;
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                (0..all).for_each(|event| {
                    ring.push(&words(event));
                    if event % 50 == 0 {
                        std::thread::yield_now();
                    }
                });
            });
            let (mut last, mut count, mut lost) = (None, 0, 0);
            loop {
                let ended = writer.is_finished();
                lost += ring.take(&mut |found| {
                    let event = found[0] / 10;
                    assert_eq!(found, words(event));
                    assert!(last < Some(event));
                    (last, count) = (Some(event), count + 1);
                });
                if ended {
                    break;
                }
            }
            assert_eq!(count + lost, all);
            assert!(count >= 64);
        });
    }

    #[test]
    fn a_full_ring_keeps_what_it_has() {
        let ring = Ring::new(64);
        (0..100).for_each(|event| ring.push(&words(event)));
        let mut found = Vec::new();
        assert_eq!(ring.take(&mut |words| found.push(words[0] / 10)), 36);
        assert_eq!(found, (0..64).collect::<Vec<_>>());
        assert_eq!(ring.take(&mut |_| panic!("it is empty")), 0);
    }
}
