//! Handle tables: `generation << 32 | index`, looked up without a lock.

use parking_lot::Mutex;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

const FIRST_BITS: u32 = 6;
const SEGMENTS: usize = 26;

struct Slot<T> {
    // Odd while the slot is occupied. A handle carries the odd generation it was made with.
    generation: AtomicU32,
    value: UnsafeCell<MaybeUninit<T>>,
}

struct FreeList {
    free: Vec<u32>,
    next: u32,
}

/// A table of values named by handles. Values do not move; a removed value's handle is never valid again until its slot's
/// generation has wrapped after 2^31 reuses.
pub struct Slots<T> {
    segments: [AtomicPtr<Slot<T>>; SEGMENTS],
    free: Mutex<FreeList>,
}

// SAFETY: values are handed out by shared reference and moved in and out under the free list's lock.
unsafe impl<T: Send> Send for Slots<T> {}
// SAFETY: as above; shared references need `T: Sync`, moving out from another thread needs `T: Send`.
unsafe impl<T: Send + Sync> Sync for Slots<T> {}

/// The value of a handle that was looked up.
pub struct Found<'a, T> {
    slot: &'a Slot<T>,
    handle: u64,
}

impl<'a, T> Found<'a, T> {
    /// The value.
    #[inline(always)]
    pub fn value(&self) -> &'a T {
        // SAFETY: `Slots::find` saw an odd, equal generation, which means the value is initialised.
        unsafe { (*self.slot.value.get()).assume_init_ref() }
    }

    /// Makes the handle stale and keeps the value in place, for [`Slots::revive`] or [`Slots::remove_parked`]. Returns the
    /// index.
    ///
    /// The contract of [`tables`](crate::tables) forbids two calls at once that destroy one object, so the look and a write
    /// suffice; an exchange costs as much as the rest of freeing a parked buffer.
    #[inline(always)]
    pub fn park(self) -> u32 {
        let next = ((self.handle >> 32) as u32).wrapping_add(1);
        self.slot.generation.store(next, Ordering::Release);
        self.handle as u32
    }
}

#[inline(always)]
fn locate(index: u32) -> (usize, usize) {
    let shifted = u64::from(index) + (1 << FIRST_BITS);
    let segment = shifted.ilog2() - FIRST_BITS;
    (
        segment as usize,
        (shifted - (1 << (segment + FIRST_BITS))) as usize,
    )
}

fn segment_len(segment: usize) -> usize {
    1 << (segment as u32 + FIRST_BITS)
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots::new()
    }
}

impl<T> Slots<T> {
    /// An empty table.
    pub const fn new() -> Slots<T> {
        Slots {
            segments: [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS],
            free: Mutex::new(FreeList {
                free: Vec::new(),
                next: 0,
            }),
        }
    }

    #[inline(always)]
    fn slot(&self, index: u32) -> Option<&Slot<T>> {
        let (segment, at) = locate(index);
        let base = self.segments.get(segment)?.load(Ordering::Acquire);
        // SAFETY: a non-null segment holds `segment_len` initialised slots and lives as long as the table.
        (!base.is_null()).then(|| unsafe { &*base.add(at) })
    }

    /// Stores a value and returns its handle, never 0. `None` when 2^31 values are alive.
    pub fn insert(&self, value: T) -> Option<u64> {
        let mut list = self.free.lock();
        let index = match list.free.pop() {
            Some(index) => index,
            None => {
                let index = list.next;
                let (segment, _) = locate(index);
                let place = self.segments.get(segment)?;
                if place.load(Ordering::Relaxed).is_null() {
                    let slots: Box<[Slot<T>]> = (0..segment_len(segment))
                        .map(|_| Slot {
                            generation: AtomicU32::new(0),
                            value: UnsafeCell::new(MaybeUninit::uninit()),
                        })
                        .collect();
                    place.store(Box::into_raw(slots).cast(), Ordering::Release);
                }
                list.next += 1;
                index
            }
        };
        let slot = self.slot(index)?;
        let generation = slot.generation.load(Ordering::Relaxed) + 1;
        // SAFETY: the slot is free and the free list's lock is held, so nobody reads or writes its value.
        unsafe { (*slot.value.get()).write(value) };
        slot.generation.store(generation, Ordering::Release);
        Some(u64::from(generation) << 32 | u64::from(index))
    }

    /// The value of a handle, `None` when it is stale or was never given out.
    ///
    /// The reference is good until the handle is removed; the contract of [`tables`](crate::tables) forbids removing a handle while
    /// another call uses it.
    #[inline(always)]
    pub fn get(&self, handle: u64) -> Option<&T> {
        self.find(handle).map(|found| found.value())
    }

