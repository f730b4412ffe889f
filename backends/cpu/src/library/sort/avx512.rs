//! Vectors of keys in registers of AVX-512.

use super::avx2::OF_8;
use super::vector::{Shuffle, Vector, upper};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub(super) struct I32x16(__m512i);

#[derive(Clone, Copy)]
pub(super) struct I64x8(__m512i);

/// The first `count` of 16 lanes: none where it is negative, all where it is more.
#[inline(always)]
unsafe fn first(count: isize) -> u16 {
    // SAFETY: the processor has the instructions.
    unsafe {
        let numbers = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
        _mm512_cmplt_epi32_mask(numbers, _mm512_set1_epi32(count as i32))
    }
}

/// Ones, then zeros.
#[repr(align(32))]
struct Ones([i8; 32]);
static ONES: Ones = {
    let mut ones = [0; 32];
    let mut at = 0;
    while at < 16 {
        ones[at] = -1;
        at += 1;
    }
    Ones(ones)
};

/// [`first`] of 0 to 16 lanes, without the port that compresses.
#[inline(always)]
unsafe fn first_by_load(count: usize) -> u16 {
    // SAFETY: the processor has the instructions; the caller vouches for the count, so that bytes of the table are read.
    unsafe { _mm_movepi8_mask(_mm_loadu_si128(ONES.0.as_ptr().add(16 - count).cast())) }
}

/// For each lane of both results of [`Vector::swapped`] the lane of both operands that it takes.
const fn lanes<S: Shuffle, const LANES: usize>() -> [[usize; LANES]; 2] {
    let mut all = [[0; LANES]; 2];
    let mut to = 0;
    while to < 2 * LANES {
        let second = to / LANES;
        let lane = (to % LANES) ^ (second * S::TURNED);
        let operand = lane >> S::AT & 1;
        all[second][to % LANES] = operand * LANES + (lane & !(1 << S::AT) | (second << S::AT));
        to += 1;
    }
    all
}

/// As words of 32 bits.
const fn lanes_32<S: Shuffle>() -> [[u32; 16]; 2] {
    let (from, mut all) = (lanes::<S, 16>(), [[0; 16]; 2]);
    let mut to = 0;
    while to < 32 {
        all[to / 16][to % 16] = from[to / 16][to % 16] as u32;
        to += 1;
    }
    all
}

