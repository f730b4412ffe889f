//! Micro-kernels on planes: sums over taps for a tile of the result, and dot products along planes.

use super::beside::{self, Beside, BesideArgs};
use super::lines::{self, Lines, LinesArgs};
use super::points::Points;
use super::steps::{PLACES, StepArgs, StepFn, steps};
use crate::library::gemm::{Lanes, Vector};

/// An accumulator as a number.
pub(super) trait Scalar: Copy + Send + Sync + 'static {
    fn plus(self, other: Self) -> Self;
}

macro_rules! scalars {
    ($($t:ty, |$a:ident, $b:ident| $sum:expr;)*) => {$(
        impl Scalar for $t {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                let ($a, $b) = (self, other);
                $sum
            }
        }
    )*};
}
scalars! {
    f32, |a, b| a + b;
    f64, |a, b| a + b;
    i32, |a, b| a.wrapping_add(b);
    i64, |a, b| a.wrapping_add(b);
}

/// Most elements of a tile.
pub(super) const TILE: usize = 14 * 32;

/// Terms of a group, after which a kernel asks the memory for what is needed later.
pub(super) const ASK_TERMS: usize = 4;
/// Lines that a group asks for to be written, and bytes of weights.
pub(super) const ASK_LINES: usize = 2;
pub(super) const ASK_BYTES: usize = 128;

/// What machine code asks the memory for meanwhile, some with each group of terms: in a burst it would stall the sums. Kernels of the
/// compiler ask for nothing.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Ahead {
    /// Addresses of lines that will be written: `ASK_LINES` for each whole group, from the last group to the first, and before them as
    /// many times 4 bytes as there are terms in no group.
    pub(super) lines: *const *const u8,
    /// Weights, for registers that run along rows of the result; they need not exist.
    pub(super) weights: *const u8,
    /// Terms at the end of the sums with which nothing is asked for: requests for what is near slow the tiles of AVX2 by a twentieth.
    pub(super) quiet: usize,
}

/// `out[i, j] (+)= sum over l of a[l, i] * x[offsets[l] + j]`, with rows of `out` one tile width apart.
#[repr(C)]
pub(super) struct TapArgs<S> {
    /// Goes on with the sums in `out`.
    pub(super) accumulate: bool,
    /// How many numbers are spread over registers; kernels of one height do not read it.
    pub(super) count: usize,
    pub(super) a: *const S,
    pub(super) offsets: *const u32,
    pub(super) terms: usize,
    pub(super) x: *const S,
    pub(super) out: *mut S,
    pub(super) ahead: Ahead,
}

pub(super) type TapFn<S> = unsafe extern "C" fn(&TapArgs<S>);

/// `out[i, l] = sum over j of y[i, j] * x[offsets[l] + j]` for `DOTS` offsets, row after row.
#[repr(C)]
pub(super) struct DotArgs<S> {
    pub(super) y: *const S,
    /// Elements from one row of y to the next.
    pub(super) y_row: usize,
    pub(super) x: *const S,
    pub(super) offsets: *const u32,
    /// Whole registers along j.
    pub(super) registers: usize,
    pub(super) out: *mut S,
}

pub(super) type DotFn<S> = unsafe fn(&DotArgs<S>);

/// `sums[i, k] += sum over positions of y[position] * x[offsets[i] + k + place]`: outer products of one register with the elements
/// that lines of taps meet.
#[repr(C)]
pub(super) struct OuterArgs<S> {
    /// A register for each position, in order.
    pub(super) y: *const S,
    /// What tap 0 of a line of offset 0 meets at position 0.
    pub(super) x: *const S,
    pub(super) offsets: *const u32,
    /// Lines whose sums are wanted, at least one. Offsets are there for all lines that the kernel takes, and what these meet is readable.
    pub(super) used: usize,
    /// Taps of a line; kernels of one number do not read it.
    pub(super) taps: usize,
    /// Positions: lines and their length, neither 0.
    pub(super) high: usize,
    pub(super) wide: usize,
    /// Elements of x from one position to the next, not 0, and from one line of positions to the next.
    pub(super) step: usize,
    pub(super) line: usize,
    pub(super) sums: *mut S,
    /// Accumulators of `sums` from one line of taps to the next.
    pub(super) pitch: usize,
}

