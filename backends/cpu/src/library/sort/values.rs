//! Elements alone: keys are sorted, and elements made of them again.
//!
//! Equal keys are equal bits, so any algorithm gives the result of a stable sort. Zeros and NaN are the exception: elements of
//! different bits have one key. They are taken in the order of the row.

use super::elements::{Elements, ODD};
use super::quick::{self, Quick, Version};
use super::{PIECE, Shared, Source, place};
use crate::exec::Args;
use crate::library::gemm::Scratch;
use crate::parallel::Parallel;
use std::sync::atomic::{AtomicBool, Ordering};

/// Keys whose elements are written at once.
const CHUNK: usize = 256;

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
    // Keys stand where the elements will, if there is room for them and nobody reads there.
    let bytes = length * size_of::<K>();
    let apart = !ranges_meet(value(0).cast_const(), bytes, x, length);
    let in_place = step == 1 && size_of::<K>() == elements.size && apart;
    let scratch = (!in_place).then(|| Scratch::take(bytes));
    let keys = Shared(scratch.as_ref().map_or(value(0), Scratch::start).cast::<K>());
    let odd = AtomicBool::new(false);
    let make = |first: usize, to: *mut K, count: usize| {
        // SAFETY: the caller vouches for the elements, and there is room for the keys.
        if unsafe { elements.keys(x, first, to.cast(), count) } {
            odd.store(true, Ordering::Relaxed);
        }
    };
    let write = |first: *mut K, count: usize| {
        let mut chunk = [K::MAX; CHUNK];
        // SAFETY: keys and elements are the caller's, and parts of a row disjoint.
        unsafe {
            let place = first.offset_from_unsigned(keys.at(0));
            for at in (0..count).step_by(CHUNK) {
                let count = CHUNK.min(count - at);
                chunk.as_mut_ptr().copy_from_nonoverlapping(first.add(at), count);
                let to = value(place + at);
                (elements.write)(chunk.as_ptr().cast(), to, step, count, &elements.order);
            }
        }
    };
    // Whether an element does not come back from its key is known when all keys are made.
    let finish = |first: *mut K, count: usize| {
        if !odd.load(Ordering::Relaxed) {
            write(first, count);
        }
    };
    let pieces = parallel.threads().min(length / PIECE).max(1);
    // SAFETY: the keys' memory has the length asked for; the operands are the caller's, and the pieces of a row disjoint.
    unsafe {
        if quick::is_long(length) {
            let keys = (keys.at(0), length);
            quick::sort_made(version, keys, &make, (pieces, parallel), &finish);
        } else {
            make(0, keys.at(0), length);
            quick::sort(version, keys.at(0), length, parallel, &finish);
        }
        if odd.into_inner() {
            let kept = kept(elements, x, keys.at(0));
            write(keys.at(0), length);
            for (first, raws) in kept {
                for (at, raw) in raws.into_iter().enumerate() {
                    elements.put(value(first + at), raw);
                }
            }
        }
    }
}

/// The elements that do not come back from their keys, in the order of the row, and the place of the first of each kind.
unsafe fn kept<K: Quick>(elements: &Elements, x: &Source, sorted: *const K) -> [(usize, Vec<u64>); 2] {
    let mut chunk = [K::MAX; CHUNK];
    // SAFETY: the caller has the elements and as many keys in their order.
    unsafe {
        let odd_keys = ODD.map(|bits| {
            let mut key = K::MAX;
            elements.keys(&elements.one(&bits), 0, (&raw mut key).cast(), 1);
            key
        });
        let sorted = std::slice::from_raw_parts(sorted, x.length);
        let mut kept = odd_keys.map(|odd| (sorted.partition_point(|&key| key < odd), Vec::new()));
        for first in (0..x.length).step_by(CHUNK) {
            let count = CHUNK.min(x.length - first);
            elements.keys(x, first, chunk.as_mut_ptr().cast(), count);
            for (at, key) in chunk[..count].iter().enumerate() {
                if let Some(of) = odd_keys.iter().position(|odd| odd == key) {
                    kept[of].1.push(elements.raw(x.at(first + at)));
                }
            }
        }
        kept
    }
}

/// Whether some bytes are among those from the first to the last element of a row.
fn ranges_meet(start: *const u8, bytes: usize, x: &Source, length: usize) -> bool {
    let ends = [x.at(0).addr(), x.at(length.saturating_sub(1)).addr()];
    let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]) + x.size);
    start.addr() < high && low < start.addr() + bytes
}
