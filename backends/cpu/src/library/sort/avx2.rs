//! Vectors of keys in registers of AVX2.

use super::vector::{Shuffle, Vector};
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

/// None of them crosses a cache line.
#[repr(align(32))]
pub(super) struct Orders<const SETS: usize>(pub(super) [[u32; 8]; SETS]);

/// Of lanes of 32 bits.
pub(super) static OF_8: Orders<256> = Orders(orders::<8, 256>());
static OF_4: Orders<16> = Orders(orders::<4, 16>());

/// Ones in the first `count` words of 32 bits, of 8: in none where it is negative, in all where it is more.
#[inline(always)]
unsafe fn first(count: isize) -> __m256i {
    // SAFETY: the processor has the instructions.
    unsafe {
        let numbers = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
        _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), numbers)
    }
}

impl I32x8 {
    /// Keys below the pivot, then the others, and how many are below.
    #[inline(always)]
    unsafe fn parted(self, pivot: Self) -> (Self, usize) {
        // SAFETY: the caller vouches for the processor; the table has a row for each set of lanes.
        unsafe {
            let below = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(pivot.0, self.0)));
            let order = _mm256_load_si256(OF_8.0.as_ptr().add(below as usize).cast());
            (
                Self(_mm256_permutevar8x32_epi32(self.0, order)),
                below.count_ones() as usize,
            )
        }
    }
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
    unsafe fn load_some(from: *const i32, count: isize) -> Self {
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
    unsafe fn store_some(self, to: *mut i32, count: isize) {
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
    unsafe fn swapped<S: Shuffle>(self, other: Self) -> [Self; 2] {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            let (a, b) = (self.0, other.0);
            let (low, high) = match const { S::AT } {
                0 => (
                    _mm256_blend_epi32::<0b1010_1010>(a, _mm256_shuffle_epi32::<0b10_10_00_00>(b)),
                    _mm256_blend_epi32::<0b1010_1010>(_mm256_shuffle_epi32::<0b11_11_01_01>(a), b),
                ),
                1 => (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)),
                _ => (
                    _mm256_permute2x128_si256::<0x20>(a, b),
                    _mm256_permute2x128_si256::<0x31>(a, b),
                ),
            };
            let high = match const { S::TURNED % 4 } {
                0 => high,
                1 => _mm256_shuffle_epi32::<0b10_11_00_01>(high),
                2 => _mm256_shuffle_epi32::<0b01_00_11_10>(high),
                _ => _mm256_shuffle_epi32::<0b00_01_10_11>(high),
            };
            let high = match const { S::TURNED / 4 } {
                0 => high,
                _ => _mm256_permute2x128_si256::<0x01>(high, high),
            };
            [Self(low), Self(high)]
        }
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
            let (v, below) = self.parted(pivot);
            v.store(low);
            v.store(high.sub(Self::LANES));
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
        // SAFETY: the caller vouches for the processor and for what is read and written. Lanes without a key are the last ones.
        unsafe {
            let (v, below) = Self::load_some(from, count as isize).parted(pivot);
            let (low_lanes, lanes) = (first(below as isize), first(count as isize));
            _mm256_maskstore_epi32(low, low_lanes, v.0);
            _mm256_maskstore_epi32(
                high.wrapping_sub(count),
                _mm256_andnot_si256(low_lanes, lanes),
                v.0,
            );
            below
        }
    }
}

impl I64x4 {
    /// Keys below the pivot, then the others, and how many are below.
    #[inline(always)]
    unsafe fn parted(self, pivot: Self) -> (Self, usize) {
        // SAFETY: the caller vouches for the processor; the table has a row for each set of lanes.
        unsafe {
            let below = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(pivot.0, self.0)));
            let order = _mm256_load_si256(OF_4.0.as_ptr().add(below as usize).cast());
            (
                Self(_mm256_permutevar8x32_epi32(self.0, order)),
                below.count_ones() as usize,
            )
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
    unsafe fn load_some(from: *const i64, count: isize) -> Self {
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
    unsafe fn store_some(self, to: *mut i64, count: isize) {
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
    unsafe fn swapped<S: Shuffle>(self, other: Self) -> [Self; 2] {
        // SAFETY: the caller vouches for the processor and for what is read and written.
        unsafe {
            let (a, b) = (self.0, other.0);
            let (low, high) = match const { S::AT } {
                0 => (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)),
                _ => (
                    _mm256_permute2x128_si256::<0x20>(a, b),
                    _mm256_permute2x128_si256::<0x31>(a, b),
                ),
            };
            let high = match const { S::TURNED } {
                0 => high,
                1 => _mm256_shuffle_epi32::<0b01_00_11_10>(high),
                2 => _mm256_permute4x64_epi64::<0b01_00_11_10>(high),
                _ => _mm256_permute4x64_epi64::<0b00_01_10_11>(high),
            };
            [Self(low), Self(high)]
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
            let (v, below) = self.parted(pivot);
            v.store(low);
            v.store(high.sub(Self::LANES));
            below
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
        // SAFETY: the caller vouches for the processor and for what is read and written. Lanes without a key are the last ones.
        unsafe {
            let (v, below) = Self::load_some(from, count as isize).parted(pivot);
            let (low_lanes, lanes) = (first(2 * below as isize), first(2 * count as isize));
            _mm256_maskstore_epi64(low, low_lanes, v.0);
            _mm256_maskstore_epi64(
                high.wrapping_sub(count),
                _mm256_andnot_si256(low_lanes, lanes),
                v.0,
            );
            below
        }
    }
}