    /// Takes a value out; its handle is stale from here on.
    pub fn remove(&self, handle: u64) -> Option<T> {
        let mut list = self.free.lock();
        let slot = self.slot(handle as u32)?;
        let generation = (handle >> 32) as u32;
        if generation & 1 == 0 || slot.generation.load(Ordering::Relaxed) != generation {
            return None;
        }
        slot.generation
            .store(generation.wrapping_add(1), Ordering::Release);
        // SAFETY: the generation matched under the lock, so the value is initialised and is moved out once.
        let value = unsafe { (*slot.value.get()).assume_init_read() };
        list.free.push(handle as u32);
        Some(value)
    }

    /// The value of a handle, to be parked perhaps; `None` as [`Slots::get`].
    #[inline(always)]
    pub fn find(&self, handle: u64) -> Option<Found<'_, T>> {
        let slot = self.slot(handle as u32)?;
        let generation = (handle >> 32) as u32;
        if generation & 1 == 0 || slot.generation.load(Ordering::Acquire) != generation {
            return None;
        }
        Some(Found { slot, handle })
    }

    /// Gives a parked value a new handle.
    ///
    /// # Safety
    /// The index came from [`Found::park`] and was not used since.
    #[inline(always)]
    pub unsafe fn revive(&self, index: u32) -> Option<(u64, &T)> {
        let slot = self.slot(index)?;
        let generation = slot.generation.load(Ordering::Relaxed).wrapping_add(1);
        slot.generation.store(generation, Ordering::Release);
        // SAFETY: a parked slot keeps its value.
        let value = unsafe { (*slot.value.get()).assume_init_ref() };
        Some((u64::from(generation) << 32 | u64::from(index), value))
    }

    /// Takes a parked value out.
    ///
    /// # Safety
    /// As [`Slots::revive`].
    pub unsafe fn remove_parked(&self, index: u32) -> Option<T> {
        // SAFETY: the caller's promise.
        let (handle, _) = unsafe { self.revive(index)? };
        self.remove(handle)
    }

    /// Handles of all values for which `keep` holds. A snapshot: others may come and go meanwhile.
    pub fn handles(&self, mut keep: impl FnMut(&T) -> bool) -> Vec<u64> {
        self.find_all(|handle, value| keep(value).then_some(handle))
    }

    /// What `find` makes of the values, with their handles. None is removed meanwhile.
    pub fn find_all<R>(&self, mut find: impl FnMut(u64, &T) -> Option<R>) -> Vec<R> {
        let list = self.free.lock();
        (0..list.next)
            .filter_map(|index| {
                let generation = self.slot(index)?.generation.load(Ordering::Acquire);
                let handle = u64::from(generation) << 32 | u64::from(index);
                find(handle, self.get(handle)?)
            })
            .collect()
    }
}

impl<T> Drop for Slots<T> {
    fn drop(&mut self) {
        for (segment, place) in self.segments.iter().enumerate() {
            let base = place.load(Ordering::Relaxed);
            if base.is_null() {
                continue;
            }
            // SAFETY: this is the box that `insert` leaked, and nobody else holds the table.
            let mut slots =
                unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(base, segment_len(segment))) };
            for slot in &mut slots {
                if *slot.generation.get_mut() & 1 == 1 {
                    // SAFETY: an odd generation means the value is initialised.
                    unsafe { slot.value.get_mut().assume_init_drop() };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_go_stale() {
        let slots = Slots::new();
        let a = slots.insert("a".to_string()).unwrap();
        let b = slots.insert("b".to_string()).unwrap();
        assert_eq!(slots.get(a).unwrap(), "a");
        assert_eq!(slots.remove(a).unwrap(), "a");
        assert!(slots.get(a).is_none());
        assert!(slots.remove(a).is_none());
        let c = slots.insert("c".to_string()).unwrap();
        assert_eq!(c as u32, a as u32);
        assert_ne!(a, c);
        assert!(slots.get(a).is_none());
        assert_eq!(slots.get(b).unwrap(), "b");
        let parked = slots.find(b).unwrap().park();
        assert!(slots.get(b).is_none() && slots.find(b).is_none() && slots.remove(b).is_none());
        // SAFETY: the slot was parked, and is used once.
        let (revived, value) = unsafe { slots.revive(parked) }.unwrap();
        assert_eq!((slots.get(revived), value.as_str()), (Some(value), "b"));
        assert_ne!(revived, b);
        for bad in [0, 1, u64::MAX, u64::from(u32::MAX), 7 << 32, 1 << 32 | 99] {
            assert!(slots.get(bad).is_none(), "{bad:x}");
        }
    }

    #[test]
    fn many_threads() {
        let slots = Slots::new();
        std::thread::scope(|scope| {
            for t in 0..4_u64 {
                let slots = &slots;
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    for i in 0..5_000_u64 {
                        mine.push((slots.insert(t << 32 | i).unwrap(), t << 32 | i));
                        if i % 3 == 0 {
                            let (handle, value) = mine.swap_remove(i as usize % mine.len());
                            assert_eq!(slots.remove(handle), Some(value));
                        }
                    }
                    assert!(
                        mine.iter()
                            .all(|(handle, value)| slots.get(*handle) == Some(value))
                    );
                });
            }
        });
    }
}
