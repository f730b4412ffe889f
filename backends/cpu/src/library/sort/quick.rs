//! Quicksort of integer keys by vectors, in place.
//!
//! A long part is split at a pivot again and again, on several threads if there are any; `split.rs` does that with vectors.

#[cfg(target_arch = "x86_64")]
use super::split;
use super::vector::Key;
use crate::isa::Isa;
use crate::library::gemm::piece;
use crate::parallel::{Parallel, Serial};
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

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
    pub(super) keys: *mut K,
    pub(super) length: usize,
    /// What no key is below, if that is known.
    pub(super) floor: Option<K>,
    /// Splits that are left before another algorithm takes over, which bounds the time of the worst case.
    pub(super) splits: u32,
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
    pub(super) unsafe fn sort_plainly(self) {
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
    // SAFETY: the same promise.
    unsafe { sort_parts(version, vec![Part::whole(keys, length)], parallel, finish) }
}

/// Sorts parts that are in order, as [`sort`] does.
unsafe fn sort_parts<K: Quick>(
    version: Version<K>,
    mut parts: Vec<Part<K>>,
    parallel: &dyn Parallel,
    finish: Finish<'_, K>,
) {
    let length: usize = parts.iter().map(|part| part.length).sum();
    // SAFETY: the caller vouches for the memory and the processor; parts are disjoint.
    unsafe {
        let wanted = match parallel.threads() {
            1 => 1,
            threads => (PARTS * threads).min(length / GRAIN),
        };
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
        // A long part that comes last would be waited for.
        parts.sort_unstable_by_key(|part| Reverse(part.length));
        match parts.as_slice() {
            parts if wanted <= 1 => parts.iter().for_each(|&part| sort_near(version, part, finish)),
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

/// Sorts keys that `make` writes: those of so many elements from the first one of a range on, to memory that it is given. They are split
/// while they are made, in so many pieces at once. There are more than [`is_long`] asks for.
///
/// # Safety
/// That of [`sort`].
pub(super) unsafe fn sort_made<K: Quick>(
    version: Version<K>,
    (keys, length): (*mut K, usize),
    make: &(dyn Fn(usize, *mut K, usize) + Sync),
    (pieces, parallel): (usize, &dyn Parallel),
    finish: Finish<'_, K>,
) {
    let whole = Part::whole(keys, length);
    // SAFETY: the caller's promise; pieces are disjoint.
    unsafe {
        let pivot = sampled(version, length, make);
        let each = |at: usize| {
            // A part may be shared, its pointer alone may not.
            let whole = &whole;
            let places = piece(length, pieces, at);
            let ends = [places.start, places.end].map(|place| whole.keys.wrapping_add(place));
            made_apart(version, (places, pivot), ends, make)
        };
        let below = match pieces {
            1 => each(0),
            pieces => {
                let middles: Vec<AtomicUsize> = (0..pieces).map(|_| AtomicUsize::new(0)).collect();
                parallel.run(pieces, &|at| middles[at].store(each(at), Ordering::Relaxed));
                let lows = middles.into_iter().map(AtomicUsize::into_inner);
                bring_together(&whole, lows.collect::<Vec<_>>().as_slice(), parallel)
            }
        };
        let first = Part {
            length: below,
            ..whole
        };
        let second = Part {
            keys: keys.add(below),
            length: length - below,
            floor: Some(pivot),
            ..whole
        };
        sort_parts(
            version,
            vec![first, second],
            if pieces == 1 { &Serial } else { parallel },
            finish,
        );
    }
}

/// About the middle one of the keys that `make` writes.
unsafe fn sampled<K: Quick>(version: Version<K>, length: usize, make: &dyn Fn(usize, *mut K, usize)) -> K {
    let [count, run] = SAMPLE;
    let mut made = [K::MAX; SAMPLE[0]];
    for at in 0..count / run {
        let first = (length - run) / (count / run - 1) * at;
        make(first, made[at * run..].as_mut_ptr(), run);
    }
    // SAFETY: the caller vouches for the processor.
    unsafe { (version.sort)(Part::whole(made.as_mut_ptr(), count)) };
    made[count / 2]
}

/// Makes the keys of some places, those below the pivot from the first end on, the others up to the second. Returns how many are below.
unsafe fn made_apart<K: Quick>(
    version: Version<K>,
    (places, pivot): (Range<usize>, K),
    mut ends: [*mut K; 2],
    make: &dyn Fn(usize, *mut K, usize),
) -> usize {
    let mut made = [K::MAX; CHUNK];
    let start = ends[0];
    let mut first = places.start;
    while first < places.end {
        // What is left over comes first, so that all others are whole vectors.
        let count = match (places.end - first) % CHUNK {
            0 => CHUNK,
            over => over,
        };
        make(first, made.as_mut_ptr(), count);
        // SAFETY: the caller's promise; what was not yet made leaves as much room between both ends.
        unsafe { (version.spread)(made.as_ptr(), count, pivot, &mut ends) };
        first += count;
    }
    // SAFETY: both are in the memory of the keys.
    unsafe { ends[0].offset_from_unsigned(start) }
}

/// Changes the places of keys so that those stand first which the pieces of the keys have first, as many as `lows` says. Returns how many
/// these are.
unsafe fn bring_together<K: Quick>(keys: &Part<K>, lows: &[usize], parallel: &dyn Parallel) -> usize {
    let below: usize = lows.iter().sum();
    let mut wrong = [Vec::new(), Vec::new()];
    for (at, &low) in lows.iter().enumerate() {
        let places = piece(keys.length, lows.len(), at);
        let middle = places.start + low;
        wrong[0].push(middle.min(below)..places.end.min(below));
        wrong[1].push(places.start.max(below)..middle.max(below));
    }
    // Both have the same number of places.
    let [first, second] = wrong.map(|places| places.into_iter().flat_map(chunks));
    let (mut first, mut second) = (first.collect::<Vec<_>>(), second.collect::<Vec<_>>());
    let mut swaps = Vec::new();
    while let (Some(high), Some(low)) = (first.last_mut(), second.last_mut()) {
        let count = high.len().min(low.len());
        swaps.push((high.start, low.start, count));
        (high.start, low.start) = (high.start + count, low.start + count);
        first.pop_if(|places| places.start == places.end);
        second.pop_if(|places| places.start == places.end);
    }
    parallel.run(swaps.len(), &|at| {
        let (high, low, count) = swaps[at];
        // SAFETY: the caller has the keys, and no place is in two swaps.
        unsafe { std::ptr::swap_nonoverlapping(keys.keys.add(high), keys.keys.add(low), count) };
    });
    below
}

/// Places, at most [`GRAIN`] of them at a time.
fn chunks(places: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = places.end;
    places
        .step_by(GRAIN)
        .map(move |start| start..end.min(start + GRAIN))
}

struct Halves<K>(*mut [Part<K>; 2]);

// SAFETY: each thread writes elements of its own.
unsafe impl<K: Key> Sync for Halves<K> {}

impl<K> Halves<K> {
    fn at(&self, at: usize) -> *mut [Part<K>; 2] {
        self.0.wrapping_add(at)
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
        unsafe fn sort_at(part: Part<$key>, from: *mut $key, spare: *mut $key) {
            // SAFETY: the caller vouches for the part, both memories and the instructions.
            unsafe { split::sort_part::<$vector>(part, from, spare, sort_at) }
        }
        unsafe fn sort(part: Part<$key>) {
            let mut spare = std::mem::MaybeUninit::<[$key; split::APART]>::uninit();
            // SAFETY: the caller vouches for the part and the instructions.
            unsafe { sort_at(part, part.keys, spare.as_mut_ptr().cast()) }
        }

        #[target_feature(enable = $features)]
        unsafe fn halves(part: Part<$key>) -> [Part<$key>; 2] {
            // SAFETY: as above.
            unsafe { split::split::<$vector>(part, part.keys, part.keys) }
        }
        #[target_feature(enable = $features)]
        unsafe fn apart(from: *const $key, count: usize, pivot: $key, ends: &mut [*mut $key; 2]) {
            // SAFETY: as above.
            unsafe { split::spread::<$vector>(from, count, pivot, ends) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::sort::split::APART;
    use crate::parallel::Turns;

    const KINDS: u32 = 6;

    /// Keys of one kind.
    fn keys<K: Quick>(kind: u32, length: usize, of: fn(u64) -> K) -> Vec<K> {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        (0..length as u64)
            .map(|at| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                match kind {
                    0 => of(state),
                    1 => of(state % 7),
                    2 => of(at),
                    3 => of(u64::MAX - at),
                    4 if !state.is_multiple_of(3) => of(state),
                    _ => K::MAX,
                }
            })
            .collect()
    }

    /// Keys that are split while they are made, in one piece and in several.
    fn check_made<K: Quick + std::fmt::Debug>(isa: Isa, of: fn(u64) -> K) {
        let Some(version) = K::version(isa) else { return };
        for length in [NEAR + 1, 70_007] {
            for (kind, pieces) in (0..KINDS).flat_map(|kind| [1, 2, 3, 7].map(|pieces| (kind, pieces))) {
                let keys = keys(kind, length, of);
                let make = |first: usize, to: *mut K, count: usize| {
                    // SAFETY: there is room for the keys that are asked for.
                    unsafe { to.copy_from_nonoverlapping(keys[first..][..count].as_ptr(), count) };
                };
                let (mut sorted, told) = (vec![K::MAX; length], AtomicUsize::new(0));
                let finish = |_: *mut K, count: usize| {
                    told.fetch_add(count, Ordering::Relaxed);
                };
                let to = (sorted.as_mut_ptr(), length);
                // SAFETY: the keys are this test's, and the processor has the instruction set.
                unsafe { sort_made(version, to, &make, (pieces, &Turns(pieces)), &finish) };
                let mut wanted = keys.clone();
                wanted.sort();
                let case = format!("{isa:?}, {length} keys of kind {kind}, {pieces} pieces");
                assert!(sorted == wanted, "{case}");
                assert_eq!(told.into_inner(), length, "{case}");
            }
        }
    }

    /// Parts that are split in place, apart and not at all, with keys of each kind, and with too few splits.
    fn check<K: Quick + std::fmt::Debug>(isa: Isa, of: fn(u64) -> K) {
        let Some(version) = K::version(isa) else { return };
        for length in [301, 1000, APART - 1, APART, APART + 1, 10_007] {
            for kind in 0..KINDS {
                let keys = keys(kind, length, of);
                let mut wanted = keys.clone();
                wanted.sort();
                for splits in [0, 1, 2, 3, 40] {
                    let mut sorted = keys.clone();
                    let part = Part {
                        splits,
                        ..Part::whole(sorted.as_mut_ptr(), length)
                    };
                    // SAFETY: the keys are this test's, and the processor has the instruction set.
                    unsafe { (version.sort)(part) };
                    assert!(
                        sorted == wanted,
                        "{isa:?}, {length} keys of kind {kind}, {splits} splits"
                    );
                }
            }
        }
    }

    #[test]
    fn sorts_parts_of_each_kind() {
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            check::<i32>(isa, |bits| bits as i32);
            check::<i64>(isa, |bits| bits as i64);
            check_made::<i32>(isa, |bits| bits as i32);
            check_made::<i64>(isa, |bits| bits as i64);
        }
    }
}
