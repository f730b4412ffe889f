//! Small ranges that were freed and are kept whole for the next request of the same size, so that allocating and freeing
//! small buffers touches no shared lock; and the bytes that users hold, and their peak.

use super::pool::GRANULARITY;
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

const SHARDS: usize = 16;
const CLASSES: usize = 64;
/// Most bytes that one shard keeps.
const BUDGET: u64 = 2 << 20;

/// Largest size in bytes that is kept.
pub const LARGEST: u64 = CLASSES as u64 * GRANULARITY;

// Shards are other threads': none shares a line with its neighbour.
#[repr(align(128))]
struct Shard {
    locked: AtomicBool,
    lists: UnsafeCell<Lists>,
}

// SAFETY: `lists` is touched under the lock only.
unsafe impl Sync for Shard {}

struct Lists {
    // Indices of parked slots by size class.
    parked: [Vec<u32>; CLASSES],
    bytes: u64,
    hits: u64,
    // Bytes that came back and are still counted in `Magazine::counted`: who takes as many counts nothing.
    returned: u64,
}

/// Parked slots of one device, a shard for each thread (or for a few threads).
///
/// Bytes in use are `counted` less what is `returned` in all shards. As the peak is never below `counted`, shards are asked for
/// what was returned only when a count would raise it.
pub struct Magazine {
    shards: [Shard; SHARDS],
    counted: AtomicU64,
    peak: AtomicU64,
}

impl Default for Magazine {
    fn default() -> Self {
        Magazine::new()
    }
}

struct Guard<'a>(&'a Shard);

impl Guard<'_> {
    fn lists(&mut self) -> &mut Lists {
        // SAFETY: the guard holds the shard's lock.
        unsafe { &mut *self.0.lists.get() }
    }
}

impl Drop for Guard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.locked.store(false, Ordering::Release);
    }
}

impl Shard {
    // Held for a few instructions, and contended only when more threads than shards allocate.
    #[inline(always)]
    fn lock(&self) -> Guard<'_> {
        if self.locked.swap(true, Ordering::Acquire) {
            self.wait();
        }
        Guard(self)
    }

    #[cold]
    fn wait(&self) {
        while self.locked.swap(true, Ordering::Acquire) {
            while self.locked.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        }
    }
}

fn class(size: u64) -> usize {
    (size / GRANULARITY) as usize - 1
}

