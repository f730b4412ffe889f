//! Sorting along one axis: a stable radix sort of order-preserving keys with their indices.

use crate::exec::{Arg, Args};
use crate::library::gemm::{Scratch, piece};
use crate::parallel::{Parallel, Serial};
use half::{bf16, f16};
use std::ops::Range;
use thalweg_hal::library::Sort;
use thalweg_hal::{DType, match_type};

/// Rows up to this long are sorted by comparing.
const SHORT: usize = 96;
/// Elements that are worth a hand-off to another thread.
const GRAIN: usize = 1 << 12;
/// Elements of a piece of a long row, at least: each piece has counts of its own.
const PIECE: usize = 1 << 15;
/// Bits of a digit: of rows that are shorter than `LONG`, for which counts of more digits would cost more than they save, and of
/// longer ones.
const DIGIT: [u32; 2] = [8, 11];
const LONG: usize = 1 << 13;

/// A compiled sort.
pub struct SortKernel {
    op: Sort,
}

/// An unsigned number that orders elements.
trait Key: Copy + Ord + Send + Sync + 'static {
    const BITS: u32;
    /// The digit of `bits` bits from `shift` on.
    fn digit(self, shift: u32, bits: u32) -> usize;
}

macro_rules! keys {
    ($($t:ty)*) => {$(
        impl Key for $t {
            const BITS: u32 = <$t>::BITS;
            #[inline(always)]
            fn digit(self, shift: u32, bits: u32) -> usize {
                (self >> shift) as usize & ((1 << bits) - 1)
            }
        }
    )*};
}
keys!(u8 u16 u32 u64);

/// An element with its key.
trait Sortable: Copy + Send + Sync + 'static {
    type Key: Key;
    /// Rises in the order of the sort. NaN has the greatest key of all, which no number has.
    fn key(self, descending: bool) -> Self::Key;
}

macro_rules! floats {
    ($($t:ty, $bits:ty;)*) => {$(
        impl Sortable for $t {
            type Key = $bits;
            #[inline(always)]
            fn key(self, descending: bool) -> $bits {
                const TOP: $bits = 1 << (<$bits>::BITS - 1);
                let bits = self.to_bits();
                // Both zeros are one key.
                let bits = if bits == TOP { 0 } else { bits };
                let key = if bits & TOP == 0 { bits | TOP } else { !bits };
                match (self.is_nan(), descending) {
                    (true, _) => <$bits>::MAX,
                    (false, true) => !key,
                    (false, false) => key,
                }
            }
        }
    )*};
}
floats! {
    f64, u64;
    f32, u32;
    f16, u16;
    bf16, u16;
}

macro_rules! integers {
    ($($t:ty, $bits:ty, $flip:expr;)*) => {$(
        impl Sortable for $t {
            type Key = $bits;
            #[inline(always)]
            fn key(self, descending: bool) -> $bits {
                let key = (self as $bits) ^ $flip;
                if descending { !key } else { key }
            }
        }
    )*};
}
integers! {
    i64, u64, 1 << 63;
    i32, u32, 1 << 31;
    i16, u16, 1 << 15;
    i8, u8, 1 << 7;
    u64, u64, 0;
    u32, u32, 0;
    u16, u16, 0;
    u8, u8, 0;
}

impl SortKernel {
    pub(super) fn compile(op: &Sort) -> SortKernel {
        SortKernel { op: op.clone() }
    }

    /// Nanoseconds on one core, roughly.
    pub(super) fn cost(extents: &[u64]) -> u64 {
        extents
            .iter()
            .fold(10, |all: u64, &extent| all.saturating_mul(extent))
    }

    /// # Safety
    /// As [`crate::exec::Program::run`].
    pub(super) unsafe fn run(&self, args: &Args<'_>, parallel: &dyn Parallel) {
        if args.extents.contains(&0) {
            return;
        }
        let descending = self.op.descending;
        // SAFETY: the caller vouches for the operands.
        unsafe {
            match_type!(self.op.dtype, T => typed::<T>(args, descending, parallel);
                DType::F64 => f64,
                DType::F32 => f32,
                DType::F16 => f16,
                DType::BF16 => bf16,
                DType::I64 => i64,
                DType::I32 => i32,
                DType::I16 => i16,
                DType::I8 => i8,
                DType::U64 => u64,
                DType::U32 => u32,
                DType::U16 => u16,
                DType::U8 | DType::Bool => u8;
                // Dtypes for storage: the op's signature refuses them.
                else ())
        }
    }
}

