//! Elements with their indices, by vectors where there are any, else by a stable radix sort.

use super::elements::{CHUNK, Elements, ODD};
use super::entry::Entry;
use super::{PIECE, Source, place};
use crate::exec::Args;
use crate::isa::Isa;
use crate::library::gemm::{Scratch, piece};
use crate::parallel::Parallel;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_hal::library::Sort;

/// Rows up to this long are sorted by comparing.
const SHORT: usize = 96;
/// Bits of a digit: of rows that are shorter than `LONG`, for which counts of more digits would cost more than they save, and of
/// longer ones.
const DIGIT: [u32; 2] = [8, 11];
const LONG: usize = 1 << 13;

/// Entries of one row, and as many more for a radix sort. Pieces of it are disjoint.
struct Row<E>([*mut E; 2]);

// SAFETY: threads write disjoint entries, and read what no one writes meanwhile.
unsafe impl<E: Entry> Sync for Row<E> {}

impl<E: Entry> Row<E> {
    /// Makes the entries of elements; returns whether one of these does not come back from its key.
    unsafe fn read(&self, elements: &Elements, x: &Source, places: Range<usize>) -> bool {
        let mut keys = [E::Key::default(); CHUNK];
        let mut odd = false;
        for first in places.clone().step_by(CHUNK) {
            let count = CHUNK.min(places.end - first);
            // SAFETY: the places are the row's.
            unsafe {
                odd |= E::read(elements, x, first, keys.as_mut_ptr(), count);
                for (at, &key) in keys[..count].iter().enumerate() {
                    self.0[0].add(first + at).write(E::new(key, first + at));
                }
            }
        }
        odd
    }

    /// How often each digit occurs in a part of the entries `from`.
    unsafe fn count(&self, from: usize, shift: u32, bits: u32, places: Range<usize>, counts: &mut [usize]) {
        counts.fill(0);
        for i in places {
            // SAFETY: the places are the row's; a digit has fewer than `bits` bits.
            unsafe {
                let digit = (*self.0[from].add(i)).digit(shift, bits);
                *counts.get_unchecked_mut(digit) += 1;
            }
        }
    }