impl Vector for I32x16 {
    type Key = i32;
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn splat(key: i32) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe { Self(_mm512_set1_epi32(key)) }
    }

    #[inline(always)]
    unsafe fn load(from: *const i32) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe { Self(_mm512_loadu_si512(from.cast())) }
    }

    #[inline(always)]
    unsafe fn load_some(from: *const i32, count: isize) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            Self(_mm512_mask_loadu_epi32(
                _mm512_set1_epi32(i32::MAX),
                first(count),
                from,
            ))
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn store_some(self, to: *mut i32, count: isize) {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe { _mm512_mask_storeu_epi32(to, first(count), self.0) }
    }

    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe { Self(_mm512_min_epi32(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe { Self(_mm512_max_epi32(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn ordered(self, other: Self) -> [Self; 2] {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            let less = self.min(other);
            // The other one of both, as one port alone has comparisons.
            let more = _mm512_ternarylogic_epi32::<0x96>(self.0, other.0, less.0);
            [less, Self(more)]
        }
    }

    #[inline(always)]
    unsafe fn swapped<S: Shuffle>(self, other: Self) -> [Self; 2] {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            let lanes = const { lanes_32::<S>() };
            let low = _mm512_loadu_si512(lanes[0].as_ptr().cast());
            let high = _mm512_loadu_si512(lanes[1].as_ptr().cast());
            [
                Self(_mm512_permutex2var_epi32(self.0, low, other.0)),
                Self(_mm512_permutex2var_epi32(self.0, high, other.0)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn exchange<const MIRROR: bool, const DISTANCE: usize>(self, other: Self) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            let (v, w) = (self.0, other.0);
            let other = match (MIRROR, DISTANCE) {
                (_, 1) => _mm512_shuffle_epi32::<0b10_11_00_01>(w),
                (false, 2) => _mm512_shuffle_epi32::<0b01_00_11_10>(w),
                (false, 4) => _mm512_shuffle_i64x2::<0b10_11_00_01>(w, w),
                (false, _) => _mm512_shuffle_i64x2::<0b01_00_11_10>(w, w),
                (true, 2) => _mm512_shuffle_epi32::<0b00_01_10_11>(w),
                (true, 4) => _mm512_permutexvar_epi32(
                    _mm512_set_epi32(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7),
                    w,
                ),
                (true, _) => _mm512_permutexvar_epi32(
                    _mm512_set_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                    w,
                ),
            };
            Self(_mm512_mask_max_epi32(
                _mm512_min_epi32(v, other),
                upper(DISTANCE),
                v,
                other,
            ))
        }
    }

    #[inline(always)]
    unsafe fn interleaved(self, other: Self) -> [Self; 2] {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            let low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
            let high = _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);
            [
                Self(_mm512_permutex2var_epi32(self.0, low, other.0)),
                Self(_mm512_permutex2var_epi32(self.0, high, other.0)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn split(self, pivot: Self, low: *mut i32, high: *mut i32) -> usize {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            let lanes = _mm512_cmplt_epi32_mask(self.0, pivot.0);
            let below = lanes.count_ones() as usize;
            let above = Self::LANES - below;
            Self(_mm512_maskz_compress_epi32(lanes, self.0)).store(low);
            let v = _mm512_maskz_compress_epi32(!lanes, self.0);
            _mm512_mask_storeu_epi32(high.sub(above), first_by_load(above), v);
            below
        }
    }

    #[inline(always)]
    unsafe fn split_some(
        from: *const i32,
        count: usize,
        pivot: Self,
        low: *mut i32,
        high: *mut i32,
    ) -> usize {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            let (there, v) = (first(count as isize), Self::load_some(from, count as isize));
            let lanes = _mm512_mask_cmplt_epi32_mask(there, v.0, pivot.0);
            let below = lanes.count_ones() as usize;
            let above = count - below;
            Self(_mm512_maskz_compress_epi32(lanes, v.0)).store_some(low, below as isize);
            Self(_mm512_maskz_compress_epi32(!lanes & there, v.0))
                .store_some(high.wrapping_sub(above), above as isize);
            below
        }
    }
}

impl Vector for I64x8 {
    type Key = i64;
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn splat(key: i64) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe { Self(_mm512_set1_epi64(key)) }
    }

    #[inline(always)]
    unsafe fn load(from: *const i64) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe { Self(_mm512_loadu_si512(from.cast())) }
    }

    #[inline(always)]
    unsafe fn load_some(from: *const i64, count: isize) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            Self(_mm512_mask_loadu_epi64(
                _mm512_set1_epi64(i64::MAX),
                first(count) as u8,
                from,
            ))
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i64) {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn store_some(self, to: *mut i64, count: isize) {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe { _mm512_mask_storeu_epi64(to, first(count) as u8, self.0) }
    }

    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe { Self(_mm512_min_epi64(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe { Self(_mm512_max_epi64(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn ordered(self, other: Self) -> [Self; 2] {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            let less = self.min(other);
            // The other one of both, as one port alone has comparisons.
            let more = _mm512_ternarylogic_epi64::<0x96>(self.0, other.0, less.0);
            [less, Self(more)]
        }
    }

    #[inline(always)]
    unsafe fn swapped<S: Shuffle>(self, other: Self) -> [Self; 2] {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            let lanes = const { lanes::<S, 8>() };
            let low = _mm512_loadu_si512(lanes[0].as_ptr().cast());
            let high = _mm512_loadu_si512(lanes[1].as_ptr().cast());
            [
                Self(_mm512_permutex2var_epi64(self.0, low, other.0)),
                Self(_mm512_permutex2var_epi64(self.0, high, other.0)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn exchange<const MIRROR: bool, const DISTANCE: usize>(self, other: Self) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            let (v, w) = (self.0, other.0);
            let other = match (MIRROR, DISTANCE) {
                (_, 1) => _mm512_shuffle_epi32::<0b01_00_11_10>(w),
                (false, 2) => _mm512_permutex_epi64::<0b01_00_11_10>(w),
                (false, _) => _mm512_shuffle_i64x2::<0b01_00_11_10>(w, w),
                (true, 2) => _mm512_permutex_epi64::<0b00_01_10_11>(w),
                (true, _) => _mm512_permutexvar_epi64(_mm512_set_epi64(0, 1, 2, 3, 4, 5, 6, 7), w),
            };
            Self(_mm512_mask_max_epi64(
                _mm512_min_epi64(v, other),
                upper(DISTANCE) as u8,
                v,
                other,
            ))
        }
    }

    #[inline(always)]
    unsafe fn interleaved(self, other: Self) -> [Self; 2] {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            let low = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
            let high = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
            [
                Self(_mm512_permutex2var_epi64(self.0, low, other.0)),
                Self(_mm512_permutex2var_epi64(self.0, high, other.0)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn split(self, pivot: Self, low: *mut i64, high: *mut i64) -> usize {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            let below = _mm512_cmplt_epi64_mask(self.0, pivot.0);
            let order = _mm256_load_si256(OF_8.0.as_ptr().add(below as usize).cast());
            let v = Self(_mm512_permutexvar_epi64(_mm512_cvtepu32_epi64(order), self.0));
            v.store(low);
            v.store(high.sub(Self::LANES));
            below.count_ones() as usize
        }
    }

    #[inline(always)]
    unsafe fn split_some(
        from: *const i64,
        count: usize,
        pivot: Self,
        low: *mut i64,
        high: *mut i64,
    ) -> usize {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            let (there, v) = (first(count as isize) as u8, Self::load_some(from, count as isize));
            let lanes = _mm512_mask_cmplt_epi64_mask(there, v.0, pivot.0);
            let below = lanes.count_ones() as usize;
            let above = count - below;
            Self(_mm512_maskz_compress_epi64(lanes, v.0)).store_some(low, below as isize);
            Self(_mm512_maskz_compress_epi64(!lanes & there, v.0))
                .store_some(high.wrapping_sub(above), above as isize);
            below
        }
    }
}
