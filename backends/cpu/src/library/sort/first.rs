//! The first elements of the order of a row, with their indices.
//!
//! A row is read once. Elements before the last one of the best that were found so far are collected; when there are too many of
//! them, the best ones stay. Keys with numbers are never equal, so neither pieces nor vectors change which elements these are.

use super::key::{Digits, Sortable};
use super::order::{self, Entry, Number, Results};
use super::quick::Quick;
use super::{PIECE, Source, pairs};
use crate::exec::Args;
use crate::isa::{Isa, versions};
use crate::library::gemm::{Scratch, piece};
use crate::parallel::Parallel;
use std::marker::PhantomData;
use std::ops::Range;
use thalweg_hal::library::Sort;

/// Rows up to this long are sorted whole.
const SHORT: usize = 96;
/// Of rows that have fewer than this many elements for each one that is wanted, all are sorted.
const FEW: usize = 8;
/// Elements that are compared before any of them is looked at.
const BLOCK: usize = 32;
/// Elements beside those wanted that are collected first.
const SAMPLE: usize = 64;
/// Elements beside twice those wanted that are collected at most; not fewer than a block and the sample.
const SPARE: usize = 128;

const _: () = assert!(BLOCK == u32::BITS as usize);

versions! {
    /// Collects elements of a part of a row, a [`Part`], until all are read or there is no room for a block.
    Collect, collect_version, CollectFn(part: *mut u8)
}

/// A part of a row, and the best elements that were found in it.
struct Part<T: Sortable, N> {
    x: Source<T>,
    descending: bool,
    places: Range<usize>,
    /// The key that others are below; until as many are found as are wanted there is none.
    bound: Option<T::Key>,
    entries: *mut Entry<T::Key, N>,
    held: usize,
    room: usize,
}

struct Of<T, N>(PhantomData<(T, N)>);

impl<T: Sortable, N: Number> Collect for Of<T, N> {
    #[inline(always)]
    unsafe fn run(part: *mut u8) {
        // SAFETY: the caller passes a part, whose elements are readable, and whose entries have the room that it says.
        unsafe {
            let part = &mut *part.cast::<Part<T, N>>();
            if part.x.step == 1 {
                collect(part, |x, at| *x.x.add(at));
            } else {
                collect(part, |x, at| *x.at(at));
            }
        }
    }
}

#[inline(always)]
unsafe fn collect<T: Sortable, N: Number>(part: &mut Part<T, N>, element: impl Fn(&Source<T>, usize) -> T) {
    let (x, descending, entries, room) = (part.x, part.descending, part.entries, part.room);
    let Range { mut start, end } = part.places.clone();
    let mut held = part.held;
    let key = |at: usize| element(&x, at).key(descending);
    let put = |held: usize, at: usize, key: T::Key| {
        let number = N::new(at);
        // SAFETY: the caller vouches for the entries; there is room for one more.
        unsafe { entries.add(held).write(Entry { key, number }) };
    };
    if let Some(bound) = part.bound {
        while start + BLOCK <= end && held + BLOCK <= room {
            if (start..start + BLOCK).fold(false, |any, at| any | (key(at) < bound)) {
                let below = |at: usize| u32::from(key(start + at) < bound) << at;
                let mut rest = (0..BLOCK).fold(0_u32, |bits, at| bits | below(at));
                while rest != 0 {
                    let at = start + rest.trailing_zeros() as usize;
                    put(held, at, key(at));
                    held += 1;
                    rest &= rest - 1;
                }
            }
            start += BLOCK;
        }
        while start < end && end - start < BLOCK && held < room {
            let key = key(start);
            put(held, start, key);
            held += usize::from(key < bound);
            start += 1;
        }
    } else {
        while start < end && held < room {
            put(held, start, key(start));
            (start, held) = (start + 1, held + 1);
        }
    }
    part.held = held;
    part.places = start..end;
}

impl<T: Sortable, N: Number> Part<T, N> {
    /// The best `wanted` elements; fewer where there are no more. They are not in order.
    unsafe fn run(&mut self, wanted: usize, collect: CollectFn) {
        let whole = self.room;
        self.room = whole.min(wanted + SAMPLE);
        loop {
            // SAFETY: the part has what the function asks for.
            unsafe { collect((&raw mut *self).cast()) };
            if self.held > wanted {
                // SAFETY: as many entries were written.
                let entries = unsafe { std::slice::from_raw_parts_mut(self.entries, self.held) };
                let (_, last, _) = entries.select_nth_unstable(wanted - 1);
                self.bound = Some(last.key);
                self.held = wanted;
            }
            self.room = whole;
            if self.places.is_empty() {
                return;
            }
        }
    }
}

/// Parts that threads share out.
struct Parts<T: Sortable, N>(*mut Part<T, N>);

// SAFETY: each thread has a part of its own.
unsafe impl<T: Sortable, N: Number> Sync for Parts<T, N> {}

impl<T: Sortable, N> Parts<T, N> {
    fn at(&self, at: usize) -> *mut Part<T, N> {
        self.0.wrapping_add(at)
    }
}

/// Sorts one row.
pub(super) unsafe fn sort_row<T: Sortable, N: Number>(
    args: &Args<'_>,
    op: &Sort,
    isa: Isa,
    row: u64,
    parallel: &dyn Parallel,
) {
    let (Some(x), Some(results)) = (Source::<T>::new(args, op, row), Results::<T>::new(args, op, row)) else {
        return;
    };
    let wanted = results.wanted.min(x.length);
    if wanted == 0 {
        return;
    }
    if x.length <= SHORT || wanted > x.length / FEW {
        let vectors = i64::version(isa).filter(|_| T::Key::BITS <= 32 && N::BITS <= 32);
        // SAFETY: the caller vouches for the operands.
        unsafe {
            match vectors {
                Some(version) => {
                    pairs::sort_row(x, results, op.descending, (isa, version), parallel);
                }
                None => order::sort_row::<T, N>(x, results, op.descending, parallel),
            }
        }
        return;
    }
    let pieces = parallel.threads().min(x.length / PIECE).max(1);
    let room = 2 * wanted + SPARE;
    let scratch = Scratch::take(pieces * room * size_of::<Entry<T::Key, N>>());
    let entries: *mut Entry<T::Key, N> = scratch.start().cast();
    let part = |at: usize| Part {
        x,
        descending: op.descending,
        places: piece(x.length, pieces, at),
        bound: None,
        entries: entries.wrapping_add(at * room),
        held: 0,
        room,
    };
    let collect = collect_version::<Of<T, N>>(isa);
    // SAFETY: each part has elements and entries of its own; results are the caller's.
    unsafe {
        let mut held = 0;
        if pieces == 1 {
            let mut part = part(0);
            part.run(wanted, collect);
            held = part.held;
        } else {
            let mut parts: Vec<_> = (0..pieces).map(part).collect();
            let shared = Parts(parts.as_mut_ptr());
            parallel.run(pieces, &|at| (*shared.at(at)).run(wanted, collect));
            for part in &parts {
                std::ptr::copy(part.entries, entries.add(held), part.held);
                held += part.held;
            }
        }
        let entries = std::slice::from_raw_parts_mut(entries, held);
        if held > wanted {
            entries.select_nth_unstable(wanted - 1);
        }
        let entries = &mut entries[..wanted];
        entries.sort_unstable();
        for (place, entry) in entries.iter().enumerate() {
            let number = entry.number.index();
            results.write(place, *x.at(number), number);
        }
    }
}