    /// Moves a part of the entries `from` to the other ones, to where `next` says for each digit.
    unsafe fn scatter(&self, from: usize, shift: u32, bits: u32, places: Range<usize>, next: &mut [usize]) {
        for i in places {
            // SAFETY: as above; the counts of all parts give each entry a place of its own.
            unsafe {
                let entry = *self.0[from].add(i);
                let place = next.get_unchecked_mut(entry.digit(shift, bits));
                self.0[1 - from].add(*place).write(entry);
                *place += 1;
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
pub(super) struct Results {
    values: (*mut u8, isize),
    indices: Option<(*mut i64, isize)>,
    pub(super) wanted: usize,
}

// SAFETY: threads write disjoint elements.
unsafe impl Sync for Results {}

/// Calls a function for each piece of a row, with its number and its places.
type Each<'a> = &'a dyn Fn(&(dyn Fn(usize, Range<usize>) + Sync));

impl Results {
    pub(super) fn new(args: &Args<'_>, op: &Sort, row: u64) -> Option<Results> {
        let to = |operand: usize| {
            let (start, step) = place(args, operand, row);
            Some((args.args.get(operand)?.ptr, start, step))
        };
        let (values, start, step) = to(1)?;
        let values = (values.wrapping_offset(start * op.dtype.size() as isize), step);
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

    fn value(&self, elements: &Elements, place: usize) -> *mut u8 {
        (self.values.0).wrapping_offset(place as isize * self.values.1 * elements.size as isize)
    }

    /// Writes what is wanted of so many entries in their order, which `entry` gives by place. With `odd` some of the elements do not come back from their keys.
    ///
    /// # Safety
    /// The results are the caller's alone, and the numbers those of the row.
    pub(super) unsafe fn write<E: Entry>(
        &self,
        (elements, x): (&Elements, &Source),
        length: usize,
        entry: &(impl Fn(usize) -> E + Sync),
        odd: bool,
        each: Each<'_>,
    ) {
        let length = length.min(self.wanted);
        // Read before anything is written.
        let of_key = |bits: &u64| {
            let mut key = E::Key::default();
            // SAFETY: there is one element and one key.
            unsafe { E::read(elements, &elements.one(bits), 0, &raw mut key, 1) };
            let places = |before: &dyn Fn(E::Key) -> bool| {
                let (mut low, mut high) = (0, length);
                while low < high {
                    let middle = low.midpoint(high);
                    match before(entry(middle).key()) {
                        true => low = middle + 1,
                        false => high = middle,
                    }
                }
                low
            };
            places(&|other| other < key)..places(&|other| other <= key)
        };
        let odd: Vec<(usize, u64)> = match odd {
            false => Vec::new(),
            true => (ODD.iter().flat_map(of_key))
                // SAFETY: the number is the row's.
                .map(|place| (place, unsafe { elements.raw(x.at(entry(place).number())) }))
                .collect(),
        };
        each(&|_, places| {
            let mut keys = [E::Key::default(); CHUNK];
            let end = places.end.min(length);
            for first in (places.start..end).step_by(CHUNK) {
                let count = CHUNK.min(end - first);
                for (at, key) in keys[..count].iter_mut().enumerate() {
                    *key = entry(first + at).key();
                }
                let to = self.value(elements, first);
                // SAFETY: the caller vouches for the places.
                unsafe {
                    E::write(elements, keys.as_ptr(), to, self.values.1, count);
                    if let Some((indices, step)) = self.indices {
                        for at in first..first + count {
                            *indices.offset(at as isize * step) = entry(at).number() as i64;
                        }
                    }
                }
            }
        });
        for (place, raw) in odd {
            // SAFETY: the caller vouches for the places.
            unsafe { elements.put(self.value(elements, place), raw) };
        }
    }
}

/// Sorts one row.
pub(super) unsafe fn sort_row<E: Entry>(
    (elements, isa): (&Elements, Isa),
    x: &Source,
    results: Results,
    parallel: &dyn Parallel,
) {
    let length = x.length;
    let copies = if E::has_vectors(isa) { 1 } else { 2 };
    let scratch = Scratch::take(copies * length * size_of::<E>());
    let first: *mut E = scratch.start().cast();
    let row = Row([first, first.wrapping_add((copies - 1) * length)]);
    let pieces = parallel.threads().min(length / PIECE).max(1);
    let each = |body: &(dyn Fn(usize, Range<usize>) + Sync)| match pieces {
        1 => body(0, 0..length),
        pieces => parallel.run(pieces, &|at| body(at, piece(length, pieces, at))),
    };
    let odd = AtomicBool::new(false);
    // SAFETY: the scratch memory has the length asked for; the operands are the caller's, and the pieces of a row disjoint.
    unsafe {
        each(&|_, places| {
            if row.read(elements, x, places) {
                odd.store(true, Ordering::Relaxed);
            }
        });
        let mut from = 0;
        if E::sort(isa, first, length, parallel) {
        } else if length <= SHORT {
            std::slice::from_raw_parts_mut(first, length).sort_unstable();
        } else {
            let bits = DIGIT[usize::from(length >= LONG)].min(elements.bits());
            let digits = 1 << bits;
            let mut all = vec![0_usize; pieces * digits];
            let counts = Counts(all.as_mut_ptr());
            for shift in (0..elements.bits()).step_by(bits as usize) {
                each(&|at, places| row.count(from, shift, bits, places, counts.of(at, digits)));
                let digit = (*row.0[from]).digit(shift, bits);
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
        let entries = std::slice::from_raw_parts(row.0[from], length);
        results.write((elements, x), length, &|at| entries[at], odd.into_inner(), &each);
    }
}
