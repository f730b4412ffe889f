//! Parts of a quicksort, split by vectors and sorted.
//!
//! Of a long part, blocks of vectors are read from both ends and written to both ends: keys below the pivot from the front on, the others
//! up to the back. The next block comes from the end with less room, and is chosen and read before the block at hand is written, so
//! that no step waits for the sum of the comparisons before it. A part that a cache holds twice is split from its memory to other memory,
//! and its halves back. What fits into a few registers is sorted there.
//!
//! A closure lacks the instruction set of the function around it, so none has vectors: each might stay a call.

use super::network::{sort_few, sort_registers};
use super::quick::Part;
use super::vector::{Key, Vector};

/// Vectors that are sorted in registers.
const REGISTERS: usize = 16;
/// Vectors of a block.
const BLOCK: usize = 4;
/// Keys that are split from one memory to another rather than in place, which is faster where a cache holds both.
pub(super) const APART: usize = 1 << 12;

/// About the middle one of the keys, of which there are more than [`REGISTERS`] vectors.
#[inline(always)]
unsafe fn pivot<V: Vector>(keys: *const V::Key, length: usize) -> V::Key {
    // SAFETY: the caller vouches for the memory and the instructions.
    unsafe {
        let vectors = length / V::LANES;
        let mut lanes = [V::Key::MAX; 16];
        if length < 4096 {
            let part = |at: usize| V::load(keys.add(vectors * (2 * at + 1) / 10 * V::LANES));
            let (a, b, c, d, e) = (part(0), part(1), part(2), part(3), part(4));
            let (less, more) = (a.min(b).max(c.min(d)), a.max(b).min(c.max(d)));
            let middle = e.max(less.min(more)).min(less.max(more));
            let mut middle = [middle];
            sort_registers(&mut middle);
            middle[0].store(lanes.as_mut_ptr());
            lanes[V::LANES / 2]
        } else {
            let mut v = [V::splat(V::Key::MAX); 8];
            for (at, v) in v.iter_mut().enumerate() {
                *v = V::load(keys.add(vectors * (2 * at + 1) / 16 * V::LANES));
            }
            sort_registers(&mut v);
            v[4].store(lanes.as_mut_ptr());
            lanes[0]
        }
    }
}

#[inline(always)]
unsafe fn load<V: Vector>(from: *const V::Key) -> [V; BLOCK] {
    // SAFETY: the caller vouches for the keys of a block.
    unsafe {
        [
            V::load(from),
            V::load(from.add(V::LANES)),
            V::load(from.add(2 * V::LANES)),
            V::load(from.add(3 * V::LANES)),
        ]
    }
}

/// [`Vector::split`] to both ends of `room` keys from `low` on. Returns where the next ones below the pivot go: the room that is left is
/// less by a vector, so the other end follows from this one.
#[inline(always)]
unsafe fn write<V: Vector>(v: V, pivot: V, low: *mut V::Key, room: usize) -> *mut V::Key {
    // SAFETY: the caller vouches for the room, and for the instructions.
    unsafe { low.add(v.split(pivot, low, low.add(room))) }
}

/// Moves keys below the pivot to the front, the others to the back. Returns how many are below. There are at least four blocks.
#[inline(always)]
unsafe fn split_at<V: Vector>(keys: *mut V::Key, length: usize, pivot: V::Key) -> usize {
    let block = BLOCK * V::LANES;
    let blocks = length / block;
    let rest = length - blocks * block;
    // SAFETY: what was read and not yet written leaves room for four blocks between `low` and `high`. At either end there is at
    // least one: a block is read from the end with less room, and the other one has two, before any is written. When all is read,
    // the room is the number of keys that are left, which is whole vectors.
    unsafe {
        let lanes = V::splat(pivot);
        let mut tail = [lanes; BLOCK];
        let tail = tail.as_mut_ptr().cast::<V::Key>();
        std::ptr::copy_nonoverlapping(keys.add(length - rest), tail, rest);
        let (mut front, back) = (keys.add(2 * block), keys.add((blocks - 2) * block));
        let mut at_hand = load::<V>(keys);
        let kept = [load::<V>(keys.add(block)), load(back), load(back.add(block))];
        let mut ends = [keys, keys.add(length)];
        spread::<V>(tail, rest, pivot, &mut ends);
        let [mut low, _] = ends;
        // Keys that are neither read nor in a register.
        let mut left = (blocks - 4) * block;
        while left > 0 {
            let is_front = front.offset_from(low) <= 2 * block as isize;
            let from = if is_front { front } else { front.add(left - block) };
            front = front.add(if is_front { block } else { 0 });
            let next = load::<V>(from);
            for (at, v) in at_hand.into_iter().enumerate() {
                low = write(v, lanes, low, left + 4 * block - at * V::LANES);
            }
            left -= block;
            at_hand = next;
        }
        let mut room = 4 * block;
        for block in [at_hand, kept[0], kept[1], kept[2]] {
            for v in block {
                low = write(v, lanes, low, room);
                room -= V::LANES;
            }
        }
        low.offset_from_unsigned(keys)
    }
}

