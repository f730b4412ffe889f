//! Quicksort of integer keys by vectors, in place.
//!
//! To split a part of the keys at a pivot, blocks of vectors are read from both ends and written to both ends: keys below the pivot
//! from the front on, the others up to the back. The next block comes from the end with less room, and is chosen and read before the
//! block at hand is written, so that no step waits for the sum of the comparisons before it. What fits into a few registers is sorted
//! there.

use super::network::{sort_few, sort_registers};
use super::vector::{Key, Vector};
use crate::isa::Isa;
use crate::parallel::Parallel;

/// Vectors that are sorted in registers.
const REGISTERS: usize = 16;
/// Vectors of a block.
const BLOCK: usize = 4;
/// Keys that are worth a hand-off to another thread.
const GRAIN: usize = 1 << 14;
/// Parts for each thread, so that none waits long for the last one.
const PARTS: usize = 4;
/// Keys that are still in a cache when the last of them has its place.
const NEAR: usize = 1 << 14;
/// Keys that are made of elements at once.
const CHUNK: usize = 1024;
/// Keys among which a pivot is looked for, and those of them that stand side by side.
const SAMPLE: [usize; 2] = [256, 16];

/// A part of the keys, which nobody else touches.
#[derive(Clone, Copy)]
pub(super) struct Part<K> {
    keys: *mut K,
    length: usize,
    /// What no key is below, if that is known.
    floor: Option<K>,
    /// Splits that are left before another algorithm takes over, which bounds the time of the worst case.
    splits: u32,
}

// SAFETY: a part has its keys alone.
unsafe impl<K: Key> Send for Part<K> {}
// SAFETY: as above.
unsafe impl<K: Key> Sync for Part<K> {}

impl<K: Key> Part<K> {
    fn whole(keys: *mut K, length: usize) -> Part<K> {
        Part {
            keys,
            length,
            floor: None,
            splits: 2 * (usize::BITS - length.leading_zeros()),
        }
    }

    /// The same keys without vectors.
    unsafe fn sort_plainly(self) {
        // SAFETY: the part has its keys alone.
        unsafe { std::slice::from_raw_parts_mut(self.keys, self.length) }.sort_unstable();
    }
}

/// The functions of an instruction set.
#[derive(Clone, Copy)]
pub(super) struct Version<K> {
    sort: unsafe fn(Part<K>),
    split: unsafe fn(Part<K>) -> [Part<K>; 2],
    spread: unsafe fn(from: *const K, count: usize, pivot: K, ends: &mut [*mut K; 2]),
}

/// Is told of keys that have their place: where they are, and how many.
pub(super) type Finish<'a, K> = &'a (dyn Fn(*mut K, usize) + Sync);

/// Keys that vectors sort.
pub(super) trait Quick: Key {
    /// `None` where the instruction set has no vectors for it.
    fn version(isa: Isa) -> Option<Version<Self>>;
}

/// Sorts `length` keys, and tells of all of them once they have their places.
///
/// # Safety
/// They are the caller's alone. The processor has the instruction set of the version.
pub(super) unsafe fn sort<K: Quick>(
    version: Version<K>,
    keys: *mut K,
    length: usize,
    parallel: &dyn Parallel,
    finish: Finish<'_, K>,
) {
    // SAFETY: the caller vouches for the memory and the processor; parts are disjoint.
    unsafe {
        let wanted = match parallel.threads() {
            1 => 1,
            threads => (PARTS * threads).min(length / GRAIN),
        };
        let mut parts = vec![Part::whole(keys, length)];
        while parts.len() < wanted {
            let mut halves: Vec<[Part<K>; 2]> = parts.iter().map(|&part| [part; 2]).collect();
            let to = Halves(halves.as_mut_ptr());
            parallel.run(parts.len(), &|at| {
                let part = parts[at];
                let halves = if part.length > GRAIN {
                    halves_of(version, part, finish)
                } else {
                    [part, Part { length: 0, ..part }]
                };
                // Each writes its own.
                to.at(at).write(halves);
            });
            let before = parts.len();
            parts = halves
                .into_iter()
                .flatten()
                .filter(|part| part.length > 0)
                .collect();
            if parts.len() == before {
                break;
            }
        }
        match parts.as_slice() {
            [part] => sort_near(version, *part, finish),
            parts => parallel.run(parts.len(), &|at| sort_near(version, parts[at], finish)),
        }
    }
}

