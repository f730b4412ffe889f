//! Sums and greatest elements across rows, some rows at a time.

use super::super::num::Num;
use super::{Fold, Greatest, Key, LANES, Place, key};
use crate::isa::{Isa, versions};
use crate::prefetch::ask_second;

/// Columns whose keys stay in registers while rows go by.
const STRIP: usize = 32;
/// Rows that are read side by side for the greatest.
const ROWS: usize = 8;

versions!(
    /// Sets the lanes of `n` columns to the folds of `rows` rows that lie `step` bytes apart, up to 256; each lane to that of every
    /// 16th row. Lanes that have no row stay.
    ColumnFold, pick_column_fold, ColumnFoldFn(n: usize, lanes: *mut u8, x: *const u8, step: isize, rows: usize)
);
versions!(
    /// Takes `rows` rows that lie `step` bytes apart, `j` the place of the first, into the best elements of `n` columns; `index` is
    /// not touched when the place is not asked for.
    ColumnBest, pick_column_best,
    ColumnBestFn(n: usize, keys: *mut u8, index: *mut i64, x: *const u8, step: isize, j: i64, rows: usize)
);

/// Adds `count` rows, 16 apart, to the sums of `N` columns, which are new or stand in `to`.
///
/// # Safety
/// `to` and each row have so many elements.
#[inline(always)]
unsafe fn add_rows<F: Fold, const N: usize>(
    to: *mut F::T,
    new: bool,
    mut row: *const F::T,
    step: isize,
    count: usize,
) {
    let to = to.cast::<[F::T; N]>();
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = if new { [F::START; N] } else { *to };
        for _ in 0..count {
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = F::fold(*sum, *row.add(i));
            }
            row = row.wrapping_byte_offset(LANES as isize * step);
        }
        *to = sums;
    }
}

impl<F: Fold> ColumnFold for F {
    const WIDEST: Isa = F::WIDEST;

    #[inline(always)]
    unsafe fn run(n: usize, lanes: *mut u8, x: *const u8, step: isize, rows: usize) {
        // Prefetchers follow a few rows to their ends.
        const TOGETHER: usize = 4;
        for l in 0..LANES.min(rows) {
            let to = lanes.cast::<F::T>().wrapping_add(l * n);
            for j in (l..rows).step_by(TOGETHER * LANES) {
                let count = (rows - j).div_ceil(LANES).min(TOGETHER);
                let from = x.wrapping_offset(j as isize * step).cast::<F::T>();
                let mut at = 0;
                // SAFETY: a lane has n elements, and the caller vouches for so many of each row.
                unsafe {
                    while n - at >= 64 {
                        add_rows::<F, 64>(to.add(at), j == l, from.add(at), step, count);
                        at += 64;
                    }
                    while n - at >= 8 {
                        add_rows::<F, 8>(to.add(at), j == l, from.add(at), step, count);
                        at += 8;
                    }
                    while at < n {
                        add_rows::<F, 1>(to.add(at), j == l, from.add(at), step, count);
                        at += 1;
                    }
                }
            }
        }
    }
}

/// Takes rows into the keys of a few columns.
#[inline(always)]
unsafe fn take_rows<T: Num<Key: Key>, const MAX: bool>(
    keys: &mut [T::Key],
    x: *const T,
    step: isize,
    rows: usize,
) {
    for row in 0..rows as isize {
        let x = x.wrapping_byte_offset(row * step);
        if rows == ROWS {
            ask_second(
                x.wrapping_byte_offset(ROWS as isize * step).cast(),
                size_of_val(keys),
            );
        }
        for (i, best) in keys.iter_mut().enumerate() {
            // SAFETY: the caller vouches for an element for each key.
            *best = (*best).max(key::<T, MAX>(unsafe { *x.add(i) }));
        }
    }
}

impl<T: Num<Key: Key>, const MAX: bool> ColumnBest for Greatest<T, MAX> {
    const WIDEST: Isa = T::WIDEST;

    #[inline(always)]
    unsafe fn run(
        n: usize,
        keys: *mut u8,
        _index: *mut i64,
        x: *const u8,
        step: isize,
        _j: i64,
        rows: usize,
    ) {
        // SAFETY: the caller passes n keys.
        let keys = unsafe { std::slice::from_raw_parts_mut(keys.cast::<T::Key>(), n) };
        let (strips, rest) = keys.as_chunks_mut::<STRIP>();
        for first in (0..rows).step_by(ROWS) {
            let x = x.wrapping_offset(first as isize * step).cast::<T>();
            let count = ROWS.min(rows - first);
            // SAFETY: the caller vouches for n elements of each row.
            unsafe {
                for (i, strip) in strips.iter_mut().enumerate() {
                    let mut held = *strip;
                    take_rows::<T, MAX>(&mut held, x.add(i * STRIP), step, count);
                    *strip = held;
                }
                take_rows::<T, MAX>(rest, x.add(strips.len() * STRIP), step, count);
            }
        }
    }
}

impl<T: Num<Key: Key>, const MAX: bool> ColumnBest for Place<T, MAX> {
    const WIDEST: Isa = T::WIDEST;

    #[inline(always)]
    unsafe fn run(n: usize, keys: *mut u8, index: *mut i64, x: *const u8, step: isize, j: i64, rows: usize) {
        let keys = keys.cast::<T::Key>();
        for row in 0..rows {
            let (x, j) = (x.wrapping_offset(row as isize * step).cast::<T>(), j + row as i64);
            for i in 0..n {
                // SAFETY: i < n.
                unsafe {
                    let (old, new) = (*keys.add(i), key::<T, MAX>(*x.add(i)));
                    let better = new > old || j == 0;
                    *keys.add(i) = if better { new } else { old };
                    *index.add(i) = if better { j } else { *index.add(i) };
                }
            }
        }
    }
}
