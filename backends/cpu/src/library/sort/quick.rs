//! Quicksort of integer keys by vectors, in place.
//!
//! To split a part of the keys at a pivot, blocks of vectors are read from both ends and written to both ends: keys below the pivot
//! from the front on, the others up to the back. The next block comes from the end with less room, and is chosen and read before the
//! block at hand is written, so that no step waits for the sum of the comparisons before it. What fits into a few registers is sorted
//! there.

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

macro_rules! unrolled {
    ($at:ident $body:block) => { unrolled!(@ $at $body 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15) };
    (@ $at:ident $body:block $($n:literal)*) => { $({ const $at: usize = $n; $body })* };
}

/// Sorts registers, whose keys then rise from lane to lane and from register to register.
///
/// A lane of all registers is a column. Columns are sorted, then merged two by two, and at last made rows.
#[inline(always)]
unsafe fn sort_registers<V: Vector, const N: usize>(v: &mut [V; N]) {
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        sort_columns(v);
        merge::<V, N, 1>(v);
        merge::<V, N, 2>(v);
        merge::<V, N, 4>(v);
        merge::<V, N, 8>(v);
        // Each round takes the first bit of a register's number to the end of the number of a key.
        for _ in 0..N.ilog2() {
            let rows = *v;
            unrolled!(AT {
                if 2 * AT + 1 < N {
                    [v[2 * AT], v[2 * AT + 1]] = rows[AT].interleaved(rows[AT + N / 2]);
                }
            });
        }
    }
}

/// Sorts each lane by the least known network of 1, 2, 4, 8 or 16 registers.
#[inline(always)]
unsafe fn sort_columns<V: Vector, const N: usize>(v: &mut [V; N]) {
    macro_rules! network {
        ($($a:literal $b:literal),*) => {
            // SAFETY: the caller vouches for the instructions.
            unsafe {
                $(if $b < N {
                    (v[$a], v[$b]) = (v[$a].min(v[$b]), v[$a].max(v[$b]));
                })*
            }
        };
    }
    match N {
        2 => network!(0 1),
        4 => network!(0 2, 1 3, 0 1, 2 3, 1 2),
        8 => network!(
            0 2, 1 3, 4 6, 5 7, 0 4, 1 5, 2 6, 3 7, 0 1, 2 3, 4 5, 6 7, 2 4, 3 5, 1 4, 3 6, 1 2, 3 4, 5 6
        ),
        16 => network!(
            0 13, 1 12, 2 15, 3 14, 4 8, 5 6, 7 11, 9 10, 0 5, 1 7, 2 9, 3 4, 6 13, 8 14, 10 15, 11 12, 0 1, 2 3, 4 5,
            6 8, 7 9, 10 11, 12 13, 14 15, 0 2, 1 3, 4 10, 5 11, 6 7, 8 9, 12 14, 13 15, 1 2, 3 12, 4 6, 5 7, 8 10,
            9 11, 13 14, 1 4, 2 6, 5 8, 7 10, 9 13, 11 14, 2 4, 3 6, 9 12, 11 13, 3 5, 6 8, 7 9, 10 12, 3 4, 5 6, 7 8,
            9 10, 11 12, 6 7, 8 9
        ),
        _ => {}
    }
}

/// Merges each two sorted runs of `COLUMNS` columns.
#[inline(always)]
unsafe fn merge<V: Vector, const N: usize, const COLUMNS: usize>(v: &mut [V; N]) {
    if COLUMNS >= V::LANES {
        return;
    }
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        // The second run backwards makes a bitonic sequence of both.
        if N == 1 {
            v[0] = v[0].exchange::<true, COLUMNS>(v[0]);
        }
        unrolled!(AT {
            if AT < N / 2 {
                let (a, b) = (v[AT], v[N - 1 - AT]);
                (v[AT], v[N - 1 - AT]) = (a.exchange::<true, COLUMNS>(b), b.exchange::<true, COLUMNS>(a));
            }
        });
        across::<V, N, 4>(v, COLUMNS);
        across::<V, N, 2>(v, COLUMNS);
        across::<V, N, 1>(v, COLUMNS);
        down::<V, N, 8>(v);
        down::<V, N, 4>(v);
        down::<V, N, 2>(v);
        down::<V, N, 1>(v);
    }
}

/// Of each two columns `DISTANCE` apart, which a run of `run` ones has, the first takes the less keys.
#[inline(always)]
unsafe fn across<V: Vector, const N: usize, const DISTANCE: usize>(v: &mut [V; N], run: usize) {
    if DISTANCE >= run {
        return;
    }
    unrolled!(AT {
        if AT < N {
            // SAFETY: the caller vouches for the instructions.
            v[AT] = unsafe { v[AT].exchange::<false, DISTANCE>(v[AT]) };
        }
    });
}

/// Of each two registers `DISTANCE` apart the first takes the less keys.
#[inline(always)]
unsafe fn down<V: Vector, const N: usize, const DISTANCE: usize>(v: &mut [V; N]) {
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        unrolled!(AT {
            if AT + DISTANCE < N && (AT / DISTANCE).is_multiple_of(2) {
                let (a, b) = (v[AT], v[AT + DISTANCE]);
                (v[AT], v[AT + DISTANCE]) = (a.min(b), a.max(b));
            }
        });
    }
}

/// Sorts more keys than `N / 2` vectors have, and not more than `N` have.
#[inline(always)]
unsafe fn sort_few<V: Vector, const N: usize>(keys: *mut V::Key, length: usize) {
    // SAFETY: the caller vouches for the memory and the instructions.
    unsafe {
        let mut v = [V::splat(V::Key::MAX); N];
        let rest = |at: usize| length.saturating_sub(at * V::LANES).min(V::LANES);
        unrolled!(AT {
            if AT < N {
                let from = keys.wrapping_add(AT * V::LANES);
                v[AT] = if AT < N / 2 { V::load(from) } else { V::load_some(from, rest(AT)) };
            }
        });
        sort_registers(&mut v);
        unrolled!(AT {
            if AT < N {
                let to = keys.wrapping_add(AT * V::LANES);
                if AT < N / 2 { v[AT].store(to) } else { v[AT].store_some(to, rest(AT)) };
            }
        });
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
    unsafe { [0, 1, 2, 3].map(|at| V::load(from.add(at * V::LANES))) }
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
        let kept = [keys.add(block), back, back.add(block)].map(|from| load::<V>(from));
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
