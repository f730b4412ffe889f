//! Vectors of AVX2 and AVX-512.

use super::{Lines, Vector};
use std::arch::x86_64::*;

/// # Safety
/// AVX2 exists; as [`super::WindowsFn`].
#[target_feature(enable = "avx2")]
pub(super) unsafe fn avx2<const MAX: bool>(to: *mut f32, scratch: *mut i32, lines: &Lines<'_>) {
    // SAFETY: the caller's promise.
    unsafe { super::take::<F32x8, MAX>(to, scratch, lines) }
}

/// # Safety
/// AVX-512 F and DQ exist; as [`super::WindowsFn`].
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) unsafe fn avx512<const MAX: bool>(to: *mut f32, scratch: *mut i32, lines: &Lines<'_>) {
    // SAFETY: the caller's promise.
    unsafe { super::take::<F32x16, MAX>(to, scratch, lines) }
}

/// The key of what is no number.
const fn of_none<const MAX: bool>() -> i32 {
    if MAX { i32::MAX } else { i32::MIN }
}

#[derive(Clone, Copy)]
struct F32x8(__m256);

impl F32x8 {
    /// Of floats the keys, of keys the floats.
    #[inline(always)]
    unsafe fn turned(self) -> Self {
        // SAFETY: the processor has the instructions.
        unsafe {
            let bits = _mm256_castps_si256(self.0);
            let flip = _mm256_srli_epi32::<1>(_mm256_srai_epi32::<31>(bits));
            Self(_mm256_castsi256_ps(_mm256_xor_si256(bits, flip)))
        }
    }
}

