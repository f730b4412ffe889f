//! Keys in registers, sorted by networks of comparisons.

use super::plan::{At, Planned};
use super::vector::{Key, Vector};

macro_rules! unrolled {
    ($at:ident $body:block) => { unrolled!(@ $at $body 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15) };
    (@ $at:ident $body:block $($n:literal)*) => { $({ const $at: usize = $n; $body })* };
}

/// Sorts registers, whose keys then rise from lane to lane and from register to register.
///
/// A lane of all registers is a column. Columns are sorted, then merged two by two.
#[inline(always)]
pub(super) unsafe fn sort_registers<V: Vector, const N: usize>(v: &mut [V; N]) {
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        sort_columns(v);
        if const { N < 4 } {
            merge_few(v);
            return;
        }
        macro_rules! steps {
            ($($at:literal)*) => { $(
                if const { At::<V, N, $at>::IS_THERE } {
                    step::<V, N, $at>(v);
                }
            )* };
        }
        steps!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37
            38 39 40 41 42 43 44 45 46 47);
        let last = *v;
        unrolled!(AT {
            if const { AT < N } {
                v[AT] = last[const { Planned::<V, N>::register(AT % N) }];
            }
        });
    }
}

/// A step of the merges of columns.
#[inline(always)]
unsafe fn step<V: Vector, const N: usize, const STEP: usize>(v: &mut [V; N]) {
    unrolled!(NUMBER {
        if const { NUMBER < N && NUMBER >> At::<V, N, STEP>::STEP.slot & 1 == 0 } {
            let other = const { (NUMBER ^ At::<V, N, STEP>::STEP.partner) % N };
            let (a, b) = (v[NUMBER], v[other]);
            // SAFETY: the caller vouches for the instructions.
            unsafe {
                // Conditions, not a `match`: what they rule out is not compiled.
                if const { At::<V, N, STEP>::COMPARES } {
                    [v[NUMBER], v[other]] = a.ordered(b);
                } else if const { At::<V, N, STEP>::STEP.turns_back(NUMBER) } {
                    [v[other], v[NUMBER]] = a.swapped::<At<V, N, STEP>>(b);
                } else {
                    [v[NUMBER], v[other]] = a.swapped::<At<V, N, STEP>>(b);
                }
            }
        }
    });
}

/// Merges columns of one or two registers, and makes rows of them.
#[inline(always)]
unsafe fn merge_few<V: Vector, const N: usize>(v: &mut [V; N]) {
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        merge::<V, N, 1>(v);
        merge::<V, N, 2>(v);
        merge::<V, N, 4>(v);
        merge::<V, N, 8>(v);
        if N == 2 {
            [v[0], v[N - 1]] = v[0].interleaved(v[N - 1]);
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
                    [v[$a], v[$b]] = v[$a].ordered(v[$b]);
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
        if N == 2 {
            let (a, b) = (v[0], v[N - 1]);
            (v[0], v[N - 1]) = (a.exchange::<true, COLUMNS>(b), b.exchange::<true, COLUMNS>(a));
        }
        across::<V, N, 4>(v, COLUMNS);
        across::<V, N, 2>(v, COLUMNS);
        across::<V, N, 1>(v, COLUMNS);
        if N == 2 {
            [v[0], v[N - 1]] = v[0].ordered(v[N - 1]);
        }
    }
}

/// Of each two columns `DISTANCE` apart, which a run of `run` ones has, the first takes the less keys.
#[inline(always)]
unsafe fn across<V: Vector, const N: usize, const DISTANCE: usize>(v: &mut [V; N], run: usize) {
    if DISTANCE >= run {
        return;
    }
    for v in v {
        // SAFETY: the caller vouches for the instructions.
        *v = unsafe { v.exchange::<false, DISTANCE>(*v) };
    }
}

/// Sorts more keys than `N / 2` vectors have, and not more than `N` have, from one place to another.
#[inline(always)]
pub(super) unsafe fn sort_few<V: Vector, const N: usize>(
    from: *const V::Key,
    to: *mut V::Key,
    length: usize,
) {
    // SAFETY: the caller vouches for the memory and the instructions.
    unsafe {
        let mut v = [V::splat(V::Key::MAX); N];
        let rest = |at: usize| length as isize - (at * V::LANES) as isize;
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

#[cfg(test)]
mod tests {
    use crate::isa::Isa;
    use crate::library::sort::quick::{self, Quick};
    use crate::parallel::Serial;

    /// Every number of registers, full and not, of many values and of two.
    fn check<K: Quick + std::fmt::Debug>(isa: Isa, of: fn(u64) -> K) {
        let Some(version) = K::version(isa) else { return };
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for length in 1..=300 {
            for bits in [1, 64] {
                let mut keys: Vec<K> = (0..length).map(|_| of(next() >> (64 - bits))).collect();
                let mut wanted = keys.clone();
                wanted.sort();
                // SAFETY: the keys are this test's, and the processor has the instruction set.
                unsafe { quick::sort(version, keys.as_mut_ptr(), length, &Serial, &|_, _| {}) };
                assert_eq!(keys, wanted, "{isa:?}, {length} keys of {bits} bits");
            }
        }
    }

    #[test]
    fn sorts_each_number_of_keys() {
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            check::<i32>(isa, |bits| bits as i32);
            check::<i64>(isa, |bits| bits as i64);
        }
    }
}
