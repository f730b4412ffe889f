//! Vectors of keys in registers of AVX2.

use super::vector::Vector;
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub(super) struct I32x8(__m256i);

#[derive(Clone, Copy)]
pub(super) struct I64x4(__m256i);

/// For each set of lanes: these, then the others, as numbers of the halves, quarters or eighths of a register that they take.
const fn orders<const LANES: usize, const SETS: usize>() -> [[u32; 8]; SETS] {
    let mut all = [[0; 8]; SETS];
    let parts = 8 / LANES;
    let mut set = 0;
    while set < SETS {
        let (mut to, mut at) = (0, 0);
        while at < 2 * LANES {
            let lane = at % LANES;
            if (set >> lane & 1 == 1) == (at < LANES) {
                let mut part = 0;
                while part < parts {
                    all[set][to] = (lane * parts + part) as u32;
                    to += 1;
                    part += 1;
                }
            }
            at += 1;
        }
        set += 1;
    }
    all
}

static OF_8: [[u32; 8]; 256] = orders::<8, 256>();
static OF_4: [[u32; 8]; 16] = orders::<4, 16>();

/// Ones, then zeros.
static ONES: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

/// Ones in the first `count` words of 32 bits, of 8 at most.
#[inline(always)]
unsafe fn first(count: usize) -> __m256i {
    // SAFETY: the processor has the instructions; the words that are read lie in the table.
    unsafe { _mm256_loadu_si256(ONES.as_ptr().add(8 - count).cast()) }
}

impl Vector for I32x8 {
    type Key = i32;
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn splat(key: i32) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe { Self(_mm256_set1_epi32(key)) }
    }

    #[inline(always)]
    unsafe fn load(from: *const i32) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe { Self(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn load_some(from: *const i32, count: usize) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            let lanes = first(count);
            let found = _mm256_maskload_epi32(from, lanes);
            Self(_mm256_blendv_epi8(_mm256_set1_epi32(i32::MAX), found, lanes))
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn store_some(self, to: *mut i32, count: usize) {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe { _mm256_maskstore_epi32(to, first(count), self.0) }
    }

    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe { Self(_mm256_min_epi32(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe { Self(_mm256_max_epi32(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn exchange<const MIRROR: bool, const DISTANCE: usize>(self, other: Self) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            let w = other.0;
            let other = Self(match (MIRROR, DISTANCE) {
                (_, 1) => _mm256_shuffle_epi32::<0b10_11_00_01>(w),
                (false, 2) => _mm256_shuffle_epi32::<0b01_00_11_10>(w),
                (false, _) => _mm256_permute4x64_epi64::<0b01_00_11_10>(w),
                (true, 2) => _mm256_shuffle_epi32::<0b00_01_10_11>(w),
                (true, _) => _mm256_permutevar8x32_epi32(w, _mm256_set_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
            });
            let (less, more) = (self.min(other).0, self.max(other).0);
            Self(match DISTANCE {
                1 => _mm256_blend_epi32::<0b1010_1010>(less, more),
                2 => _mm256_blend_epi32::<0b1100_1100>(less, more),
                _ => _mm256_blend_epi32::<0b1111_0000>(less, more),
            })
        }
    }

    #[inline(always)]
    unsafe fn interleaved(self, other: Self) -> [Self; 2] {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            let low = _mm256_unpacklo_epi32(self.0, other.0);
            let high = _mm256_unpackhi_epi32(self.0, other.0);
            [
                Self(_mm256_permute2x128_si256::<0x20>(low, high)),
                Self(_mm256_permute2x128_si256::<0x31>(low, high)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn split(self, pivot: Self, low: *mut i32, high: *mut i32) -> usize {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            let below = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(pivot.0, self.0)));
            let order = _mm256_loadu_si256(OF_8.as_ptr().add(below as usize).cast());
            let v = Self(_mm256_permutevar8x32_epi32(self.0, order));
            v.store(low);
            v.store(high.sub(Self::LANES));
            below.count_ones() as usize
        }
    }
}

impl Vector for I64x4 {
    type Key = i64;
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn splat(key: i64) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe { Self(_mm256_set1_epi64x(key)) }
    }

    #[inline(always)]
    unsafe fn load(from: *const i64) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe { Self(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn load_some(from: *const i64, count: usize) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            let lanes = first(2 * count);
            let found = _mm256_maskload_epi64(from, lanes);
            Self(_mm256_blendv_epi8(_mm256_set1_epi64x(i64::MAX), found, lanes))
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i64) {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn store_some(self, to: *mut i64, count: usize) {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe { _mm256_maskstore_epi64(to, first(2 * count), self.0) }
    }

    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            Self(_mm256_blendv_epi8(
                self.0,
                other.0,
                _mm256_cmpgt_epi64(self.0, other.0),
            ))
        }
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            Self(_mm256_blendv_epi8(
                other.0,
                self.0,
                _mm256_cmpgt_epi64(self.0, other.0),
            ))
        }
    }

    #[inline(always)]
    unsafe fn exchange<const MIRROR: bool, const DISTANCE: usize>(self, other: Self) -> Self {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            let w = other.0;
            let other = Self(match (MIRROR, DISTANCE) {
                (_, 1) => _mm256_shuffle_epi32::<0b01_00_11_10>(w),
                (false, _) => _mm256_permute4x64_epi64::<0b01_00_11_10>(w),
                (true, _) => _mm256_permute4x64_epi64::<0b00_01_10_11>(w),
            });
            let (less, more) = (self.min(other).0, self.max(other).0);
            Self(match DISTANCE {
                1 => _mm256_blend_epi32::<0b1100_1100>(less, more),
                _ => _mm256_blend_epi32::<0b1111_0000>(less, more),
            })
        }
    }

    #[inline(always)]
    unsafe fn interleaved(self, other: Self) -> [Self; 2] {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            let low = _mm256_unpacklo_epi64(self.0, other.0);
            let high = _mm256_unpackhi_epi64(self.0, other.0);
            [
                Self(_mm256_permute2x128_si256::<0x20>(low, high)),
                Self(_mm256_permute2x128_si256::<0x31>(low, high)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn split(self, pivot: Self, low: *mut i64, high: *mut i64) -> usize {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            let below = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(pivot.0, self.0)));
            let order = _mm256_loadu_si256(OF_4.as_ptr().add(below as usize).cast());
            let v = Self(_mm256_permutevar8x32_epi32(self.0, order));
            v.store(low);
            v.store(high.sub(Self::LANES));
            below.count_ones() as usize
        }
    }
}