// SAFETY of all methods: the processor has the instructions, and pointers are what the trait asks for.
impl Vector for F32x8 {
    type Numbers = __m256;
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: as above.
        unsafe { Self(_mm256_set1_ps(x)) }
    }

    #[inline(always)]
    unsafe fn load<T>(from: *const T) -> Self {
        // SAFETY: as above.
        unsafe { Self(_mm256_loadu_ps(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store<T>(self, to: *mut T) {
        // SAFETY: as above.
        unsafe { _mm256_storeu_ps(to.cast(), self.0) }
    }

    // Of two zeros the instruction returns the second.
    #[inline(always)]
    unsafe fn better<const MAX: bool>(self, other: Self) -> Self {
        let (a, b) = (self.0, other.0);
        // SAFETY: as above.
        unsafe {
            Self(match MAX {
                true => _mm256_and_ps(_mm256_max_ps(a, b), _mm256_max_ps(b, a)),
                false => _mm256_or_ps(_mm256_min_ps(a, b), _mm256_min_ps(b, a)),
            })
        }
    }

    #[inline(always)]
    unsafe fn all() -> __m256 {
        // SAFETY: as above.
        unsafe { _mm256_castsi256_ps(_mm256_set1_epi32(-1)) }
    }

    #[inline(always)]
    unsafe fn numbers(self, other: Self, of: __m256) -> __m256 {
        // SAFETY: as above.
        unsafe { _mm256_and_ps(of, _mm256_cmp_ps::<_CMP_ORD_Q>(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn both(a: __m256, b: __m256) -> __m256 {
        // SAFETY: as above.
        unsafe { _mm256_and_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn is_all(of: __m256) -> bool {
        // SAFETY: as above.
        unsafe { _mm256_movemask_ps(of) == 0xff }
    }

    #[inline(always)]
    unsafe fn keys<const MAX: bool>(self, numbers: __m256) -> Self {
        // SAFETY: as above.
        unsafe {
            let best = _mm256_castsi256_ps(_mm256_set1_epi32(of_none::<MAX>()));
            Self(_mm256_blendv_ps(best, self.turned().0, numbers))
        }
    }

    #[inline(always)]
    unsafe fn better_keys<const MAX: bool>(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            let (a, b) = (_mm256_castps_si256(self.0), _mm256_castps_si256(other.0));
            Self(_mm256_castsi256_ps(match MAX {
                true => _mm256_max_epi32(a, b),
                false => _mm256_min_epi32(a, b),
            }))
        }
    }

    #[inline(always)]
    unsafe fn values(self) -> Self {
        // SAFETY: as above.
        unsafe { self.turned() }
    }

    #[inline(always)]
    unsafe fn seconds(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            let pairs = _mm256_castps_pd(_mm256_shuffle_ps::<0b10_00_10_00>(self.0, other.0));
            Self(_mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(pairs)))
        }
    }

    #[inline(always)]
    unsafe fn others(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            let pairs = _mm256_castps_pd(_mm256_shuffle_ps::<0b11_01_11_01>(self.0, other.0));
            Self(_mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(pairs)))
        }
    }

    #[inline(always)]
    unsafe fn after(self, before: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            let halves = _mm256_castps_si256(_mm256_permute2f128_ps::<0x21>(before.0, self.0));
            let lanes = _mm256_alignr_epi8::<12>(_mm256_castps_si256(self.0), halves);
            Self(_mm256_castsi256_ps(lanes))
        }
    }
}

#[derive(Clone, Copy)]
struct F32x16(__m512);

impl F32x16 {
    /// As [`F32x8::turned`].
    #[inline(always)]
    unsafe fn turned(self) -> Self {
        /// a ^ (b & c).
        const ORDER: i32 = 0x78;
        // SAFETY: the processor has the instructions.
        unsafe {
            let bits = _mm512_castps_si512(self.0);
            let (sign, top) = (_mm512_srai_epi32::<31>(bits), _mm512_set1_epi32(i32::MAX));
            Self(_mm512_castsi512_ps(_mm512_ternarylogic_epi32::<ORDER>(
                bits, sign, top,
            )))
        }
    }
}

// SAFETY of all methods: as above.
impl Vector for F32x16 {
    type Numbers = __mmask16;
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: as above.
        unsafe { Self(_mm512_set1_ps(x)) }
    }

    #[inline(always)]
    unsafe fn load<T>(from: *const T) -> Self {
        // SAFETY: as above.
        unsafe { Self(_mm512_loadu_ps(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store<T>(self, to: *mut T) {
        // SAFETY: as above.
        unsafe { _mm512_storeu_ps(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn better<const MAX: bool>(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            Self(match MAX {
                true => _mm512_range_ps::<0b0101>(self.0, other.0),
                false => _mm512_range_ps::<0b0100>(self.0, other.0),
            })
        }
    }

    #[inline(always)]
    unsafe fn all() -> __mmask16 {
        !0
    }

    #[inline(always)]
    unsafe fn numbers(self, other: Self, of: __mmask16) -> __mmask16 {
        // SAFETY: as above.
        unsafe { _mm512_mask_cmp_ps_mask::<_CMP_ORD_Q>(of, self.0, other.0) }
    }

    #[inline(always)]
    unsafe fn both(a: __mmask16, b: __mmask16) -> __mmask16 {
        a & b
    }

    #[inline(always)]
    unsafe fn is_all(of: __mmask16) -> bool {
        of == !0
    }

    #[inline(always)]
    unsafe fn keys<const MAX: bool>(self, numbers: __mmask16) -> Self {
        // SAFETY: as above.
        unsafe {
            let best = _mm512_castsi512_ps(_mm512_set1_epi32(of_none::<MAX>()));
            Self(_mm512_mask_mov_ps(best, numbers, self.turned().0))
        }
    }

    #[inline(always)]
    unsafe fn better_keys<const MAX: bool>(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            let (a, b) = (_mm512_castps_si512(self.0), _mm512_castps_si512(other.0));
            Self(_mm512_castsi512_ps(match MAX {
                true => _mm512_max_epi32(a, b),
                false => _mm512_min_epi32(a, b),
            }))
        }
    }

    #[inline(always)]
    unsafe fn values(self) -> Self {
        // SAFETY: as above.
        unsafe { self.turned() }
    }

    #[inline(always)]
    unsafe fn seconds(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            Self(_mm512_permutex2var_ps(self.0, even, other.0))
        }
    }

    #[inline(always)]
    unsafe fn others(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
            Self(_mm512_permutex2var_ps(self.0, odd, other.0))
        }
    }

    #[inline(always)]
    unsafe fn after(self, before: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            let (own, before) = (_mm512_castps_si512(self.0), _mm512_castps_si512(before.0));
            Self(_mm512_castsi512_ps(_mm512_alignr_epi32::<15>(own, before)))
        }
    }
}