pub(super) type OuterFn<S> = unsafe extern "C" fn(&OuterArgs<S>);

pub(super) type Outer<S> = (usize, &'static [usize], &'static [OuterFn<S>]);

/// Most lines of taps of an [`OuterFn`].
pub(super) const OUTER_LINES: usize = 12;

/// Neighbours of a tile's row that are neighbours in the result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// First column of the tile.
    pub(super) column: usize,
    pub(super) count: usize,
    /// Elements from the block's first one in the result.
    pub(super) at: isize,
    /// Elements from `at` on that may be overwritten: those of the run, and those that are written after it.
    pub(super) room: usize,
}

/// Writes the runs of each row of a tile to a result whose neighbours are one element apart.
#[repr(C)]
pub(super) struct PutArgs<'a, S> {
    pub(super) tile: *const S,
    pub(super) width: usize,
    pub(super) rows: usize,
    pub(super) dst: *mut S,
    /// From one line of the tile to the next.
    pub(super) dst_row: isize,
    pub(super) runs: &'a [Run],
}

pub(super) type PutFn<S> = unsafe fn(&PutArgs<'_, S>);

/// Columns of a tile of dot products.
pub(super) const DOTS: usize = 5;

/// The kernels of one accumulator type on one instruction set.
#[derive(Clone, Copy)]
pub(super) struct Tiles<S: 'static> {
    /// Width of a tile of few rows, and kernels of height `index + 1`.
    pub(super) wide: (usize, &'static [TapFn<S>]),
    /// Width of a tile of more rows, and kernels of height `index + 1`.
    pub(super) high: (usize, &'static [TapFn<S>]),
    /// Rows of a tile whose registers run along them, one register and two, and kernels for `index + 1` positions.
    pub(super) rows: [(usize, &'static [TapFn<S>]); 2],
    /// The same for an operand whose channels are neighbours, and kernels for two panels of the wider ones, where there are registers
    /// for their sums.
    pub(super) steps: [&'static [StepFn<S>]; 3],
    /// The same for places at equal distances.
    pub(super) points: Points,
    /// Lanes of a sum, which every instruction set has, and kernels of height `index + 1`.
    pub(super) dots: (usize, &'static [DotFn<S>]),
    /// With narrow and with wide registers: lanes, and for `index + 1` taps of a line, how many lines a kernel takes, and the kernels.
    pub(super) outer: [Outer<S>; 2],
    pub(super) put: PutFn<S>,
    /// Where the neighbours of the result are rows: lines of the tile are positions, `rows` elements each.
    pub(super) put_beside: PutFn<S>,
    /// Kernels of one channel with narrow and with wide registers.
    pub(super) lines: [Lines<S>; 2],
    /// Of channels side by side, each by itself.
    pub(super) beside: Beside<S>,
}

/// Numbers that a kernel of the compiler spreads at once.
const GROUP: usize = 4;

/// A kernel of the compiler, for any count: where there is no machine code of our own. Registers run along x, and weights are spread; or
/// they run along the weights, `out[j, i] (+)= sum over l of a[l, i] * x[offsets[l] + j]`.
#[inline(always)]
pub(super) unsafe fn taps<V: Vector, const NV: usize, const ROWS: bool>(t: &TapArgs<V::Lane>) {
    let mut first = 0;
    // SAFETY: the caller's contract.
    unsafe {
        while first + GROUP <= t.count {
            some_taps::<V, GROUP, NV, ROWS>(t, first);
            first += GROUP;
        }
        while first < t.count {
            some_taps::<V, 1, NV, ROWS>(t, first);
            first += 1;
        }
    }
}

#[inline(always)]
unsafe fn some_taps<V: Vector, const MR: usize, const NV: usize, const ROWS: bool>(
    t: &TapArgs<V::Lane>,
    first: usize,
) {
    // SAFETY: the caller vouches for `terms` rows of A and offsets, for a tile's width behind each, and the instruction set.
    unsafe {
        let out = t.out.add(first * NV * V::LANES);
        let mut sums = [[V::zero(); NV]; MR];
        if t.accumulate {
            for (i, row) in sums.iter_mut().enumerate() {
                for (j, sum) in row.iter_mut().enumerate() {
                    *sum = V::load(out.add((i * NV + j) * V::LANES));
                }
            }
        }
        for l in 0..t.terms {
            let x = t.x.add(*t.offsets.add(l) as usize);
            let (vectors, factors) = if ROWS {
                (t.a.add(l * NV * V::LANES), x)
            } else {
                (x, t.a.add(l * t.count))
            };
            let mut columns = [V::zero(); NV];
            for (j, column) in columns.iter_mut().enumerate() {
                *column = V::load(vectors.add(j * V::LANES));
            }
            for (i, row) in sums.iter_mut().enumerate() {
                let factor = V::splat(factors.add(first + i));
                for (sum, &column) in row.iter_mut().zip(&columns) {
                    *sum = sum.mul_add(factor, column);
                }
            }
        }
        for (i, row) in sums.iter().enumerate() {
            for (j, sum) in row.iter().enumerate() {
                sum.store(out.add((i * NV + j) * V::LANES));
            }
        }
    }
}

#[inline(always)]
unsafe fn put<V: Vector>(t: &PutArgs<'_, V::Lane>) {
    for i in 0..t.rows {
        for run in t.runs {
            // SAFETY: the caller vouches for the runs' columns and a register of slack behind the tile, and for the room.
            unsafe {
                let src = t.tile.add(i * t.width + run.column);
                let dst = t.dst.offset(i as isize * t.dst_row + run.at);
                let whole = if run.count.next_multiple_of(V::LANES) <= run.room {
                    run.count
                } else {
                    run.count / V::LANES * V::LANES
                };
                for k in (0..whole).step_by(V::LANES) {
                    V::load(src.add(k)).store(dst.add(k));
                }
                for k in whole..run.count {
                    dst.add(k).write(*src.add(k));
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn put_beside<V: Vector>(t: &PutArgs<'_, V::Lane>) {
    for run in t.runs {
        for i in 0..run.count {
            // SAFETY: the caller vouches for the rows of the runs' columns, and for as many in the result.
            unsafe {
                let src = t.tile.add((run.column + i) * t.width);
                let dst = t.dst.offset(run.at + i as isize * t.dst_row);
                let last = t.rows.saturating_sub(V::LANES);
                for k in (0..t.rows / V::LANES * V::LANES).step_by(V::LANES) {
                    V::load(src.add(k)).store(dst.add(k));
                }
                if t.rows > V::LANES {
                    V::load(src.add(last)).store(dst.add(last));
                    continue;
                }
                for k in t.rows / V::LANES * V::LANES..t.rows {
                    dst.add(k).write(*src.add(k));
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn dots<V: Vector<Lane: Scalar>, const MR: usize>(t: &DotArgs<V::Lane>) {
    // SAFETY: the caller vouches for `registers` registers behind each row and offset, and the instruction set.
    unsafe {
        let mut sums = [[V::zero(); DOTS]; MR];
        let mut columns = [t.x; DOTS];
        for (l, column) in columns.iter_mut().enumerate() {
            *column = column.add(*t.offsets.add(l) as usize);
        }
        for step in 0..t.registers {
            let at = step * V::LANES;
            let mut rows = [V::zero(); MR];
            for (i, row) in rows.iter_mut().enumerate() {
                *row = V::load(t.y.add(i * t.y_row + at));
            }
            for (l, column) in columns.iter().enumerate() {
                let x = V::load(column.add(at));
                for (sums, &row) in sums.iter_mut().zip(&rows) {
                    sums[l] = sums[l].mul_add(row, x);
                }
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            for (l, sum) in sums.iter().enumerate() {
                let mut lanes = [*t.y; 16];
                sum.store(lanes.as_mut_ptr());
                let mut half = V::LANES / 2;
                while half > 0 {
                    for lane in 0..half {
                        lanes[lane] = lanes[lane].plus(lanes[lane + half]);
                    }
                    half /= 2;
                }
                t.out.add(i * DOTS + l).write(lanes[0]);
            }
        }
    }
}

/// A kernel of the compiler, for any lines and taps.
#[inline(always)]
unsafe fn outer<V: Vector>(t: &OuterArgs<V::Lane>) {
    // SAFETY: the caller's contract.
    unsafe {
        for tap in 0..t.taps {
            let mut line = 0;
            while line + GROUP <= t.used {
                some_outer::<V, GROUP>(t, line, tap);
                line += GROUP;
            }
            while line < t.used {
                some_outer::<V, 1>(t, line, tap);
                line += 1;
            }
        }
    }
}

#[inline(always)]
unsafe fn some_outer<V: Vector, const LINES: usize>(t: &OuterArgs<V::Lane>, first: usize, tap: usize) {
    // SAFETY: the caller vouches for a register of y at each position, for the elements that the lines meet, for the sums of the
    // lines in use, and the instruction set.
    unsafe {
        let mut sums = [V::zero(); LINES];
        let mut lines = [t.x; LINES];
        for (i, line) in lines.iter_mut().enumerate() {
            *line = line.add(*t.offsets.add(first + i) as usize + tap);
        }
        let mut y = t.y;
        for _ in 0..t.high {
            let mut at = 0;
            for _ in 0..t.wide {
                let row = V::load(y);
                for (sum, line) in sums.iter_mut().zip(&lines) {
                    *sum = sum.mul_add(row, V::splat(line.add(at)));
                }
                y = y.add(V::LANES);
                at += t.step;
            }
            for line in &mut lines {
                *line = line.wrapping_add(t.line);
            }
        }
        for (i, &sum) in sums.iter().enumerate() {
            let to = t.sums.add((first + i) * t.pitch + tap * V::LANES);
            V::load(to).add(sum).store(to);
        }
    }
}

macro_rules! tiles {
    ($name:ident, $word:ty, $vector:ty, $(#[$feature:meta],)? wide $wide:literal, high $high:literal, dots $across:ty [$($dots:literal)*], outer [$($lines:literal)*], narrow $narrow:ty) => {
        pub(in crate::library::conv) const $name: Tiles<$word> = {
            type Lane = <$vector as Vector>::Lane;
            $(#[$feature])?
            unsafe extern "C" fn tap<const NV: usize, const ROWS: bool>(t: &TapArgs<$word>) {
                // SAFETY: same contract; lanes have the size of words.
                unsafe { taps::<$vector, NV, ROWS>(&*std::ptr::from_ref(t).cast::<TapArgs<Lane>>()) }
            }
            $(#[$feature])?
            unsafe extern "C" fn step<const NV: usize>(t: &mut StepArgs<$word>) {
                // SAFETY: same contract; lanes have the size of words.
                unsafe { steps::<$vector, NV>(&mut *std::ptr::from_mut(t).cast::<StepArgs<Lane>>()) }
            }
            $(#[$feature])?
            unsafe fn dot<const MR: usize>(t: &DotArgs<$word>) {
                // SAFETY: same contract; lanes have the size of words.
                unsafe { dots::<$across, MR>(&*std::ptr::from_ref(t).cast::<DotArgs<Lane>>()) }
            }
            $(#[$feature])?
            unsafe extern "C" fn outer_products<V: Vector>(t: &OuterArgs<$word>) {
                // SAFETY: same contract; lanes have the size of words.
                unsafe { outer::<V>(&*std::ptr::from_ref(t).cast::<OuterArgs<V::Lane>>()) }
            }
            $(#[$feature])?
            unsafe fn put_rows(t: &PutArgs<'_, $word>) {
                // SAFETY: same contract; lanes have the size of words.
                unsafe { put::<$vector>(&*std::ptr::from_ref(t).cast::<PutArgs<'_, Lane>>()) }
            }
            $(#[$feature])?
            unsafe fn put_rows_beside(t: &PutArgs<'_, $word>) {
                // SAFETY: same contract; lanes have the size of words.
                unsafe { put_beside::<$vector>(&*std::ptr::from_ref(t).cast::<PutArgs<'_, Lane>>()) }
            }
            $(#[$feature])?
            unsafe fn of_beside(t: &BesideArgs<$word>) {
                // SAFETY: same contract; lanes have the size of words.
                unsafe { beside::beside::<$vector>(&*std::ptr::from_ref(t).cast::<BesideArgs<Lane>>()) }
            }
            $(#[$feature])?
            unsafe extern "C" fn of_lines<V: Vector>(t: &LinesArgs<$word>) {
                // SAFETY: same contract; lanes have the size of words.
                unsafe { lines::lines::<V>(&*std::ptr::from_ref(t).cast::<LinesArgs<V::Lane>>()) }
            }
            const fn lines<V: Vector>() -> Lines<$word> {
                Lines {
                    lanes: V::LANES,
                    compiled: of_lines::<V>,
                    code: None,
                }
            }
            const LANES: usize = <$vector as Vector>::LANES;
            Tiles {
                put: put_rows,
                put_beside: put_rows_beside,
                lines: [lines::<$narrow>(), lines::<$vector>()],
                beside: Beside {
                    lanes: LANES,
                    compiled: of_beside,
                    code: None,
                },
                wide: (LANES * 4, &[tap::<4, false> as TapFn<$word>; $wide]),
                high: (LANES * 2, &[tap::<2, false> as TapFn<$word>; $high]),
                rows: [
                    (LANES, &[tap::<1, true> as TapFn<$word>; $high]),
                    (LANES * 2, &[tap::<2, true> as TapFn<$word>; $high]),
                ],
                steps: [
                    &[step::<1> as StepFn<$word>; PLACES],
                    &[step::<2> as StepFn<$word>; PLACES],
                    &[],
                ],
                points: Points(None),
                dots: (<$across as Vector>::LANES, &[$(dot::<$dots>),*]),
                outer: [
                    (
                        <$narrow as Vector>::LANES,
                        &[$($lines),*],
                        &[outer_products::<$narrow> as OuterFn<$word>; [$($lines),*].len()],
                    ),
                    (
                        LANES,
                        &[$($lines),*],
                        &[outer_products::<$vector> as OuterFn<$word>; [$($lines),*].len()],
                    ),
                ],
            }
        };
    };
}

tiles!(F32_PLAIN, u32, Lanes<f32, 4>, wide 2, high 6, dots Lanes<f32, 16> [1], outer [8 6 4 3 2], narrow Lanes<f32, 4>);
tiles!(F64_PLAIN, u64, Lanes<f64, 2>, wide 2, high 6, dots Lanes<f64, 8> [1], outer [8 6 4 3 2], narrow Lanes<f64, 2>);
tiles!(I32_PLAIN, u32, Lanes<i32, 4>, wide 2, high 4, dots Lanes<i32, 4> [1 2], outer [8 6 4 3 2], narrow Lanes<i32, 4>);
tiles!(I64_PLAIN, u64, Lanes<i64, 2>, wide 2, high 4, dots Lanes<i64, 2> [1 2], outer [8 6 4 3 2], narrow Lanes<i64, 2>);

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use super::{
        Beside, BesideArgs, DotArgs, Lines, LinesArgs, OuterArgs, OuterFn, PLACES, Points, PutArgs, StepArgs,
        StepFn, TapArgs, TapFn, Tiles, Vector, beside, dots, lines, outer, put, put_beside, steps, taps,
    };
    use crate::library::gemm::{F32x8, F32x16, F64x4, F64x8, I32x8, I32x16, I64x8, Pair};

    macro_rules! avx512 {
        ($name:ident, $word:ty, $vector:ty, $narrow:ty) => {
            tiles!($name, $word, $vector, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")],
                wide 4, high 14, dots $vector [1 2 3 4 5],
                outer [12 12 9 7 5 4 4], narrow $narrow);
        };
    }
    macro_rules! avx2 {
        ($name:ident, $word:ty, $vector:ty) => {
            tiles!($name, $word, $vector, #[target_feature(enable = "avx2,fma")],
                wide 2, high 6, dots Pair<$vector> [1], outer [8 6 4 3 2], narrow $vector);
        };
    }
    avx512!(F32_AVX512, u32, F32x16, F32x8);
    avx512!(F64_AVX512, u64, F64x8, F64x4);
    avx512!(I32_AVX512, u32, I32x16, I32x8);
    avx512!(I64_AVX512, u64, I64x8, I64x8);
    avx2!(F32_AVX2, u32, F32x8);
    avx2!(F64_AVX2, u64, F64x4);
    avx2!(I32_AVX2, u32, I32x8);
}