/// Splits a part, and tells of keys between the halves, which have their places.
unsafe fn halves_of<K: Quick>(version: Version<K>, part: Part<K>, finish: Finish<'_, K>) -> [Part<K>; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        let [first, second] = (version.split)(part);
        let equal = part.length - first.length - second.length;
        if equal > 0 {
            finish(first.keys.add(first.length), equal);
        }
        [first, second]
    }
}

/// Sorts a part, piece after piece of at most [`NEAR`] keys.
unsafe fn sort_near<K: Quick>(version: Version<K>, part: Part<K>, finish: Finish<'_, K>) {
    // SAFETY: the caller's promise.
    unsafe {
        if part.length > NEAR && part.splits > 0 {
            for half in halves_of(version, part, finish) {
                sort_near(version, half, finish);
            }
        } else if part.length > 0 {
            (version.sort)(part);
            finish(part.keys, part.length);
        }
    }
}

/// Whether [`sort_made`] is worth its sample.
pub(super) const fn is_long(length: usize) -> bool {
    length > NEAR
}

/// Sorts keys on one thread that `make` writes: those of so many elements from the first one of a range on, to memory that it is given. They
/// are split while they are made. There are more than [`is_long`] asks for.
///
/// # Safety
/// That of [`sort`].
pub(super) unsafe fn sort_made<K: Quick>(
    version: Version<K>,
    keys: *mut K,
    length: usize,
    make: &dyn Fn(usize, *mut K, usize),
    finish: Finish<'_, K>,
) {
    let mut made = [K::MAX; CHUNK];
    // SAFETY: the caller's promise; what was not yet made leaves as much room between both ends.
    unsafe {
        let [count, run] = SAMPLE;
        for at in 0..count / run {
            let first = (length - run) / (count / run - 1) * at;
            make(first, made.as_mut_ptr().add(at * run), run);
        }
        (version.sort)(Part::whole(made.as_mut_ptr(), count));
        let pivot = made[count / 2];
        let mut ends = [keys, keys.add(length)];
        let mut first = 0;
        while first < length {
            // What is left over comes first, so that all others are whole vectors.
            let count = match (length - first) % CHUNK {
                0 => CHUNK,
                over => over,
            };
            make(first, made.as_mut_ptr(), count);
            (version.spread)(made.as_ptr(), count, pivot, &mut ends);
            first += count;
        }
        let below = ends[0].offset_from_unsigned(keys);
        let whole = Part::whole(keys, length);
        for half in [
            Part {
                length: below,
                ..whole
            },
            Part {
                keys: ends[0],
                length: length - below,
                floor: Some(pivot),
                ..whole
            },
        ] {
            sort_near(version, half, finish);
        }
    }
}

struct Halves<K>(*mut [Part<K>; 2]);

// SAFETY: each thread writes elements of its own.
unsafe impl<K: Key> Sync for Halves<K> {}

impl<K> Halves<K> {
    fn at(&self, at: usize) -> *mut [Part<K>; 2] {
        self.0.wrapping_add(at)
    }
}

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

/// [`Vector::split`], with the ends that are left.
#[inline(always)]
unsafe fn write<V: Vector>(
    v: V,
    pivot: V,
    low: *mut V::Key,
    high: *mut V::Key,
) -> (*mut V::Key, *mut V::Key) {
    // SAFETY: the caller vouches for room at both ends, and for the instructions.
    unsafe {
        let below = v.split(pivot, low, high);
        (low.add(below), high.sub(V::LANES - below))
    }
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
        let (mut front, mut back) = (keys.add(2 * block), keys.add((blocks - 2) * block));
        let mut at_hand = load::<V>(keys);
        let kept = [load::<V>(keys.add(block)), load(back), load(back.add(block))];
        let (mut low, mut high) = (keys, keys.add(length));
        let whole = rest / V::LANES * V::LANES;
        for at in (0..whole).step_by(V::LANES) {
            (low, high) = write(V::load(tail.add(at)), lanes, low, high);
        }
        if whole < rest {
            let below = V::split_some(tail.add(whole), rest - whole, pivot, low, high);
            (low, high) = (low.add(below), high.sub(rest - whole - below));
        }
        while front < back {
            let from = if front.offset_from(low) <= high.offset_from(back) {
                let from = front;
                front = front.add(block);
                from
            } else {
                back = back.sub(block);
                back
            };
            let next = load::<V>(from);
            for v in at_hand {
                (low, high) = write(v, lanes, low, high);
            }
            at_hand = next;
        }
        for block in [at_hand, kept[0], kept[1], kept[2]] {
            for v in block {
                (low, high) = write(v, lanes, low, high);
            }
        }
        low.offset_from_unsigned(keys)
    }
}

