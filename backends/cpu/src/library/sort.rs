//! Sorting along one axis: a stable radix sort of order-preserving keys with their indices.

use crate::exec::{Arg, Args};
use crate::library::gemm::{Scratch, piece};
use crate::parallel::Parallel;
use half::{bf16, f16};
use thalweg_hal::DType;
use thalweg_hal::library::Sort;

/// Rows up to this long are sorted by comparing.
const SHORT: usize = 96;
/// Elements that are worth a hand-off to another thread.
const GRAIN: usize = 1 << 12;
const DIGIT: u32 = 8;
const DIGITS: usize = 1 << DIGIT;

/// A compiled sort.
pub struct SortKernel {
    op: Sort,
}

/// An unsigned number that orders elements.
trait Key: Copy + Ord + Send + Sync + 'static {
    const LAST: Self;
    /// Digits that matter for an element of `bytes` bytes.
    fn digit(self, index: u32) -> usize;
    fn flip(self) -> Self;
}

macro_rules! keys {
    ($($t:ty)*) => {$(
        impl Key for $t {
            const LAST: $t = <$t>::MAX;
            #[inline(always)]
            fn digit(self, index: u32) -> usize {
                (self >> (index * DIGIT)) as usize & (DIGITS - 1)
            }
            #[inline(always)]
            fn flip(self) -> $t {
                !self
            }
        }
    )*};
}
keys!(u8 u16 u32 u64);

/// An element with its key; `None` for NaN.
trait Sortable: Copy + Send + Sync + 'static {
    type Key: Key;
    fn key(self) -> Option<Self::Key>;
}

macro_rules! floats {
    ($($t:ty, $bits:ty;)*) => {$(
        impl Sortable for $t {
            type Key = $bits;
            #[inline(always)]
            fn key(self) -> Option<$bits> {
                const TOP: $bits = 1 << (<$bits>::BITS - 1);
                let bits = self.to_bits();
                // Both zeros are one key.
                let bits = if bits == TOP { 0 } else { bits };
                let key = if bits & TOP == 0 { bits | TOP } else { !bits };
                (!self.is_nan()).then_some(key)
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
            fn key(self) -> Option<$bits> {
                Some((self as $bits) ^ $flip)
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
            match self.op.dtype {
                DType::F64 => typed::<f64>(args, descending, parallel),
                DType::F32 => typed::<f32>(args, descending, parallel),
                DType::F16 => typed::<f16>(args, descending, parallel),
                DType::BF16 => typed::<bf16>(args, descending, parallel),
                DType::I64 => typed::<i64>(args, descending, parallel),
                DType::I32 => typed::<i32>(args, descending, parallel),
                DType::I16 => typed::<i16>(args, descending, parallel),
                DType::I8 => typed::<i8>(args, descending, parallel),
                DType::U64 => typed::<u64>(args, descending, parallel),
                DType::U32 => typed::<u32>(args, descending, parallel),
                DType::U16 => typed::<u16>(args, descending, parallel),
                DType::U8 | DType::Bool => typed::<u8>(args, descending, parallel),
            }
        }
    }
}

/// Numbers the elements of a row.
trait Number: Copy + Ord {
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
    /// NaN comes after every key, that of the greatest number among them.
    nan: bool,
    key: K,
    number: N,
}

unsafe fn typed<T: Sortable>(args: &Args<'_>, descending: bool, parallel: &dyn Parallel) {
    let Some((&length, batch)) = args.extents.split_last() else {
        return;
    };
    let rows = batch.iter().product::<u64>() as usize;
    let useful = parallel
        .threads()
        .min(rows.saturating_mul(length as usize) / GRAIN)
        .max(1);
    let groups = if useful == 1 { 1 } else { rows.min(8 * useful) };
    let body = |group: usize| {
        for row in piece(rows, groups, group) {
            // SAFETY: rows of the outputs are disjoint, and each is read whole before any of it is written.
            unsafe {
                if u32::try_from(length).is_ok() {
                    sort_row::<T, u32>(args, descending, row as u64);
                } else {
                    sort_row::<T, u64>(args, descending, row as u64);
                }
            }
        }
    };
    match groups {
        1 => body(0),
        groups => parallel.run(groups, &body),
    }
}

/// Sorts one row.
unsafe fn sort_row<T: Sortable, N: Number>(args: &Args<'_>, descending: bool, row: u64) {
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
    let x_at = x.ptr.cast::<T>().wrapping_offset(start(x));
    let values_at = values.ptr.cast::<T>().wrapping_offset(start(values));
    let indices_at = indices.ptr.cast::<i64>().wrapping_offset(start(indices));
    let entry = size_of::<Entry<T::Key, N>>();
    let scratch = Scratch::take(length * (2 * entry + size_of::<T>()) + 64);
    let first: *mut Entry<T::Key, N> = scratch.start().cast();
    // SAFETY: the scratch memory has the length asked for, entries first, which are at least as aligned as elements; the
    // operands are the caller's.
    unsafe {
        let second = first.add(length);
        let copy: *mut T = second.add(length).cast();
        for i in 0..length {
            let element = *x_at.offset(i as isize * step(x));
            copy.add(i).write(element);
            let (nan, key) = match element.key() {
                None => (true, T::Key::LAST),
                Some(key) if descending => (false, key.flip()),
                Some(key) => (false, key),
            };
            first.add(i).write(Entry {
                nan,
                key,
                number: N::new(i),
            });
        }
        let sorted = if length <= SHORT {
            std::slice::from_raw_parts_mut(first, length).sort_unstable();
            first
        } else {
            radix(first, second, length)
        };
        for i in 0..length {
            let from = (*sorted.add(i)).number.index();
            *values_at.offset(i as isize * step(values)) = *copy.add(from);
            *indices_at.offset(i as isize * step(indices)) = from as i64;
        }
    }
}

/// Sorts `length` entries by NaN and key with `spare` as room for as many; returns where they are.
unsafe fn radix<K: Key, N: Number>(
    entries: *mut Entry<K, N>,
    spare: *mut Entry<K, N>,
    length: usize,
) -> *mut Entry<K, N> {
    let digits = size_of::<K>();
    let (mut from, mut to) = (entries, spare);
    // SAFETY: both have `length` entries, those of `from` are written.
    unsafe {
        let mut counts = [[0_usize; DIGITS]; 9];
        for i in 0..length {
            let entry = *from.add(i);
            for (digit, counts) in counts.iter_mut().enumerate().take(digits) {
                counts[entry.key.digit(digit as u32)] += 1;
            }
            counts[8][usize::from(entry.nan)] += 1;
        }
        for digit in (0..digits).chain([8]) {
            let counts = &mut counts[digit];
            let place = |entry: Entry<K, N>| match digit {
                8 => usize::from(entry.nan),
                digit => entry.key.digit(digit as u32),
            };
            if counts[place(*from)] == length {
                continue;
            }
            let mut next = 0;
            for count in counts.iter_mut() {
                (*count, next) = (next, next + *count);
            }
            for i in 0..length {
                let entry = *from.add(i);
                let at = &mut counts[place(entry)];
                to.add(*at).write(entry);
                *at += 1;
            }
            std::mem::swap(&mut from, &mut to);
        }
    }
    from
}
