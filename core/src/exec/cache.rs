//! What a thread remembers, found by hash.

use super::composite::Composite;
use super::eager::Eager;
use super::evaluate::Evaluated;
use super::reverse::Reverse;
use crate::engine::{Engine, PerThread};
use std::cell::{Ref, RefCell, RefMut};
use std::hash::Hasher;

/// What one thread remembers of one device.
#[derive(Default)]
pub(crate) struct Local {
    pub(super) eager: Table<Eager>,
    pub(super) composites: Table<Composite>,
    pub(super) graphs: Table<Evaluated>,
    pub(super) reverses: Table<Reverse>,
}

impl Engine {
    /// This thread's caches.
    #[inline]
    pub(super) fn local(&self) -> Caches<'_> {
        Caches(self.caches::<PerThread<RefCell<Local>>>().get())
    }
}

/// The caches of a thread; a thread at its very end has none.
pub(super) struct Caches<'a>(Option<&'a RefCell<Local>>);

/// Caches that are in use by this thread already, or are there no more.
#[derive(Debug)]
pub(super) struct Busy;

impl<'a> Caches<'a> {
    /// To look.
    #[inline]
    pub(super) fn try_borrow(self) -> Result<Ref<'a, Local>, Busy> {
        self.0.and_then(|local| local.try_borrow().ok()).ok_or(Busy)
    }

    /// To change.
    #[inline]
    pub(super) fn try_borrow_mut(self) -> Result<RefMut<'a, Local>, Busy> {
        self.0.and_then(|local| local.try_borrow_mut().ok()).ok_or(Busy)
    }
}

/// Entries that one hash may share a place with.
const WAYS: usize = 4;
/// Most entries of a table; a power of two.
const ENTRIES: usize = 2048;

/// Entries by hash; a full set of [`WAYS`] loses its oldest.
pub(crate) struct Table<E> {
    // The newest of a set comes first. Empty until the first insertion.
    slots: Vec<Option<(u64, Box<E>)>>,
}

impl<E> Default for Table<E> {
    fn default() -> Table<E> {
        Table { slots: Vec::new() }
    }
}

impl<E> Table<E> {
    #[inline]
    fn set(hash: u64) -> usize {
        // The multiplication leaves the best bits on top.
        (hash >> 32) as usize % (ENTRIES / WAYS) * WAYS
    }

    /// The entry of this hash that `is` accepts.
    #[inline]
    pub(crate) fn get(&self, hash: u64, is: impl Fn(&E) -> bool) -> Option<&E> {
        let set = Self::set(hash);
        for slot in self.slots.get(set..set + WAYS)? {
            if let Some((found, entry)) = slot
                && *found == hash
                && is(entry)
            {
                return Some(entry);
            }
        }
        None
    }

    /// Adds an entry; returns the one that had to go.
    pub(crate) fn insert(&mut self, hash: u64, entry: E) -> Option<Box<E>> {
        if self.slots.is_empty() {
            self.slots.resize_with(ENTRIES, || None);
        }
        let set = Self::set(hash);
        let slots = &mut self.slots[set..set + WAYS];
        slots.rotate_right(1);
        slots[0].replace((hash, Box::new(entry))).map(|(_, entry)| entry)
    }

    /// Number of entries.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.slots.iter().flatten().count()
    }
}

/// A fast hash for keys that nobody chooses to our harm: a multiplication a word.
#[derive(Clone, Copy, Default)]
pub(crate) struct WordHasher(u64);

impl WordHasher {
    #[inline]
    fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(26) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            let mut whole = [0; 8];
            whole.copy_from_slice(word);
            self.word(u64::from_le_bytes(whole));
        }
        let rest = words.remainder();
        if !rest.is_empty() {
            let mut whole = [0; 8];
            whole[..rest.len()].copy_from_slice(rest);
            self.word(u64::from_le_bytes(whole));
        }
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.word(u64::from(value));
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.word(u64::from(value));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.word(value);
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.word(value as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_set_loses_its_oldest() {
        let mut table = Table::default();
        assert!(table.get(7, |_: &u32| true).is_none());
        for entry in 0..WAYS as u32 {
            assert!(table.insert(7, entry).is_none());
        }
        assert_eq!(table.len(), WAYS);
        for entry in 0..WAYS as u32 {
            assert_eq!(table.get(7, |found| *found == entry), Some(&entry));
        }
        assert_eq!(table.insert(7, 9).as_deref(), Some(&0));
        assert!(table.get(7, |found| *found == 0).is_none());
        assert_eq!(table.get(7, |found| *found == 9), Some(&9));
        assert!(table.get(8, |_| true).is_none());
    }
}
