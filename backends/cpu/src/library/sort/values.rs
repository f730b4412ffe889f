//! Elements alone: keys are sorted, and elements made of them again.
//!
//! Equal keys are equal bits, so any algorithm gives the result of a stable sort. Zeros and NaN are the exception: elements of
//! different bits have one key. They are taken in the order of the row.

use super::key::{Digits, Sortable};
use super::quick::{self, Version};
use super::{PIECE, Shared, place};
use crate::exec::Args;
use crate::isa::{Isa, versions};
use crate::library::gemm::{Scratch, piece};
use crate::parallel::Parallel;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_hal::library::Sort;

pub(super) type Wide<T> = <<T as Sortable>::Key as Digits>::Wide;

versions! {
    /// Writes the keys of `count` elements, and whether one of them does not come back from its key.
    Read, read_version, ReadFn(x: *const u8, step: isize, keys: *mut u8, count: usize, descending: bool, odd: *mut bool)
}

versions! {
    /// Writes the elements of `count` keys.
    Write, write_version, WriteFn(keys: *const u8, values: *mut u8, step: isize, count: usize, descending: bool)
}

/// The loops over elements.
struct Of<T>(PhantomData<T>);

impl<T: Sortable> Read for Of<T> {
    #[inline(always)]
    unsafe fn run(x: *const u8, step: isize, keys: *mut u8, count: usize, descending: bool, odd: *mut bool) {
        let (x, keys) = (x.cast::<T>(), keys.cast::<Wide<T>>());
        let mut found = false;
        let mut one = |at: usize, element: T| {
            found |= element.is_nan() | element.is_minus_zero();
            // SAFETY: the caller has room for the keys.
            unsafe { keys.add(at).write(element.key(descending).wide()) };
        };
        // SAFETY: the caller vouches for the elements.
        unsafe {
            if step == 1 {
                (0..count).for_each(|at| one(at, *x.add(at)));
            } else {
                (0..count).for_each(|at| one(at, *x.offset(at as isize * step)));
            }
            odd.write(found);
        }
    }
}

impl<T: Sortable> Write for Of<T> {
    #[inline(always)]
    unsafe fn run(keys: *const u8, values: *mut u8, step: isize, count: usize, descending: bool) {
        let (keys, values) = (keys.cast::<Wide<T>>(), values.cast::<T>());
        // SAFETY: the caller vouches for keys and elements.
        unsafe {
            let element = |at: usize| T::of_key(T::Key::of_wide(*keys.add(at)), descending);
            if step == 1 {
                (0..count).for_each(|at| values.add(at).write(element(at)));
            } else {
                (0..count).for_each(|at| values.offset(at as isize * step).write(element(at)));
            }
        }
    }
}

/// Sorts one row.
pub(super) unsafe fn sort_row<T: Sortable>(
    args: &Args<'_>,
    op: &Sort,
    (isa, version): (Isa, Version<Wide<T>>),
    row: u64,
    parallel: &dyn Parallel,
) {
    let ([x, values], Some(&length)) = (args.args, args.extents.last()) else {
        return;
    };
    let (length, descending) = (length as usize, op.descending);
    let ((from, step), (to, to_step)) = (place(args, 0, row), place(args, 1, row));
    let x = Shared(x.ptr.cast::<T>().wrapping_offset(from));
    let values = Shared(values.ptr.cast::<T>().wrapping_offset(to));
    let scratch = Scratch::take(length * size_of::<Wide<T>>());
    let keys = Shared(scratch.start().cast::<Wide<T>>());
    let pieces = parallel.threads().min(length / PIECE).max(1);
    let each = |body: &(dyn Fn(std::ops::Range<usize>) + Sync)| match pieces {
        1 => body(0..length),
        pieces => parallel.run(pieces, &|at| body(piece(length, pieces, at))),
    };
    let odd = AtomicBool::new(false);
    let (read, write) = (read_version::<Of<T>>(isa), write_version::<Of<T>>(isa));
    // SAFETY: the scratch memory has the length asked for; the operands are the caller's, and the pieces of a row disjoint.
    unsafe {
        each(&|places| {
            let (first, mut found) = (places.start as isize, false);
            let (x, keys) = (x.at(first * step), keys.at(first));
            read(
                x.cast_const().cast(),
                step,
                keys.cast(),
                places.len(),
                descending,
                &raw mut found,
            );
            if found {
                odd.store(true, Ordering::Relaxed);
            }
        });
        let mut zeros = Vec::new();
        let mut nans = Vec::new();
        if odd.into_inner() {
            let zero = T::of_key(T::ZERO, false).key(descending);
            for at in 0..length as isize {
                let element = *x.at(at * step);
                if element.is_nan() {
                    nans.push(element);
                } else if element.key(descending) == zero {
                    zeros.push(element);
                }
            }
        }
        quick::sort(version, keys.0, length, parallel);
        each(&|places| {
            let first = places.start as isize;
            let (keys, values) = (keys.at(first), values.at(first * to_step));
            write(
                keys.cast_const().cast(),
                values.cast(),
                to_step,
                places.len(),
                descending,
            );
        });
        let place = |list: Vec<T>, first: usize| {
            for (at, element) in list.into_iter().enumerate() {
                values.at((first + at) as isize * to_step).write(element);
            }
        };
        if !zeros.is_empty() {
            let zero = T::of_key(T::ZERO, false).key(descending).wide();
            let sorted = std::slice::from_raw_parts(keys.0, length);
            place(zeros, sorted.partition_point(|&key| key < zero));
        }
        let first = length - nans.len();
        place(nans, first);
    }
}
