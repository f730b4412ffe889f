//! Elements with their numbers in scratch memory.

use super::Source;
use super::elements::{CHUNK, Elements};
use super::quick::{self, Quick};
use crate::isa::Isa;
use crate::parallel::Parallel;

/// A key with the number of its element, which orders elements of one key. No two are equal.
pub(super) trait Entry: Copy + Ord + Send + Sync + 'static {
    type Key: Copy + Ord + Default;
    fn new(key: Self::Key, number: usize) -> Self;
    fn key(self) -> Self::Key;
    fn number(self) -> usize;
    /// The digit of `bits` bits of the key from `shift` on.
    fn digit(self, shift: u32, bits: u32) -> usize;
    /// Writes the keys of `count` elements from `first` on, up to [`CHUNK`]; returns whether one of them does not come back.
    ///
    /// # Safety
    /// The elements are readable, and there is room for the keys.
    unsafe fn read(elements: &Elements, x: &Source, first: usize, keys: *mut Self::Key, count: usize)
    -> bool;
    /// How many of `blocks` blocks of elements from `first` on may be passed over, as far as is known without a look at their keys: no key
    /// of theirs is below `bound`.
    ///
    /// # Safety
    /// The elements are readable.
    unsafe fn passed(
        elements: &Elements,
        x: &Source,
        first: usize,
        blocks: usize,
        bound: &Self::Key,
    ) -> usize;
    /// Writes the elements of `count` keys, up to [`CHUNK`].
    ///
    /// # Safety
    /// There are as many keys, and the elements are writable.
    unsafe fn write(elements: &Elements, keys: *const Self::Key, values: *mut u8, step: isize, count: usize);
    /// Sorts by vectors, if there are any.
    ///
    /// # Safety
    /// There are as many entries; the processor has the instruction set.
    unsafe fn sort(isa: Isa, entries: *mut Self, length: usize, parallel: &dyn Parallel) -> bool;
    /// Whether [`Entry::sort`] does.
    fn has_vectors(isa: Isa) -> bool;
}

/// A key of 32 bits above a number of 32 bits.
impl Entry for i64 {
    type Key = i32;
    #[inline(always)]
    fn new(key: i32, number: usize) -> i64 {
        i64::from(key) << 32 | number as i64
    }
    #[inline(always)]
    fn key(self) -> i32 {
        (self >> 32) as i32
    }
    #[inline(always)]
    fn number(self) -> usize {
        self as u32 as usize
    }
    #[inline(always)]
    fn digit(self, shift: u32, bits: u32) -> usize {
        ((self.key() as u32 ^ 1 << 31) >> shift) as usize & ((1 << bits) - 1)
    }
    unsafe fn read(elements: &Elements, x: &Source, first: usize, keys: *mut i32, count: usize) -> bool {
        // SAFETY: the caller's promise.
        unsafe { elements.keys(x, first, keys.cast(), count) }
    }
    unsafe fn passed(elements: &Elements, x: &Source, first: usize, blocks: usize, bound: &i32) -> usize {
        // SAFETY: the caller's promise; these keys are the entries'.
        unsafe { elements.passed(x, first, blocks, std::ptr::from_ref(bound).cast()) }
    }
    unsafe fn write(elements: &Elements, keys: *const i32, values: *mut u8, step: isize, count: usize) {
        // SAFETY: the caller's promise.
        unsafe { (elements.write)(keys.cast(), values, step, count, &elements.order) };
    }
    unsafe fn sort(isa: Isa, entries: *mut i64, length: usize, parallel: &dyn Parallel) -> bool {
        let Some(version) = i64::version(isa) else {
            return false;
        };
        // SAFETY: the caller's promise.
        unsafe { quick::sort(version, entries, length, parallel, &|_, _| {}) };
        true
    }
    fn has_vectors(isa: Isa) -> bool {
        i64::version(isa).is_some()
    }
}

/// Keys of 64 bits, or numbers that need more than 32.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Long {
    key: i64,
    number: u64,
}

impl Entry for Long {
    type Key = i64;
    #[inline(always)]
    fn new(key: i64, number: usize) -> Long {
        Long {
            key,
            number: number as u64,
        }
    }
    #[inline(always)]
    fn key(self) -> i64 {
        self.key
    }
    #[inline(always)]
    fn number(self) -> usize {
        self.number as usize
    }
    #[inline(always)]
    fn digit(self, shift: u32, bits: u32) -> usize {
        ((self.key as u64 ^ 1 << 63) >> shift) as usize & ((1 << bits) - 1)
    }
    unsafe fn read(elements: &Elements, x: &Source, first: usize, keys: *mut i64, count: usize) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            if elements.is_long() {
                return elements.keys(x, first, keys.cast(), count);
            }
            let mut short = [0_i32; CHUNK];
            let odd = elements.keys(x, first, short.as_mut_ptr().cast(), count);
            for (at, &key) in short[..count].iter().enumerate() {
                // Digits are counted from the lowest bit of an unsigned key on.
                keys.add(at)
                    .write((u64::from(key as u32 ^ 1 << 31) ^ 1 << 63) as i64);
            }
            odd
        }
    }
    unsafe fn passed(elements: &Elements, x: &Source, first: usize, blocks: usize, bound: &i64) -> usize {
        if !elements.is_long() {
            return 0;
        }
        // SAFETY: the caller's promise; these keys are the entries'.
        unsafe { elements.passed(x, first, blocks, std::ptr::from_ref(bound).cast()) }
    }
    unsafe fn write(elements: &Elements, keys: *const i64, values: *mut u8, step: isize, count: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            if elements.is_long() {
                (elements.write)(keys.cast(), values, step, count, &elements.order);
                return;
            }
            let mut short = [0_i32; CHUNK];
            for (at, key) in short[..count].iter_mut().enumerate() {
                *key = (*keys.add(at) as u32 ^ 1 << 31) as i32;
            }
            (elements.write)(short.as_ptr().cast(), values, step, count, &elements.order);
        }
    }
    unsafe fn sort(_: Isa, _: *mut Long, _: usize, _: &dyn Parallel) -> bool {
        false
    }
    fn has_vectors(_: Isa) -> bool {
        false
    }
}
