//! Quicksort of integer keys by vectors.
//!
//! A part of the keys lies in one of two buffers. To split it at a pivot, its vectors are read once from front to back: keys below
//! the pivot move to the front of where the part lies, the others to the back of the same range of the other buffer. No step depends
//! on a comparison. What fits into a few registers is sorted there, on its way to the buffer of the result.

use super::vector::{Key, Vector};
use crate::isa::Isa;
use crate::parallel::Parallel;

/// Vectors that are sorted in registers.
const REGISTERS: usize = 16;
/// Keys that are worth a hand-off to another thread.
const GRAIN: usize = 1 << 14;
/// Parts for each thread, so that none waits long for the last one.
const PARTS: usize = 4;

/// A part of the keys, which nobody else touches.
#[derive(Clone, Copy)]
pub(super) struct Part<K> {
    /// Where the keys lie.
    here: *mut K,
    /// The same range of the other buffer.
    there: *mut K,
    length: usize,
    /// Whether the result belongs there.
    leaves: bool,
    /// What no key is below, if that is known.
    floor: Option<K>,
    /// Splits that are left before another algorithm takes over, which bounds the time of the worst case.
    splits: u32,
}

// SAFETY: a part has its range of both buffers alone.
unsafe impl<K: Key> Send for Part<K> {}
// SAFETY: as above.
unsafe impl<K: Key> Sync for Part<K> {}

impl<K: Key> Part<K> {
    fn to(&self) -> *mut K {
        if self.leaves { self.there } else { self.here }
    }

    /// The same keys without vectors.
    unsafe fn sort_plainly(self) {
        // SAFETY: the part has both ranges alone.
        unsafe {
            if self.leaves {
                std::ptr::copy_nonoverlapping(self.here, self.there, self.length);
            }
            std::slice::from_raw_parts_mut(self.to(), self.length).sort_unstable();
        }
    }
}

/// The functions of an instruction set.
#[derive(Clone, Copy)]
pub(super) struct Version<K> {
    sort: unsafe fn(Part<K>),
    split: unsafe fn(Part<K>) -> [Part<K>; 2],
}

/// Keys that vectors sort.
pub(super) trait Quick: Key {
    /// `None` where the instruction set has no vectors for it.
    fn version(isa: Isa) -> Option<Version<Self>>;
}

