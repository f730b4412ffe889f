//! Lines of f32 that are reduced element by element, each of them anywhere in memory: the places of windows whose neighbours lie
//! next to each other. There are at most [`super::CHUNK`] lines, so that sums have one chunk.

use super::super::num::Num;
use super::{LANES, start};
use crate::isa::{Isa, versions};

/// Elements that stay in registers.
const STRIP: usize = 32;
/// The same of sums, which have many lanes.
const STRIP_OF_SUMS: usize = 16;

versions!(
    /// Sets `n` elements to the reductions of `count` lines, whose addresses are at `lines`.
    LineFold, pick_line_fold, LineFn(n: usize, to: *mut f32, lines: *const *const f32, count: usize)
);

struct Sums;
/// As those of [`super::Greatest`].
struct Bests<const MAX: bool>;

/// Of sums.
pub(super) fn sums(isa: Isa) -> LineFn {
    pick_line_fold::<Sums>(isa)
}

/// Of the greatest or least.
pub(super) fn bests<const MAX: bool>(isa: Isa) -> LineFn {
    #[cfg(target_arch = "x86_64")]
    match isa {
        Isa::Avx512 => return x86::bests::<MAX>,
        Isa::Avx2 => return x86::narrow_bests::<MAX>,
        Isa::Baseline => {}
    }
    pick_line_fold::<Bests<MAX>>(isa)
}

/// A reduction of lines of `S` elements.
trait Strip {
    /// # Safety
    /// The lines have as many elements from `first` on, and there is one at least.
    unsafe fn of<const S: usize>(lines: &[*const f32], first: usize) -> [f32; S];
}

/// Strip after strip; the last ones overlap, and what is shorter than one goes element by element.
///
/// # Safety
/// As [`LineFold::run`].
#[inline(always)]
unsafe fn strips<F: Strip, const S: usize>(n: usize, to: *mut f32, lines: &[*const f32]) {
    // SAFETY: the caller's promise.
    unsafe {
        if n < S {
            for first in 0..n {
                *to.add(first) = F::of::<1>(lines, first)[0];
            }
            return;
        }
        for first in (0..n).step_by(S) {
            let first = first.min(n - S);
            to.add(first)
                .cast::<[f32; S]>()
                .write_unaligned(F::of::<S>(lines, first));
        }
    }
}

/// # Safety
/// The line has as many elements from `first` on.
#[inline(always)]
unsafe fn read<const S: usize>(line: *const f32, first: usize) -> [f32; S] {
    // SAFETY: the caller's promise.
    unsafe { line.add(first).cast::<[f32; S]>().read_unaligned() }
}

/// Sums in `L` lanes at most.
struct Lanes<const L: usize>;

/// The lanes from `HALF` on join those before.
#[expect(
    clippy::needless_range_loop,
    reason = "lanes that are borrowed apart leave their registers"
)]
#[inline(always)]
fn join<const S: usize, const L: usize, const HALF: usize>(lanes: &mut [[f32; S]; L]) {
    for l in HALF..L.min(2 * HALF) {
        for i in 0..S {
            lanes[l - HALF][i] += lanes[l][i];
        }
    }
}

impl<const L: usize> Strip for Lanes<L> {
    #[inline(always)]
    unsafe fn of<const S: usize>(lines: &[*const f32], first: usize) -> [f32; S] {
        let mut lanes = [[0.0; S]; L];
        for (lane, &line) in lanes.iter_mut().zip(lines) {
            // SAFETY: the caller's promise.
            let x = unsafe { read::<S>(line, first) };
            for i in 0..S {
                lane[i] = 0.0 + x[i];
            }
        }
        if L == LANES {
            for lines in lines.chunks(LANES).skip(1) {
                for (lane, &line) in lanes.iter_mut().zip(lines) {
                    // SAFETY: the caller's promise.
                    let x = unsafe { read::<S>(line, first) };
                    for i in 0..S {
                        lane[i] += x[i];
                    }
                }
            }
        }
        // A lane without a line adds 0, which changes no sum: none is -0.
        join::<S, L, 8>(&mut lanes);
        join::<S, L, 4>(&mut lanes);
        join::<S, L, 2>(&mut lanes);
        join::<S, L, 1>(&mut lanes);
        lanes[0]
    }
}

