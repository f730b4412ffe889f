//! Elements with their indices by vectors: keys of up to 32 bits above the numbers of their elements. No two are equal, so that the
//! order is that of a stable sort.

use super::key::{Digits, Sortable};
use super::order::Results;
use super::quick::{self, Version};
use super::{PIECE, Shared, Source};
use crate::isa::{Isa, versions};
use crate::library::gemm::{Scratch, piece};
use crate::parallel::Parallel;
use std::marker::PhantomData;
use std::ops::Range;

versions! {
    /// Writes the pairs of `count` elements from number `first` on.
    Pack, pack_version, PackFn(x: *const u8, step: isize, pairs: *mut i64, first: usize, count: usize, descending: bool)
}

struct Of<T>(PhantomData<T>);

/// The signed numbers are in the order of the keys.
const FLIP: u64 = 1 << 63;

impl<T: Sortable> Pack for Of<T> {
    #[inline(always)]
    unsafe fn run(x: *const u8, step: isize, pairs: *mut i64, first: usize, count: usize, descending: bool) {
        let x = x.cast::<T>();
        let pair = |at: usize, element: T| {
            let key = u64::from(element.key(descending).low());
            ((key << 32 | (first + at) as u64) ^ FLIP) as i64
        };
        // SAFETY: the caller vouches for the elements, and has room for the pairs.
        unsafe {
            if step == 1 {
                (0..count).for_each(|at| pairs.add(at).write(pair(at, *x.add(at))));
            } else {
                (0..count).for_each(|at| pairs.add(at).write(pair(at, *x.offset(at as isize * step))));
            }
        }
    }
}

/// Sorts one row, whose numbers have 32 bits.
///
/// # Safety
/// The row and its results are the caller's; the processor has the instruction set.
pub(super) unsafe fn sort_row<T: Sortable>(
    x: Source<T>,
    results: Results<T>,
    descending: bool,
    (isa, version): (Isa, Version<i64>),
    parallel: &dyn Parallel,
) {
    let length = x.length;
    let scratch = Scratch::take(length * size_of::<i64>());
    let pairs = Shared(scratch.start().cast::<i64>());
    let pieces = parallel.threads().min(length / PIECE).max(1);
    let each = |body: &(dyn Fn(Range<usize>) + Sync)| match pieces {
        1 => body(0..length),
        pieces => parallel.run(pieces, &|at| body(piece(length, pieces, at))),
    };
    let pack = pack_version::<Of<T>>(isa);
    let zero = T::of_key(T::ZERO, false).key(descending);
    // SAFETY: the scratch memory has the length asked for; pieces of a row are disjoint.
    unsafe {
        each(&|places| {
            let to = pairs.at(places.start as isize);
            let from = x.at(places.start).cast();
            pack(from, x.step, to, places.start, places.len(), descending);
        });
        quick::sort(version, pairs.0, length, parallel);
        each(&|places| {
            for place in places.start..places.end.min(results.wanted) {
                let pair = *pairs.at(place as isize) as u64 ^ FLIP;
                let (key, number) = (T::Key::of_low((pair >> 32) as u32), pair as u32 as usize);
                // Elements of different bits have these keys.
                let element = if key == zero || key == T::Key::LAST {
                    *x.at(number)
                } else {
                    T::of_key(key, descending)
                };
                results.write(place, element, number);
            }
        });
    }
}