/// Numbers the elements of a row.
trait Number: Copy + Ord + Send + Sync + 'static {
    fn new(index: usize) -> Self;
    fn index(self) -> usize;
}

macro_rules! numbers {
    ($($t:ty)*) => {$(
        impl Number for $t {
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
struct Entry<K, N> {
    key: K,
    number: N,
}

unsafe fn typed<T: Sortable>(args: &Args<'_>, descending: bool, parallel: &dyn Parallel) {
    let Some((&length, batch)) = args.extents.split_last() else {
        return;
    };
    let rows = batch.iter().product::<u64>() as usize;
    let sort = |row: usize, parallel: &dyn Parallel| {
        // SAFETY: rows of the outputs are disjoint, and each is read whole before any of it is written.
        unsafe {
            if u32::try_from(length).is_ok() {
                sort_row::<T, u32>(args, descending, row as u64, parallel);
            } else {
                sort_row::<T, u64>(args, descending, row as u64, parallel);
            }
        }
    };
    let threads = parallel.threads();
    // Long rows one by one, where their pieces are worth more threads than there are rows.
    if rows < threads.min(length as usize / PIECE) {
        (0..rows).for_each(|row| sort(row, parallel));
        return;
    }
    let useful = threads.min(rows.saturating_mul(length as usize) / GRAIN).max(1);
    let groups = if useful == 1 { 1 } else { rows.min(8 * useful) };
    let body = |group: usize| piece(rows, groups, group).for_each(|row| sort(row, &Serial));
    match groups {
        1 => body(0),
        groups => parallel.run(groups, &body),
    }
}

/// One row: its operands with the steps between their elements, and scratch memory. Pieces of it are disjoint.
struct Row<T: Sortable, N> {
    x: (*const T, isize),
    values: (*mut T, isize),
    indices: (*mut i64, isize),
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
                let element = *self.x.0.offset(i as isize * self.x.1);
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

    /// Writes a part of the results in the order of `entries[from]`.
    unsafe fn write(&self, from: usize, places: Range<usize>) {
        for i in places {
            // SAFETY: the places are the row's, and so are the numbers.
            unsafe {
                let number = (*self.entries[from].add(i)).number.index();
                *self.values.0.offset(i as isize * self.values.1) = *self.copy.add(number);
                *self.indices.0.offset(i as isize * self.indices.1) = number as i64;
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

/// Sorts one row.
unsafe fn sort_row<T: Sortable, N: Number>(
    args: &Args<'_>,
    descending: bool,
    row: u64,
    parallel: &dyn Parallel,
) {
    let ([x, values, indices], Some((&length, batch))) = (args.args, args.extents.split_last()) else {
        return;
    };
    let length = length as usize;
    let start = |arg: &Arg<'_>| {
        let (mut rest, mut at) = (row, 0);
        for (&extent, &stride) in batch.iter().zip(arg.strides).rev() {
            at += (rest % extent) as isize * stride as isize;
            rest /= extent;
        }
        at
    };
    let step = |arg: &Arg<'_>| arg.strides[batch.len()] as isize;
    let entry = size_of::<Entry<T::Key, N>>();
    let scratch = Scratch::take(length * (2 * entry + size_of::<T>()) + 64);
    let first: *mut Entry<T::Key, N> = scratch.start().cast();
    let second = first.wrapping_add(length);
    let row = Row {
        x: (x.ptr.cast::<T>().wrapping_offset(start(x)).cast_const(), step(x)),
        values: (
            values.ptr.cast::<T>().wrapping_offset(start(values)),
            step(values),
        ),
        indices: (
            indices.ptr.cast::<i64>().wrapping_offset(start(indices)),
            step(indices),
        ),
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
            let bits = DIGIT[usize::from(length >= LONG)].min(T::Key::BITS);
            let digits = 1 << bits;
            let mut all = vec![0_usize; pieces * digits];
            let counts = Counts(all.as_mut_ptr());
            for shift in (0..T::Key::BITS).step_by(bits as usize) {
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
