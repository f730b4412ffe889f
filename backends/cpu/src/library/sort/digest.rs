//! Keys of 64 bits with their numbers, by vectors that sort 32 bits of a key above the number.
//!
//! These are the first bits in which keys of the row differ: of the difference to the least key, without as many of the last bits as leave
//! 32. Entries that have them in common are sorted again by the bits that were left out. Those are at most 32, so two turns suffice.

use super::elements::{CHUNK, Elements};
use super::entry::{Entry, Long};
use super::order::Results;
use super::quick::{self, Version};
use super::{PIECE, Source};
use crate::library::gemm::{Scratch, piece};
use crate::parallel::{Parallel, Serial};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// Entries of equal bits that are sorted by comparing.
const FEW: usize = 32;

/// Memory of a row, whose pieces are disjoint.
struct Row {
    keys: *mut i64,
    entries: *mut i64,
}

// SAFETY: threads write disjoint places, and read what no one writes meanwhile.
unsafe impl Sync for Row {}

impl Row {
    unsafe fn keys(&self, places: Range<usize>) -> &[i64] {
        // SAFETY: the caller has read these, and no one writes them.
        unsafe { std::slice::from_raw_parts(self.keys.add(places.start), places.len()) }
    }

    #[expect(clippy::mut_from_ref, reason = "pieces have entries of their own")]
    unsafe fn entries(&self, places: Range<usize>) -> &mut [i64] {
        // SAFETY: the caller has these places alone.
        unsafe { std::slice::from_raw_parts_mut(self.entries.add(places.start), places.len()) }
    }
}

/// The first bits of keys that differ.
#[derive(Clone, Copy)]
struct Digest {
    least: i64,
    /// Bits that are left out.
    shift: u32,
}

impl Digest {
    fn new(least: i64, greatest: i64) -> Digest {
        let range = greatest.wrapping_sub(least) as u64;
        Digest {
            least,
            shift: (u64::BITS - range.leading_zeros()).saturating_sub(u32::BITS),
        }
    }

    #[inline(always)]
    fn entry(self, key: i64, number: usize) -> i64 {
        let bits = key.wrapping_sub(self.least) as u64 >> self.shift;
        i64::new((bits as u32 ^ 1 << 31) as i32, number)
    }

    /// The key of an entry none of whose bits is left out.
    #[inline(always)]
    fn key(self, entry: i64) -> i64 {
        (self.least).wrapping_add(i64::from(Entry::key(entry) as u32 ^ 1 << 31))
    }
}

/// Sorts one row, which has fewer elements than numbers of 32 bits.
///
/// # Safety
/// The results are the caller's alone; the processor has the instruction set of the version.
pub(super) unsafe fn sort_row(
    version: Version<i64>,
    elements: &Elements,
    x: &Source,
    results: Results,
    parallel: &dyn Parallel,
) {
    let length = x.length;
    let scratch = Scratch::take(2 * length * size_of::<i64>());
    let keys: *mut i64 = scratch.start().cast();
    let row = Row {
        keys,
        entries: keys.wrapping_add(length),
    };
    let pieces = parallel.threads().min(length / PIECE).max(1);
    let each = |body: &(dyn Fn(usize, Range<usize>) + Sync)| match pieces {
        1 => body(0, 0..length),
        pieces => parallel.run(pieces, &|at| body(at, piece(length, pieces, at))),
    };
    let odd = AtomicBool::new(false);
    let [least, greatest] = [i64::MAX, i64::MIN].map(AtomicI64::new);
    // SAFETY: the scratch memory has two numbers for each element; the operands are the caller's, and the pieces of a row disjoint.
    unsafe {
        each(&|_, places| {
            let mut ends = [i64::MAX, i64::MIN];
            for first in places.clone().step_by(CHUNK) {
                let chunk = first..places.end.min(first + CHUNK);
                if elements.keys(x, first, row.keys.add(first).cast(), chunk.len()) {
                    odd.store(true, Ordering::Relaxed);
                }
                for &key in row.keys(chunk) {
                    ends = [ends[0].min(key), ends[1].max(key)];
                }
            }
            least.fetch_min(ends[0], Ordering::Relaxed);
            greatest.fetch_max(ends[1], Ordering::Relaxed);
        });
        let digest = Digest::new(least.into_inner(), greatest.into_inner());
        each(&|_, places| {
            let numbers = places.clone();
            let pairs = row.entries(places.clone()).iter_mut().zip(row.keys(places));
            for ((entry, &key), number) in pairs.zip(numbers) {
                *entry = digest.entry(key, number);
            }
        });
        quick::sort(version, row.entries, length, parallel, &|_, _| {});
        if digest.shift > 0 {
            // A piece begins with the first entry of its bits, so none of these are in two pieces.
            let sorted = std::slice::from_raw_parts(row.entries, length);
            let starts: Vec<usize> = (0..=pieces)
                .map(|at| match piece(length, pieces, at.min(pieces - 1)) {
                    last if at == pieces => last.end,
                    places if at == 0 => places.start,
                    places => {
                        let bits = Entry::key(sorted[places.start]);
                        sorted.partition_point(|&entry| Entry::key(entry) < bits)
                    }
                })
                .collect();
            each(&|at, _| {
                settle(
                    version,
                    row.entries(starts[at]..starts[at + 1]),
                    row.keys(0..length),
                )
            });
        }
        let (sorted, keys) = (row.entries(0..length), row.keys(0..length));
        let found = |place: usize| {
            let number = sorted[place].number();
            // SAFETY: entries have the numbers of the row.
            Long::new(*keys.get_unchecked(number), number)
        };
        let exact = |place: usize| Long::new(digest.key(sorted[place]), sorted[place].number());
        match digest.shift {
            0 => results.write((elements, x), length, &exact, odd.into_inner(), &each),
            _ => results.write((elements, x), length, &found, odd.into_inner(), &each),
        }
    }
}

/// Sorts entries of equal bits by their keys.
///
/// # Safety
/// The entries have numbers of keys; the processor has the instruction set of the version.
unsafe fn settle(version: Version<i64>, entries: &mut [i64], keys: &[i64]) {
    let key = |entry: i64| keys[entry.number()];
    let mut start = 0;
    while start < entries.len() {
        let bits = Entry::key(entries[start]);
        let rest = &entries[start..];
        let count = rest
            .iter()
            .take_while(|&&entry| Entry::key(entry) == bits)
            .count();
        let run = &mut entries[start..start + count];
        start += count;
        match run.len() {
            1 => {}
            2..=FEW => run.sort_unstable_by_key(|&entry| Long::new(key(entry), entry.number())),
            _ => {
                let least = run.iter().map(|&entry| key(entry)).min().unwrap_or_default();
                // What was left out has at most 32 bits.
                let digest = Digest { least, shift: 0 };
                for entry in run.iter_mut() {
                    *entry = digest.entry(key(*entry), entry.number());
                }
                // SAFETY: the caller's promise.
                unsafe { quick::sort(version, run.as_mut_ptr(), run.len(), &Serial, &|_, _| {}) };
            }
        }
    }
}