impl LineFold for Sums {
    #[inline(always)]
    unsafe fn run(n: usize, to: *mut f32, lines: *const *const f32, count: usize) {
        // SAFETY: the caller passes so many lines of n elements, one at least.
        unsafe {
            let lines = std::slice::from_raw_parts(lines, count);
            match *lines {
                // Of numbers that the compiler knows.
                [a, b, c, d] => strips::<Lanes<4>, STRIP_OF_SUMS>(n, to, &[a, b, c, d]),
                [a, b, c, d, e, f, g, h, i] => {
                    strips::<Lanes<9>, STRIP_OF_SUMS>(n, to, &[a, b, c, d, e, f, g, h, i]);
                }
                _ => strips::<Lanes<LANES>, STRIP_OF_SUMS>(n, to, lines),
            }
        }
    }
}

impl<const MAX: bool> Strip for Bests<MAX> {
    #[inline(always)]
    unsafe fn of<const S: usize>(lines: &[*const f32], first: usize) -> [f32; S] {
        let mut best = [start::<f32, MAX>() as i32; S];
        // The greatest size says whether there is a value that is no number.
        let mut size = [0_i32; S];
        for &line in lines {
            // SAFETY: the caller's promise.
            let x = unsafe { read::<S>(line, first) };
            for i in 0..S {
                let bits = x[i].to_bits() as i32;
                let order = bits ^ (bits >> 31 & i32::MAX);
                let key = if MAX { order } else { !order };
                best[i] = if key > best[i] { key } else { best[i] };
                let magnitude = bits & i32::MAX;
                size[i] = if magnitude > size[i] { magnitude } else { size[i] };
            }
        }
        let infinite = f32::INFINITY.to_bits() as i32;
        let mut values = [0.0; S];
        for i in 0..S {
            let key = if size[i] > infinite { i32::MAX } else { best[i] };
            values[i] = f32::from_key(if MAX { key } else { !key });
        }
        values
    }
}

impl<const MAX: bool> LineFold for Bests<MAX> {
    const WIDEST: Isa = Isa::Baseline;

    #[inline(always)]
    unsafe fn run(n: usize, to: *mut f32, lines: *const *const f32, count: usize) {
        // SAFETY: the caller passes so many lines of n elements.
        unsafe { strips::<Bests<MAX>, STRIP>(n, to, std::slice::from_raw_parts(lines, count)) }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Bests, Num, Strip};
    use std::arch::x86_64::{
        __m256, __m512, __mmask16, _CMP_UNORD_Q, _mm256_and_ps, _mm256_blendv_ps, _mm256_cmp_ps,
        _mm256_loadu_ps, _mm256_max_ps, _mm256_min_ps, _mm256_or_ps, _mm256_set1_ps, _mm256_storeu_ps,
        _mm512_cmp_ps_mask, _mm512_mask_mov_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps,
        _mm512_range_ps, _mm512_set1_ps,
    };

    const LANES: usize = 16;

    /// # Safety
    /// AVX-512 F and DQ exist; as [`super::LineFold::run`].
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(super) unsafe fn bests<const MAX: bool>(
        n: usize,
        to: *mut f32,
        lines: *const *const f32,
        count: usize,
    ) {
        // SAFETY: the caller passes so many lines of n elements; masks end with them.
        unsafe {
            let lines = std::slice::from_raw_parts(lines, count);
            let mut first = 0;
            while n - first >= 4 * LANES {
                strip::<4, MAX>(to, lines, first, !0);
                first += 4 * LANES;
            }
            while first < n {
                let rest = (n - first).min(LANES);
                strip::<1, MAX>(to, lines, first, ((1_u32 << rest) - 1) as __mmask16);
                first += rest;
            }
        }
    }

