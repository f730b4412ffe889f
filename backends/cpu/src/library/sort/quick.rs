//! Quicksort of integer keys by vectors, in place.
//!
//! A long part is split at a pivot again and again, on several threads if there are any; `split.rs` does that with vectors.

#[cfg(target_arch = "x86_64")]
use super::split;
use super::vector::Key;
use crate::isa::Isa;
use crate::parallel::Parallel;

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

    /// Parts that are split in place, apart and not at all, with keys of each kind, and with too few splits.
    fn check<K: Quick + std::fmt::Debug>(isa: Isa, of: fn(u64) -> K) {
        let Some(version) = K::version(isa) else { return };
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        for length in [301, 1000, APART - 1, APART, APART + 1, 10_007] {
            for kind in 0..6 {
                let keys: Vec<K> = (0..length as u64)
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
                    .collect();
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
        }
    }
}
