//! Elements with their indices: a stable radix sort of keys that keep the order.

use super::key::{Digits, Sortable};
use super::{PIECE, Source, place};
use crate::exec::Args;
use crate::library::gemm::{Scratch, piece};
use crate::parallel::Parallel;
use std::ops::Range;
use thalweg_hal::library::Sort;

/// Rows up to this long are sorted by comparing.
const SHORT: usize = 96;
/// Bits of a digit: of rows that are shorter than `LONG`, for which counts of more digits would cost more than they save, and of
/// longer ones.
const DIGIT: [u32; 2] = [8, 11];
const LONG: usize = 1 << 13;

/// Numbers the elements of a row.
pub(super) trait Number: Copy + Ord + Send + Sync + 'static {
    const BITS: u32;
    fn new(index: usize) -> Self;
    fn index(self) -> usize;
}

macro_rules! numbers {
    ($($t:ty)*) => {$(
        impl Number for $t {
            const BITS: u32 = <$t>::BITS;
            #[inline(always)]
            fn new(index: usize) -> $t {
                index as $t
            }
            #[inline(always)]
            fn index(self) -> usize {
                self as usize
            }
        }
    )*};
}
numbers!(u32 u64);

/// An element in scratch memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry<K, N> {
    pub(super) key: K,
    pub(super) number: N,
}

/// One row: its operands with the steps between their elements, and scratch memory. Pieces of it are disjoint.
struct Row<T: Sortable, N> {
    x: Source<T>,
    results: Results<T>,
    copy: *mut T,
    entries: [*mut Entry<T::Key, N>; 2],
    descending: bool,
}

// SAFETY: threads write disjoint elements, and read what no one writes meanwhile.
unsafe impl<T: Sortable, N: Number> Sync for Row<T, N> {}

impl<T: Sortable, N: Number> Row<T, N> {
    /// Copies elements, and makes their entries.
    unsafe fn read(&self, places: Range<usize>) {
        for i in places {
            // SAFETY: the places are the row's.
            unsafe {
                let element = *self.x.at(i);
                self.copy.add(i).write(element);
                self.entries[0].add(i).write(Entry {
                    key: element.key(self.descending),
                    number: N::new(i),
                });
            }
        }
    }

    /// How often each digit occurs in a part of `entries[from]`.
    unsafe fn count(&self, from: usize, shift: u32, bits: u32, places: Range<usize>, counts: &mut [usize]) {
        counts.fill(0);
        for i in places {
            // SAFETY: the places are the row's; a digit has fewer than `bits` bits.
            unsafe {
                let digit = (*self.entries[from].add(i)).key.digit(shift, bits);
                *counts.get_unchecked_mut(digit) += 1;
            }
        }
    }

    /// Moves a part of `entries[from]` to the other ones, to where `next` says for each digit.
    unsafe fn scatter(&self, from: usize, shift: u32, bits: u32, places: Range<usize>, next: &mut [usize]) {
        for i in places {
            // SAFETY: as above; the counts of all parts give each entry a place of its own.
            unsafe {
                let entry = *self.entries[from].add(i);
                let place = next.get_unchecked_mut(entry.key.digit(shift, bits));
                self.entries[1 - from].add(*place).write(entry);
                *place += 1;
            }
        }
    }

    /// Writes a part of the results in the order of `entries[from]`, as far as they are wanted.
    unsafe fn write(&self, from: usize, places: Range<usize>) {
        for i in places.start..places.end.min(self.results.wanted) {
            // SAFETY: the places are the row's, and so are the numbers.
            unsafe {
                let number = (*self.entries[from].add(i)).number.index();
                self.results.write(i, *self.copy.add(number), number);
            }
        }
    }
}

/// Counts of the pieces of a row; each piece touches its own.
struct Counts(*mut usize);

// SAFETY: as said above.
unsafe impl Sync for Counts {}

impl Counts {
    /// Those of a piece.
    #[expect(clippy::mut_from_ref, reason = "pieces have counts of their own")]
    unsafe fn of(&self, piece: usize, digits: usize) -> &mut [usize] {
        // SAFETY: the caller has the piece alone, and there are counts for it.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(piece * digits), digits) }
    }
}