impl Magazine {
    /// An empty magazine.
    pub fn new() -> Magazine {
        let shard = |_| Shard {
            locked: AtomicBool::new(false),
            lists: UnsafeCell::new(Lists {
                parked: [const { Vec::new() }; CLASSES],
                bytes: 0,
                hits: 0,
                returned: 0,
            }),
        };
        Magazine {
            shards: std::array::from_fn(shard),
            counted: AtomicU64::new(0),
            peak: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    fn shard(&self) -> &Shard {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            // From 1 on; 0 before the first use, so that a look needs no check for initialisation.
            static MINE: Cell<usize> = const { Cell::new(0) };
        }
        let mut mine = MINE.get();
        if mine == 0 {
            mine = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS + 1;
            MINE.set(mine);
        }
        &self.shards[mine - 1]
    }

    /// Counts `bytes` that the pool hands out.
    pub fn count(&self, bytes: u64) {
        let now = self.counted.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if now > self.peak.load(Ordering::Relaxed) {
            self.settle(|now, peak| now.max(peak));
        }
    }

    /// Counts `bytes` that the pool gets back.
    pub fn uncount(&self, bytes: u64) {
        self.counted.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Most bytes that were in use at once.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Sets the peak to the present value.
    pub fn reset_peak(&self) {
        self.settle(|now, _| now);
    }

    /// Takes what came back out of the count, and sets the peak to what `peak` makes of the bytes in use and the old one.
    #[cold]
    fn settle(&self, peak: impl FnOnce(u64, u64) -> u64) {
        // All shards at once: nothing moves between them meanwhile, so that the count is true.
        let mut guards = self.shards.each_ref().map(Shard::lock);
        for guard in &mut guards {
            let returned = std::mem::take(&mut guard.lists().returned);
            self.counted.fetch_sub(returned, Ordering::Relaxed);
        }
        let now = self.counted.load(Ordering::Relaxed);
        self.peak
            .store(peak(now, self.peak.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// Takes a slot whose range has exactly `size` bytes, a multiple of the pool's granularity. The second number is the bytes that
    /// [`Magazine::count`] must be told of when all that was asked for is there: what is given back before leaves no peak.
    #[inline]
    pub fn take(&self, size: u64) -> Option<(u32, u64)> {
        if size > LARGEST {
            return None;
        }
        let mut guard = self.shard().lock();
        let lists = guard.lists();
        let slot = lists.parked[class(size)].pop()?;
        lists.hits += 1;
        lists.bytes -= size;
        if lists.returned >= size {
            lists.returned -= size;
            return Some((slot, 0));
        }
        Some((slot, size))
    }

    /// Keeps a slot whose range has `size` bytes, which are in use no more; `false` when there are enough of them.
    #[inline]
    pub fn keep(&self, slot: u32, size: u64) -> bool {
        if size > LARGEST {
            return false;
        }
        let mut guard = self.shard().lock();
        let lists = guard.lists();
        if lists.bytes + size > BUDGET {
            return false;
        }
        lists.bytes += size;
        lists.returned += size;
        lists.parked[class(size)].push(slot);
        true
    }

    /// Takes everything out.
    pub fn drain(&self) -> Vec<u32> {
        let mut slots = Vec::new();
        for shard in &self.shards {
            let mut guard = shard.lock();
            let lists = guard.lists();
            lists.bytes = 0;
            self.uncount(std::mem::take(&mut lists.returned));
            lists.parked.iter_mut().for_each(|list| slots.append(list));
        }
        slots
    }

    /// How often [`Magazine::take`] had a slot.
    pub fn hits(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().lists().hits).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slot, whose bytes count at once.
    fn take(magazine: &Magazine, size: u64) -> Option<u32> {
        let (slot, uncounted) = magazine.take(size)?;
        magazine.count(uncounted);
        Some(slot)
    }

    #[test]
    fn slots_come_back_by_size() {
        let magazine = Magazine::new();
        assert_eq!(magazine.take(512), None);
        assert!(magazine.keep(7, 512) && magazine.keep(8, 1024) && !magazine.keep(9, LARGEST + GRANULARITY));
        assert_eq!(
            (take(&magazine, 1024), take(&magazine, 1024), take(&magazine, 512)),
            (Some(8), None, Some(7))
        );
        assert_eq!(magazine.hits(), 2);
        let most = (BUDGET / LARGEST) as u32;
        for slot in 0..most {
            assert!(magazine.keep(slot, LARGEST));
        }
        assert!(!magazine.keep(99, LARGEST));
        assert_eq!(magazine.drain().len(), most as usize);
        assert!(magazine.keep(99, LARGEST));
        assert_eq!(take(&magazine, LARGEST), Some(99));
        assert!(magazine.drain().is_empty());
    }

    #[test]
    fn the_peak_is_that_of_bytes_in_use() {
        let magazine = Magazine::new();
        let in_use = |expected: u64| {
            magazine.reset_peak();
            assert_eq!(magazine.peak(), expected);
        };
        magazine.count(512);
        magazine.count(1024);
        assert!(magazine.keep(1, 512) && magazine.keep(2, 1024));
        // What came back does not count beside what is handed out.
        magazine.count(1024);
        assert_eq!(magazine.peak(), 1536);
        assert_eq!(take(&magazine, 1024), Some(2));
        assert_eq!(magazine.peak(), 2048);
        in_use(2048);
        magazine.uncount(1024);
        assert!(magazine.keep(2, 1024));
        in_use(0);
        // Counted anew where nothing is left of what came back.
        assert_eq!((take(&magazine, 512), take(&magazine, 1024)), (Some(1), Some(2)));
        assert_eq!(magazine.peak(), 1536);
        assert!(magazine.keep(1, 512));
        assert_eq!(magazine.drain(), [1]);
        assert_eq!(magazine.peak(), 1536);
        in_use(1024);
    }

    #[test]
    fn threads_do_not_lose_bytes() {
        let magazine = Magazine::new();
        std::thread::scope(|scope| {
            for thread in 0..20_u32 {
                let magazine = &magazine;
                scope.spawn(move || {
                    for round in 0..300_u64 {
                        let size = 512 * (1 + round % 3);
                        magazine.count(size);
                        match round % 4 {
                            0 => magazine.uncount(size),
                            _ => assert!(magazine.keep(thread, size)),
                        }
                        if take(magazine, size).is_some() {
                            magazine.uncount(size);
                        }
                    }
                });
            }
        });
        // A thread uses one range at a time.
        assert!(magazine.peak() <= 20 * 1536, "{}", magazine.peak());
        magazine.reset_peak();
        assert_eq!(magazine.peak(), 0);
    }

    #[test]
    fn threads_do_not_lose_slots() {
        let magazine = Magazine::new();
        std::thread::scope(|scope| {
            for thread in 0..40_u32 {
                let magazine = &magazine;
                scope.spawn(move || {
                    for round in 0..200_u64 {
                        if magazine.keep(thread, 512 * (1 + round % 3)) {
                            while magazine.take(512 * (1 + round % 3)).is_none() {}
                        }
                    }
                });
            }
        });
        assert!(magazine.drain().is_empty());
    }
}
