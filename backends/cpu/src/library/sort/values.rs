//! Elements alone: keys are sorted, and elements made of them again.
//!
//! Equal keys are equal bits, so any algorithm gives the result of a stable sort. Zeros and NaN are the exception: elements of
//! different bits have one key. They are taken in the order of the row.

use super::elements::{Elements, ODD};
use super::quick::{self, Quick, Version};
use super::{PIECE, Shared, Source, place};
use crate::exec::Args;
use crate::library::gemm::{Scratch, piece};
use crate::parallel::Parallel;
use std::sync::atomic::{AtomicBool, Ordering};

/// Sorts one row.
pub(super) unsafe fn sort_row<K: Quick>(
    args: &Args<'_>,
    (elements, version): (&Elements, Version<K>),
    x: &Source,
    row: u64,
    parallel: &dyn Parallel,
) {
    let [_, values] = args.args else { return };
    let length = x.length;
    let (to, step) = place(args, 1, row);
    let values = Shared(values.ptr);
    let value = |at: usize| values.at((to + at as isize * step) * elements.size as isize);
    let scratch = Scratch::take(length * size_of::<K>());
    let keys = Shared(scratch.start().cast::<K>());
    let pieces = parallel.threads().min(length / PIECE).max(1);
    let each = |body: &(dyn Fn(std::ops::Range<usize>) + Sync)| match pieces {
        1 => body(0..length),
        pieces => parallel.run(pieces, &|at| body(piece(length, pieces, at))),
    };
    let odd = AtomicBool::new(false);
    // SAFETY: the scratch memory has the length asked for; the operands are the caller's, and the pieces of a row disjoint.
    unsafe {
        each(&|places| {
            let to = keys.at(places.start as isize).cast();
            if elements.keys(x, places.start, to, places.len()) {
                odd.store(true, Ordering::Relaxed);
            }
        });
        let mut kept = [Vec::new(), Vec::new()];
        let mut odd_keys = [None; 2];
        if odd.into_inner() {
            odd_keys = ODD.map(|bits| {
                let mut key = *keys.0;
                elements.keys(&elements.one(&bits), 0, (&raw mut key).cast(), 1);
                Some(key)
            });
            for at in 0..length {
                let key = Some(*keys.at(at as isize));
                if let Some(of) = odd_keys.iter().position(|odd| *odd == key) {
                    kept[of].push(elements.raw(x.at(at)));
                }
            }
        }
        quick::sort(version, keys.0, length, parallel);
        each(&|places| {
            let keys = keys.at(places.start as isize).cast_const().cast();
            let to = value(places.start);
            (elements.write)(keys, to, step, places.len(), &elements.order);
        });
        let sorted = std::slice::from_raw_parts(keys.0, length);
        for (kept, odd) in kept.into_iter().zip(odd_keys) {
            let first = odd.map_or(length, |odd| sorted.partition_point(|&key| key < odd));
            for (at, raw) in kept.into_iter().enumerate() {
                elements.put(value(first + at), raw);
            }
        }
    }
}
