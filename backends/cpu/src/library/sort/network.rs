//! Keys in registers, sorted by networks of comparisons.

use super::vector::{Key, Vector};

macro_rules! unrolled {
    ($at:ident $body:block) => { unrolled!(@ $at $body 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15) };
    (@ $at:ident $body:block $($n:literal)*) => { $({ const $at: usize = $n; $body })* };
}

/// Sorts registers, whose keys then rise from lane to lane and from register to register.
///
/// A lane of all registers is a column. Columns are sorted, then merged two by two, and at last made rows.
#[inline(always)]
pub(super) unsafe fn sort_registers<V: Vector, const N: usize>(v: &mut [V; N]) {
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
pub(super) unsafe fn sort_few<V: Vector, const N: usize>(keys: *mut V::Key, length: usize) {
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