/// Writes keys below the pivot to the first end and the others to the second. Between the ends there is room for all keys that are left, and
/// these are whole vectors behind those at hand: a vector is written at both ends, so less than two of them have to be one.
#[inline(always)]
unsafe fn spread<V: Vector>(from: *const V::Key, count: usize, pivot: V::Key, ends: &mut [*mut V::Key; 2]) {
    let [mut low, mut high] = *ends;
    let whole = count / V::LANES * V::LANES;
    // SAFETY: the caller vouches for the keys, the room and the instructions.
    unsafe {
        let lanes = V::splat(pivot);
        if whole < count {
            let below = V::split_some(from.add(whole), count - whole, pivot, low, high);
            (low, high) = (low.add(below), high.sub(count - whole - below));
        }
        for at in (0..whole).step_by(V::LANES) {
            (low, high) = write(V::load(from.add(at)), lanes, low, high);
        }
    }
    *ends = [low, high];
}

/// Splits a part of more than [`REGISTERS`] vectors in two, of which one may be empty.
#[inline(always)]
unsafe fn split<V: Vector>(mut part: Part<V::Key>) -> [Part<V::Key>; 2] {
    // SAFETY: the caller vouches for the part and the instructions.
    unsafe {
        part.splits = part.splits.saturating_sub(1);
        let pivot = pivot::<V>(part.keys, part.length);
        let mut below = 0;
        if part.floor != Some(pivot) {
            below = split_at::<V>(part.keys, part.length, pivot);
        }
        let mut first = Part {
            length: below,
            ..part
        };
        if below == 0 {
            // No key is below the pivot: those that equal it are in their place.
            below = part.length;
            if pivot < V::Key::MAX {
                below = split_at::<V>(part.keys, part.length, pivot.next());
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

#[inline(always)]
unsafe fn sort_part<V: Vector>(part: Part<V::Key>, again: unsafe fn(Part<V::Key>)) {
    let (keys, length) = (part.keys, part.length);
    // SAFETY: the caller vouches for the part and the instructions.
    unsafe {
        match length.div_ceil(V::LANES) {
            0 => {}
            1 => sort_few::<V, 1>(keys, length),
            2 => sort_few::<V, 2>(keys, length),
            3..=4 => sort_few::<V, 4>(keys, length),
            5..=8 => sort_few::<V, 8>(keys, length),
            9..=REGISTERS => sort_few::<V, REGISTERS>(keys, length),
            _ if part.splits == 0 => part.sort_plainly(),
            _ => split::<V>(part).into_iter().for_each(|part| again(part)),
        }
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! versions {
    ($($key:ty: $avx2:ident, $avx512:ident;)*) => {$(
        impl Quick for $key {
            fn version(isa: Isa) -> Option<Version<$key>> {
                match isa {
                    Isa::Baseline => None,
                    Isa::Avx2 => Some(version!($key, super::avx2::$avx2, "avx2,bmi1,bmi2,popcnt")),
                    Isa::Avx512 => Some(version!(
                        $key,
                        super::avx512::$avx512,
                        "avx2,bmi1,bmi2,popcnt,avx512f,avx512bw,avx512dq,avx512vl"
                    )),
                }
            }
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
macro_rules! version {
    ($key:ty, $vector:ty, $features:literal) => {{
        #[target_feature(enable = $features)]
        unsafe fn sort(part: Part<$key>) {
            // SAFETY: the caller vouches for the part and the instructions.
            unsafe { sort_part::<$vector>(part, sort) }
        }

        #[target_feature(enable = $features)]
        unsafe fn halves(part: Part<$key>) -> [Part<$key>; 2] {
            // SAFETY: as above.
            unsafe { split::<$vector>(part) }
        }
        #[target_feature(enable = $features)]
        unsafe fn apart(from: *const $key, count: usize, pivot: $key, ends: &mut [*mut $key; 2]) {
            // SAFETY: as above.
            unsafe { spread::<$vector>(from, count, pivot, ends) }
        }
        Version {
            sort,
            split: halves,
            spread: apart,
        }
    }};
}

#[cfg(not(target_arch = "x86_64"))]
macro_rules! versions {
    ($($key:ty: $avx2:ident, $avx512:ident;)*) => {$(
        impl Quick for $key {
            fn version(_: Isa) -> Option<Version<$key>> {
                None
            }
        }
    )*};
}

versions! {
    i32: I32x8, I32x16;
    i64: I64x4, I64x8;
}