/// Where the results of a row go: the elements and their indices, with the steps between them, and how many are wanted.
#[derive(Clone, Copy)]
pub(super) struct Results<T> {
    values: (*mut T, isize),
    indices: Option<(*mut i64, isize)>,
    pub(super) wanted: usize,
}

// SAFETY: threads write disjoint elements.
unsafe impl<T: Sync> Sync for Results<T> {}

impl<T: Sortable> Results<T> {
    pub(super) fn new(args: &Args<'_>, op: &Sort, row: u64) -> Option<Results<T>> {
        let to = |operand: usize| {
            let (start, step) = place(args, operand, row);
            Some((args.args.get(operand)?.ptr, start, step))
        };
        let (values, start, step) = to(1)?;
        let values = (values.cast::<T>().wrapping_offset(start), step);
        let indices = match op.indices {
            false => None,
            true => to(2).map(|(indices, start, step)| (indices.cast::<i64>().wrapping_offset(start), step)),
        };
        let wanted = *args.extents.last()? as usize;
        Some(Results {
            values,
            indices,
            wanted,
        })
    }

    /// Writes the element that comes at `place`.
    ///
    /// # Safety
    /// There is such a place, and nobody else writes it.
    #[inline(always)]
    pub(super) unsafe fn write(&self, place: usize, element: T, number: usize) {
        let at = place as isize;
        // SAFETY: the caller vouches for the place.
        unsafe {
            *self.values.0.offset(at * self.values.1) = element;
            if let Some((indices, step)) = self.indices {
                *indices.offset(at * step) = number as i64;
            }
        }
    }
}

/// Sorts one row.
pub(super) unsafe fn sort_row<T: Sortable, N: Number>(
    x: Source<T>,
    results: Results<T>,
    descending: bool,
    parallel: &dyn Parallel,
) {
    let length = x.length;
    let entry = size_of::<Entry<T::Key, N>>();
    let scratch = Scratch::take(length * (2 * entry + size_of::<T>()) + 64);
    let first: *mut Entry<T::Key, N> = scratch.start().cast();
    let second = first.wrapping_add(length);
    let row = Row {
        x,
        results,
        // Behind the entries, which are at least as aligned as elements.
        copy: second.wrapping_add(length).cast(),
        entries: [first, second],
        descending,
    };
    let pieces = parallel.threads().min(length / PIECE).max(1);
    let each = |body: &(dyn Fn(usize, Range<usize>) + Sync)| match pieces {
        1 => body(0, 0..length),
        pieces => parallel.run(pieces, &|at| body(at, piece(length, pieces, at))),
    };
    // SAFETY: the scratch memory has the length asked for; the operands are the caller's, and the pieces of a row disjoint.
    unsafe {
        each(&|_, places| row.read(places));
        let mut from = 0;
        if length <= SHORT {
            std::slice::from_raw_parts_mut(first, length).sort_unstable();
        } else {
            let bits = DIGIT[usize::from(length >= LONG)].min(<T::Key as Digits>::BITS);
            let digits = 1 << bits;
            let mut all = vec![0_usize; pieces * digits];
            let counts = Counts(all.as_mut_ptr());
            for shift in (0..<T::Key as Digits>::BITS).step_by(bits as usize) {
                each(&|at, places| row.count(from, shift, bits, places, counts.of(at, digits)));
                let digit = (*row.entries[from]).key.digit(shift, bits);
                if (0..pieces).map(|at| counts.of(at, digits)[digit]).sum::<usize>() == length {
                    continue;
                }
                let mut next = 0;
                for digit in 0..digits {
                    for at in 0..pieces {
                        let count = &mut counts.of(at, digits)[digit];
                        (*count, next) = (next, next + *count);
                    }
                }
                each(&|at, places| row.scatter(from, shift, bits, places, counts.of(at, digits)));
                from = 1 - from;
            }
        }
        each(&|_, places| row.write(from, places));
    }
}