/// Writes keys below the pivot to the first end and the others to the second. Between the ends there is room for all keys that are left, and
/// these are whole vectors behind those at hand: a vector is written at both ends, so less than two of them have to be one.
#[inline(always)]
pub(super) unsafe fn spread<V: Vector>(
    from: *const V::Key,
    count: usize,
    pivot: V::Key,
    ends: &mut [*mut V::Key; 2],
) {
    let [mut low, high] = *ends;
    // SAFETY: the caller vouches for the keys, the room and the instructions.
    unsafe {
        let mut room = high.offset_from_unsigned(low);
        let lanes = V::splat(pivot);
        let (rest, block) = (count % V::LANES, BLOCK * V::LANES);
        let (mut from, mut left) = (from, count - rest);
        if rest > 0 {
            low = low.add(V::split_some(from.add(left), rest, lanes, low, high));
            room -= rest;
        }
        while left >= block {
            for (at, v) in load::<V>(from).into_iter().enumerate() {
                low = write(v, lanes, low, room - at * V::LANES);
            }
            (from, left, room) = (from.add(block), left - block, room - block);
        }
        while left > 0 {
            low = write(V::load(from), lanes, low, room);
            (from, left, room) = (from.add(V::LANES), left - V::LANES, room - V::LANES);
        }
        *ends = [low, low.add(room)];
    }
}

/// Splits a part of more than [`REGISTERS`] vectors in two, of which one may be empty. Its keys are at `from`, and then at `to`: there, or in
/// other memory. Those between the halves are in the part's own.
#[inline(always)]
pub(super) unsafe fn split<V: Vector>(
    mut part: Part<V::Key>,
    from: *mut V::Key,
    to: *mut V::Key,
) -> [Part<V::Key>; 2] {
    // SAFETY: the caller vouches for the part and the instructions.
    unsafe {
        part.splits = part.splits.saturating_sub(1);
        let pivot = pivot::<V>(from, part.length);
        let mut below = 0;
        if part.floor != Some(pivot) {
            below = split_to::<V>(from, to, part.length, pivot);
        }
        let mut first = Part {
            length: below,
            ..part
        };
        if below == 0 {
            // No key is below the pivot: those that equal it have their place.
            below = part.length;
            if pivot < V::Key::MAX {
                below = split_to::<V>(from, to, part.length, pivot.next());
            }
            if from != to {
                std::slice::from_raw_parts_mut(part.keys, below).fill(pivot);
            }
            first.length = 0;
        }
        let second = Part {
            keys: part.keys.add(below),
            length: part.length - below,
            floor: Some(pivot),
            ..part
        };
        [first, second]
    }
}

/// [`split_at`], or to other memory.
#[inline(always)]
unsafe fn split_to<V: Vector>(from: *mut V::Key, to: *mut V::Key, length: usize, pivot: V::Key) -> usize {
    // SAFETY: the caller vouches for both memories and the instructions.
    unsafe {
        if from == to {
            return split_at::<V>(from, length, pivot);
        }
        let mut ends = [to, to.add(length)];
        spread::<V>(from, length, pivot, &mut ends);
        ends[0].offset_from_unsigned(to)
    }
}

/// Sorts a part whose keys are at `from`, which is its own memory or other. At `spare` there is room for as many, or for
/// [`APART`] if these are less.
#[inline(always)]
pub(super) unsafe fn sort_part<V: Vector>(
    part: Part<V::Key>,
    from: *mut V::Key,
    spare: *mut V::Key,
    again: unsafe fn(Part<V::Key>, *mut V::Key, *mut V::Key),
) {
    let (keys, length) = (part.keys, part.length);
    // SAFETY: the caller vouches for the part and the instructions. Keys in other memory are not more than `APART`.
    unsafe {
        match length.div_ceil(V::LANES) {
            0 => {}
            1 => sort_few::<V, 1>(from, keys, length),
            2 => sort_few::<V, 2>(from, keys, length),
            3..=4 => sort_few::<V, 4>(from, keys, length),
            5..=8 => sort_few::<V, 8>(from, keys, length),
            9..=REGISTERS => sort_few::<V, REGISTERS>(from, keys, length),
            _ if part.splits == 0 => {
                std::ptr::copy(from, keys, length);
                part.sort_plainly();
            }
            _ if length > APART => {
                for half in split::<V>(part, keys, keys) {
                    again(half, half.keys, spare);
                }
            }
            _ => {
                let halves = split::<V>(part, from, spare);
                for half in halves {
                    let at = half.keys.offset_from_unsigned(keys);
                    again(half, spare.add(at), from.add(at));
                }
            }
        }
    }
}