/// Sorts `length` keys; `other` is as much memory.
///
/// # Safety
/// Both are the caller's alone, and do not overlap. The processor has the instruction set.
pub(super) unsafe fn sort<K: Quick>(
    isa: Isa,
    keys: *mut K,
    other: *mut K,
    length: usize,
    parallel: &dyn Parallel,
) {
    let whole = Part {
        here: keys,
        there: other,
        length,
        leaves: false,
        floor: None,
        splits: 2 * (usize::BITS - length.leading_zeros()),
    };
    // SAFETY: the caller vouches for the memory and the processor; parts are disjoint.
    unsafe {
        let Some(version) = K::version(isa) else {
            return whole.sort_plainly();
        };
        let wanted = match parallel.threads() {
            1 => 1,
            threads => (PARTS * threads).min(length / GRAIN),
        };
        let mut parts = vec![whole];
        while parts.len() < wanted {
            let mut halves: Vec<[Part<K>; 2]> = parts.iter().map(|&part| [part; 2]).collect();
            let to = Halves(halves.as_mut_ptr());
            parallel.run(parts.len(), &|at| {
                let part = parts[at];
                let halves = if part.length > GRAIN {
                    (version.split)(part)
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
            [part] => (version.sort)(*part),
            parts => parallel.run(parts.len(), &|at| (version.sort)(parts[at])),
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
#[inline(always)]
unsafe fn sort_registers<V: Vector, const N: usize>(v: &mut [V; N]) {
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        unrolled!(AT {
            if AT < N {
                v[AT] = v[AT].sorted();
            }
        });
        merge::<V, N, 1>(v);
        merge::<V, N, 2>(v);
        merge::<V, N, 4>(v);
        merge::<V, N, 8>(v);
    }
}

/// Merges each two sorted runs of `RUN` registers.
#[inline(always)]
unsafe fn merge<V: Vector, const N: usize, const RUN: usize>(v: &mut [V; N]) {
    if RUN >= N {
        return;
    }
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        // The second run backwards makes a bitonic sequence of both.
        unrolled!(AT {
            if AT < N && (AT / RUN).is_multiple_of(2) {
                let mirror = AT ^ (2 * RUN - 1);
                let (a, b) = (v[AT], v[mirror].reversed());
                (v[AT], v[mirror]) = (a.min(b), a.max(b));
            }
        });
        exchange::<V, N, 4>(v, RUN);
        exchange::<V, N, 2>(v, RUN);
        exchange::<V, N, 1>(v, RUN);
        unrolled!(AT {
            if AT < N {
                v[AT] = v[AT].merged();
            }
        });
    }
}

/// Of each two registers `DISTANCE` apart, which a run of `run` ones has, the first takes the less keys.
#[inline(always)]
unsafe fn exchange<V: Vector, const N: usize, const DISTANCE: usize>(v: &mut [V; N], run: usize) {
    if DISTANCE >= run {
        return;
    }
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
unsafe fn sort_few<V: Vector, const N: usize>(from: *const V::Key, to: *mut V::Key, length: usize) {
    // SAFETY: the caller vouches for the memory and the instructions.
    unsafe {
        let mut v = [V::splat(V::Key::MAX); N];
        let rest = |at: usize| length.saturating_sub(at * V::LANES).min(V::LANES);
        unrolled!(AT {
            if AT < N {
                let from = from.wrapping_add(AT * V::LANES);
                v[AT] = if AT < N / 2 { V::load(from) } else { V::load_some(from, rest(AT)) };
            }
        });
        sort_registers(&mut v);
        unrolled!(AT {
            if AT < N {
                let to = to.wrapping_add(AT * V::LANES);
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
            middle.sorted().store(lanes.as_mut_ptr());
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

/// Keys below the pivot move to the front of `here`, the others to the back of `there`. Returns how many are below.
#[inline(always)]
unsafe fn split_at<V: Vector>(here: *mut V::Key, there: *mut V::Key, length: usize, pivot: V::Key) -> usize {
    let whole = length / V::LANES * V::LANES;
    // SAFETY: what is written to the front was read before, and the back has room for as many vectors as were read.
    unsafe {
        let lanes = V::splat(pivot);
        let (mut low, mut high) = (here, there.add(length));
        for at in (0..whole).step_by(V::LANES) {
            let below = V::load(here.add(at)).split(lanes, low, high);
            low = low.add(below);
            high = high.sub(V::LANES - below);
        }
        if whole < length {
            low = low.add(V::split_some(here.add(whole), length - whole, pivot, low, high));
        }
        low.offset_from_unsigned(here)
    }
}

/// Splits a part of more than [`REGISTERS`] vectors in two, of which one may be empty.
#[inline(always)]
unsafe fn split<V: Vector>(mut part: Part<V::Key>) -> [Part<V::Key>; 2] {
    // SAFETY: the caller vouches for the part and the instructions.
    unsafe {
        part.splits = part.splits.saturating_sub(1);
        let pivot = pivot::<V>(part.here, part.length);
        let mut below = 0;
        if part.floor != Some(pivot) {
            below = split_at::<V>(part.here, part.there, part.length, pivot);
            if below == 0 {
                (part.here, part.there, part.leaves) = (part.there, part.here, !part.leaves);
            }
        }
        let mut first = part;
        if below == 0 {
            // No key is below the pivot: those that equal it are in their place.
            below = part.length;
            if pivot < V::Key::MAX {
                below = split_at::<V>(part.here, part.there, part.length, pivot.next());
            }
            if part.leaves {
                std::ptr::copy_nonoverlapping(part.here, part.there, below);
            }
            first.length = 0;
        } else {
            first.length = below;
        }
        let second = Part {
            here: part.there.add(below),
            there: part.here.add(below),
            length: part.length - below,
            leaves: !part.leaves,
            floor: Some(pivot),
            ..part
        };
        [first, second]
    }
}

#[inline(always)]
unsafe fn sort_part<V: Vector>(part: Part<V::Key>, again: unsafe fn(Part<V::Key>)) {
    let (from, to, length) = (part.here, part.to(), part.length);
    // SAFETY: the caller vouches for the part and the instructions.
    unsafe {
        match length.div_ceil(V::LANES) {
            0 => {}
            1 => sort_few::<V, 1>(from, to, length),
            2 => sort_few::<V, 2>(from, to, length),
            3..=4 => sort_few::<V, 4>(from, to, length),
            5..=8 => sort_few::<V, 8>(from, to, length),
            9..=REGISTERS => sort_few::<V, REGISTERS>(from, to, length),
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
        Version { sort, split: halves }
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
