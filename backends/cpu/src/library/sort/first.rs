//! The first elements of the order of a row, with their indices.
//!
//! A row is read once. Elements before the last one of the best that were found so far are collected; when there are too many of
//! them, the best ones stay. Keys with numbers are never equal, so neither pieces nor vectors change which elements these are.

use super::elements::{BLOCK, CHUNK, Elements};
use super::entry::Entry;
use super::order::{self, Results};
use super::{PIECE, Source};
use crate::isa::{Isa, versions};
use crate::library::gemm::{Scratch, piece};
use crate::parallel::Parallel;
use std::marker::PhantomData;
use std::ops::Range;

/// Rows up to this long are sorted whole.
pub(super) const SHORT: usize = 96;
/// Of rows that have fewer than this many elements for each one that is wanted, all are sorted.
const FEW: usize = 8;
/// Elements beside those wanted that are collected first.
const SAMPLE: usize = 64;
/// Elements beside twice those wanted that are collected at most; not fewer than a block and the sample.
const SPARE: usize = 128;

/// Elements whose keys are written at once where some were passed over.
const READ: usize = 2 * BLOCK;

const _: () = assert!(BLOCK == u32::BITS as usize && READ <= CHUNK);

versions! {
    /// Collects elements of a part of a row, a [`Part`], until all are read or there is no room for a block.
    Collect, collect_version, CollectFn(part: *mut u8)
}

/// A part of a row, and the best elements that were found in it.
struct Part<'a, E: Entry> {
    elements: &'a Elements,
    x: &'a Source,
    places: Range<usize>,
    /// The key that others are below; until as many are found as are wanted there is none.
    bound: Option<E::Key>,
    entries: *mut E,
    held: usize,
    room: usize,
    /// Whether there are elements that do not come back from their keys.
    odd: bool,
}

struct Of<E>(PhantomData<E>);

impl<E: Entry> Collect for Of<E> {
    #[inline(always)]
    unsafe fn run(part: *mut u8) {
        // SAFETY: the caller passes a part, whose elements are readable, and whose entries have the room that it says.
        unsafe { collect(&mut *part.cast::<Part<'_, E>>()) }
    }
}

#[inline(always)]
unsafe fn collect<E: Entry>(part: &mut Part<'_, E>) {
    let (entries, room) = (part.entries, part.room);
    let Range { mut start, end } = part.places.clone();
    let mut held = part.held;
    let mut keys = [E::Key::default(); CHUNK];
    while start < end && held < room {
        let mut most = READ;
        if let Some(bound) = part.bound {
            let blocks = (end - start) / BLOCK;
            // SAFETY: the caller vouches for the elements; keys of a row are of one kind.
            let passed = unsafe { E::passed(part.elements, part.x, start, blocks, &bound) };
            // Where many are found, more are read at once.
            if passed == 0 {
                most = CHUNK;
            }
            start += BLOCK * passed;
        }
        let count = most.min(end - start);
        // SAFETY: the caller vouches for the elements.
        part.odd |= unsafe { E::read(part.elements, part.x, start, keys.as_mut_ptr(), count) };
        let keys = &keys[..count];
        let put = |held: usize, at: usize| {
            // SAFETY: the caller vouches for the entries; there is room for one more.
            unsafe { entries.add(held).write(E::new(keys[at], start + at)) };
        };
        let mut at = 0;
        if let Some(bound) = part.bound {
            for block in keys.chunks_exact(BLOCK) {
                if held + BLOCK > room {
                    break;
                }
                if block.iter().fold(false, |any, &key| any | (key < bound)) {
                    let below = |at: usize| u32::from(block[at] < bound) << at;
                    let mut rest = (0..BLOCK).fold(0_u32, |bits, at| bits | below(at));
                    while rest != 0 {
                        put(held, at + rest.trailing_zeros() as usize);
                        held += 1;
                        rest &= rest - 1;
                    }
                }
                at += BLOCK;
            }
            // What is left of the row is less than a block.
            while at < count && count - at < BLOCK && held < room {
                put(held, at);
                held += usize::from(keys[at] < bound);
                at += 1;
            }
            if at == 0 || at < count {
                start += at;
                break;
            }
        } else {
            while at < count && held < room {
                put(held, at);
                (at, held) = (at + 1, held + 1);
            }
        }
        start += at;
    }
    part.held = held;
    part.places = start..end;
}

impl<E: Entry> Part<'_, E> {
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
                self.bound = Some(last.key());
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
struct Parts<'a, E: Entry>(*mut Part<'a, E>);

// SAFETY: each thread has a part of its own.
unsafe impl<E: Entry> Sync for Parts<'_, E> {}

impl<'a, E: Entry> Parts<'a, E> {
    fn at(&self, at: usize) -> *mut Part<'a, E> {
        self.0.wrapping_add(at)
    }
}

/// Whether a row is read for those that are wanted, rather than sorted whole.
pub(super) fn is_few(wanted: usize, length: usize) -> bool {
    length > SHORT && wanted <= length / FEW
}

/// Sorts one row.
pub(super) unsafe fn sort_row<E: Entry>(
    (elements, isa): (&Elements, Isa),
    x: &Source,
    results: Results,
    parallel: &dyn Parallel,
) {
    let wanted = results.wanted.min(x.length);
    if wanted == 0 {
        return;
    }
    if !is_few(wanted, x.length) {
        // SAFETY: the caller vouches for the operands.
        unsafe { order::sort_row::<E>((elements, isa), x, results, parallel) };
        return;
    }
    let pieces = parallel.threads().min(x.length / PIECE).max(1);
    let room = 2 * wanted + SPARE;
    let scratch = Scratch::take(pieces * room * size_of::<E>());
    let entries: *mut E = scratch.start().cast();
    let part = |at: usize| Part {
        elements,
        x,
        places: piece(x.length, pieces, at),
        bound: None,
        entries: entries.wrapping_add(at * room),
        held: 0,
        room,
        odd: false,
    };
    let collect = collect_version::<Of<E>>(isa);
    // SAFETY: each part has elements and entries of its own; results are the caller's.
    unsafe {
        let (mut held, mut odd) = (0, false);
        if pieces == 1 {
            let mut part = part(0);
            part.run(wanted, collect);
            (held, odd) = (part.held, part.odd);
        } else {
            let mut parts: Vec<_> = (0..pieces).map(part).collect();
            let shared = Parts(parts.as_mut_ptr());
            parallel.run(pieces, &|at| (*shared.at(at)).run(wanted, collect));
            for part in &parts {
                std::ptr::copy(part.entries, entries.add(held), part.held);
                held += part.held;
                odd |= part.odd;
            }
        }
        let entries = std::slice::from_raw_parts_mut(entries, held);
        if held > wanted {
            entries.select_nth_unstable(wanted - 1);
        }
        let entries = &mut entries[..wanted];
        // It takes memory of its own, so it is not for a few.
        if wanted <= SHORT || !E::sort(isa, entries.as_mut_ptr(), wanted, parallel) {
            entries.sort_unstable();
        }
        let entries = &*entries;
        results.write((elements, x), wanted, &|at| entries[at], odd, &|body| {
            body(0, 0..wanted)
        });
    }
}
