//! Registers whose lanes hold several elements along k.

use super::super::tile::{TileArgs, TileFn, TileSet, tile, tile_set};
use super::super::vector::{Lanes, Vector};

/// Lanes of two numbers of 16 bits, for any processor.
#[derive(Clone, Copy)]
pub(crate) struct Pairs<const N: usize>(Lanes<i32, N>);

impl<const N: usize> Vector for Pairs<N> {
    type Lane = i32;
    const LANES: usize = N;
    #[inline(always)]
    unsafe fn zero() -> Self {
        Self(Lanes([0; N]))
    }
    #[inline(always)]
    unsafe fn splat(p: *const i32) -> Self {
        // SAFETY: the caller's contract.
        Self(unsafe { Lanes::splat(p) })
    }
    #[inline(always)]
    unsafe fn load(p: *const i32) -> Self {
        // SAFETY: the caller's contract.
        Self(unsafe { Lanes::load(p) })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut i32) {
        // SAFETY: the caller's contract.
        unsafe { self.0.store(p) }
    }
    #[inline(always)]
    unsafe fn mul_add(mut self, a: Self, b: Self) -> Self {
        for ((x, a), b) in self.0.0.iter_mut().zip(a.0.0).zip(b.0.0) {
            // Products of 9 bits, so no sum overflows.
            let low = i32::from(a as i16) * i32::from(b as i16);
            let high = (a >> 16) * (b >> 16);
            *x = x.wrapping_add(low + high);
        }
        self
    }
    #[inline(always)]
    unsafe fn add(self, a: Self) -> Self {
        // SAFETY: the caller's contract.
        Self(unsafe { self.0.add(a.0) })
    }
}

/// Writes what the sums of a panel of B begin with where 128 was added to A: -128 times its column sums, of `lanes` lanes.
pub(crate) type ExcessFn = unsafe fn(b: *const i32, lanes: usize, start: *mut i32);

/// Registers of a row of a tile, as the sets have them.
const NV: usize = 2;

#[inline(always)]
unsafe fn excess<V: Vector<Lane = i32>>(b: *const i32, lanes: usize, start: *mut i32) {
    let added = i32::from_ne_bytes([128; 4]);
    // SAFETY: the caller has `lanes` rows of a panel, and as long a row for the result.
    unsafe {
        let a = V::splat(&raw const added);
        let mut sums = [V::zero(); NV];
        for lane in 0..lanes {
            for (j, sum) in sums.iter_mut().enumerate() {
                *sum = sum.mul_add(a, V::load(b.add((lane * NV + j) * V::LANES)));
            }
        }
        for (j, sum) in sums.into_iter().enumerate() {
            sum.store(start.add(j * V::LANES));
        }
        for start in std::slice::from_raw_parts_mut(start, NV * V::LANES) {
            *start = start.wrapping_neg();
        }
    }
}

tile_set!(PAIRS_PLAIN, Pairs<4>, 2, 4);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use crate::library::gemm::tile::x86_vector;
    use std::arch::x86_64::*;

    x86_vector!(
        Pairs512,
        __m512i,
        i32,
        16,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_setzero_si512,
        _mm512_set1_epi32,
        |x, a, b| _mm512_add_epi32(x, _mm512_madd_epi16(a, b)),
        _mm512_add_epi32
    );
    x86_vector!(
        Pairs256,
        __m256i,
        i32,
        8,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_setzero_si256,
        _mm256_set1_epi32,
        |x, a, b| _mm256_add_epi32(x, _mm256_madd_epi16(a, b)),
        _mm256_add_epi32
    );
    // Bytes of A are unsigned in the first of each size, those of B in the second.
    x86_vector!(
        Unsigned512,
        __m512i,
        i32,
        16,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_setzero_si512,
        _mm512_set1_epi32,
        |x, a, b| _mm512_dpbusd_epi32(x, a, b),
        _mm512_add_epi32,
        true
    );
    x86_vector!(
        Signed512,
        __m512i,
        i32,
        16,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_setzero_si512,
        _mm512_set1_epi32,
        |x, a, b| _mm512_dpbusd_epi32(x, b, a),
        _mm512_add_epi32
    );
    x86_vector!(
        Unsigned256,
        __m256i,
        i32,
        8,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_setzero_si256,
        _mm256_set1_epi32,
        |x, a, b| _mm256_dpbusd_avx_epi32(x, a, b),
        _mm256_add_epi32,
        true
    );
    x86_vector!(
        Signed256,
        __m256i,
        i32,
        8,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_setzero_si256,
        _mm256_set1_epi32,
        |x, a, b| _mm256_dpbusd_avx_epi32(x, b, a),
        _mm256_add_epi32
    );

    tile_set!(PAIRS_AVX512, Pairs512, 2, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")], 14);
    tile_set!(PAIRS_AVX2, Pairs256, 2, #[target_feature(enable = "avx2,fma")], 6);
    tile_set!(UNSIGNED_AVX512, Unsigned512, 2, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")], 14);
    tile_set!(SIGNED_AVX512, Signed512, 2, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")], 14);
    tile_set!(UNSIGNED_AVX2, Unsigned256, 2, #[target_feature(enable = "avx2,fma,avxvnni")], 6);
    tile_set!(SIGNED_AVX2, Signed256, 2, #[target_feature(enable = "avx2,fma,avxvnni")], 6);

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    pub(in crate::library::gemm) unsafe fn excess_avx512(b: *const i32, lanes: usize, start: *mut i32) {
        // SAFETY: same contract.
        unsafe { excess::<Unsigned512>(b, lanes, start) }
    }

    #[target_feature(enable = "avx2,fma,avxvnni")]
    pub(in crate::library::gemm) unsafe fn excess_avx2(b: *const i32, lanes: usize, start: *mut i32) {
        // SAFETY: same contract.
        unsafe { excess::<Unsigned256>(b, lanes, start) }
    }
}
#[cfg(target_arch = "x86_64")]
pub(super) use x86::{
    PAIRS_AVX2, PAIRS_AVX512, SIGNED_AVX2, SIGNED_AVX512, UNSIGNED_AVX2, UNSIGNED_AVX512, excess_avx2,
    excess_avx512,
};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Pairs256, Pairs512};