    /// The greater is +0 of two zeros, the lesser -0.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn better<const MAX: bool>(a: __m512, b: __m512) -> __m512 {
        match MAX {
            true => _mm512_range_ps::<0b0101>(a, b),
            false => _mm512_range_ps::<0b0100>(a, b),
        }
    }

    /// # Safety
    /// As [`bests`]; the lines have the elements of the mask.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn strip<const V: usize, const MAX: bool>(
        to: *mut f32,
        lines: &[*const f32],
        first: usize,
        mask: __mmask16,
    ) {
        let [start, rest @ ..] = lines else { return };
        // SAFETY: the caller's promise.
        unsafe {
            let load = |line: *const f32, v: usize| _mm512_maskz_loadu_ps(mask, line.add(first + v * LANES));
            let mut best: [__m512; V] = std::array::from_fn(|v| load(*start, v));
            let mut none: [__mmask16; V] =
                std::array::from_fn(|v| _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(best[v], best[v]));
            let (pairs, last) = rest.as_chunks::<2>();
            for &[a, b] in pairs {
                for v in 0..V {
                    let (a, b) = (load(a, v), load(b, v));
                    best[v] = better::<MAX>(best[v], better::<MAX>(a, b));
                    none[v] |= _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, b);
                }
            }
            for &a in last {
                for v in 0..V {
                    let a = load(a, v);
                    best[v] = better::<MAX>(best[v], a);
                    none[v] |= _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a);
                }
            }
            let no_number = _mm512_set1_ps(f32::from_key(if MAX { i32::MAX } else { i32::MIN }));
            for v in 0..V {
                let value = _mm512_mask_mov_ps(best[v], none[v], no_number);
                _mm512_mask_storeu_ps(to.add(first + v * LANES), mask, value);
            }
        }
    }

    const NARROW: usize = 8;

    /// Strip after strip; the last ones overlap, and what is shorter than one goes element by element.
    ///
    /// # Safety
    /// AVX2 exists; as [`super::LineFold::run`].
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn narrow_bests<const MAX: bool>(
        n: usize,
        to: *mut f32,
        lines: *const *const f32,
        count: usize,
    ) {
        // SAFETY: the caller passes so many lines of n elements, and strips end with them.
        unsafe {
            let lines = std::slice::from_raw_parts(lines, count);
            if n < NARROW {
                for first in 0..n {
                    *to.add(first) = Bests::<MAX>::of::<1>(lines, first)[0];
                }
                return;
            }
            let mut first = 0;
            while n - first >= 4 * NARROW {
                narrow_strip::<4, MAX>(to, lines, first);
                first += 4 * NARROW;
            }
            while first < n {
                narrow_strip::<1, MAX>(to, lines, first.min(n - NARROW));
                first += NARROW;
            }
        }
    }

    /// The greater is +0 of two zeros, the lesser -0. An instruction returns its second operand of two zeros, and anything where one is no
    /// number.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn narrow_better<const MAX: bool>(a: __m256, b: __m256) -> __m256 {
        match MAX {
            true => _mm256_and_ps(_mm256_max_ps(a, b), _mm256_max_ps(b, a)),
            false => _mm256_or_ps(_mm256_min_ps(a, b), _mm256_min_ps(b, a)),
        }
    }

    /// # Safety
    /// As [`narrow_bests`]; the lines have the elements of the strip.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn narrow_strip<const V: usize, const MAX: bool>(
        to: *mut f32,
        lines: &[*const f32],
        first: usize,
    ) {
        let [start, rest @ ..] = lines else { return };
        // SAFETY: the caller's promise.
        unsafe {
            let load = |line: *const f32, v: usize| _mm256_loadu_ps(line.add(first + v * NARROW));
            let unordered = |a: __m256, b: __m256| _mm256_cmp_ps::<_CMP_UNORD_Q>(a, b);
            let (mut best, mut none) = ([_mm256_set1_ps(0.0); V], [_mm256_set1_ps(0.0); V]);
            for v in 0..V {
                best[v] = load(*start, v);
                none[v] = unordered(best[v], best[v]);
            }
            let (pairs, last) = rest.as_chunks::<2>();
            for &[a, b] in pairs {
                for v in 0..V {
                    let (a, b) = (load(a, v), load(b, v));
                    best[v] = narrow_better::<MAX>(best[v], narrow_better::<MAX>(a, b));
                    none[v] = _mm256_or_ps(none[v], unordered(a, b));
                }
            }
            for &a in last {
                for v in 0..V {
                    let a = load(a, v);
                    best[v] = narrow_better::<MAX>(best[v], a);
                    none[v] = _mm256_or_ps(none[v], unordered(a, a));
                }
            }
            let no_number = _mm256_set1_ps(f32::from_key(if MAX { i32::MAX } else { i32::MIN }));
            for v in 0..V {
                let value = _mm256_blendv_ps(best[v], no_number, none[v]);
                _mm256_storeu_ps(to.add(first + v * NARROW), value);
            }
        }
    }
}
