//! Vectors of AVX2, two registers each.

use super::vector::Vector;
use crate::math::EXP32;
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub(super) struct Avx2(__m256, __m256);

/// Ones where a lane counts, for any number of lanes.
static MASKS: [i32; 32] = {
    let mut masks = [0; 32];
    let mut lane = 0;
    while lane < 16 {
        masks[lane] = -1;
        lane += 1;
    }
    masks
};

macro_rules! lanewise {
    ($($name:ident = $intrinsic:path;)*) => {$(
        #[inline(always)]
        unsafe fn $name(self, b: Avx2) -> Avx2 {
            // SAFETY: the processor has the instructions.
            unsafe { Avx2($intrinsic(self.0, b.0), $intrinsic(self.1, b.1)) }
        }
    )*};
}

/// 2^n of integers n.
#[inline(always)]
unsafe fn power(n: __m256i) -> __m256 {
    // SAFETY: the processor has the instructions.
    unsafe {
        _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(
            n,
            _mm256_set1_epi32(127),
        )))
    }
}

#[inline(always)]
unsafe fn scale(p: __m256, rounded: __m256) -> __m256 {
    // SAFETY: the processor has the instructions.
    unsafe {
        let magic = _mm256_castps_si256(_mm256_set1_ps(EXP32.magic));
        let n = _mm256_sub_epi32(_mm256_castps_si256(rounded), magic);
        let half = _mm256_srai_epi32::<1>(n);
        let p = _mm256_mul_ps(p, power(half));
        _mm256_mul_ps(p, power(_mm256_sub_epi32(n, half)))
    }
}

#[inline(always)]
unsafe fn greater(a: __m256, b: __m256) -> __m256 {
    // SAFETY: the processor has the instructions.
    // Of equal numbers each maximum gives another one: they differ where both are zeros.
    unsafe { _mm256_and_ps(_mm256_max_ps(a, b), _mm256_max_ps(b, a)) }
}

// SAFETY of each block: the processor has the instructions, and pointers are valid as the trait says.
#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "one reason for all of them, above"
)]
impl Vector for Avx2 {
    type Mask = (__m256i, __m256i);
    type Nans = __m256;

    lanewise! {
        add = _mm256_add_ps;
        sub = _mm256_sub_ps;
        mul = _mm256_mul_ps;
        min = _mm256_min_ps;
        max = _mm256_max_ps;
        greater = greater;
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> Avx2 {
        unsafe { Avx2(_mm256_set1_ps(x), _mm256_set1_ps(x)) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Avx2 {
        unsafe { Avx2(_mm256_loadu_ps(from), _mm256_loadu_ps(from.wrapping_add(8))) }
    }

    #[inline(always)]
    unsafe fn load_some((low, high): Self::Mask, from: *const f32) -> Avx2 {
        unsafe {
            Avx2(
                _mm256_maskload_ps(from, low),
                _mm256_maskload_ps(from.wrapping_add(8), high),
            )
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe {
            _mm256_storeu_ps(to, self.0);
            _mm256_storeu_ps(to.wrapping_add(8), self.1);
        }
    }

    #[inline(always)]
    unsafe fn store_some(self, (low, high): Self::Mask, to: *mut f32) {
        unsafe {
            _mm256_maskstore_ps(to, low, self.0);
            _mm256_maskstore_ps(to.wrapping_add(8), high, self.1);
        }
    }

    #[inline(always)]
    unsafe fn add_some(self, (low, high): Self::Mask, b: Avx2) -> Avx2 {
        unsafe {
            let sum = self.add(b);
            Avx2(
                _mm256_blendv_ps(self.0, sum.0, _mm256_castsi256_ps(low)),
                _mm256_blendv_ps(self.1, sum.1, _mm256_castsi256_ps(high)),
            )
        }
    }

    #[inline(always)]
    unsafe fn fma(self, b: Avx2, c: Avx2) -> Avx2 {
        unsafe {
            Avx2(
                _mm256_fmadd_ps(self.0, b.0, c.0),
                _mm256_fmadd_ps(self.1, b.1, c.1),
            )
        }
    }

    #[inline(always)]
    unsafe fn fnma(self, b: Avx2, c: Avx2) -> Avx2 {
        unsafe {
            Avx2(
                _mm256_fnmadd_ps(self.0, b.0, c.0),
                _mm256_fnmadd_ps(self.1, b.1, c.1),
            )
        }
    }

    /// By one power of two where every one is a normal number, else by two, as `math::exp32` does: the result is rounded once
    /// either way.
    #[inline(always)]
    unsafe fn scale<const V: usize>(p: &[Avx2; V], _n: &[Avx2; V], rounded: &[Avx2; V]) -> [Avx2; V] {
        unsafe {
            // Exponents of the powers are in 1..=254.
            let zero = _mm256_set1_epi32(EXP32.magic.to_bits().cast_signed() - 127);
            let (one, most) = (_mm256_set1_epi32(1), _mm256_set1_epi32(253));
            let mut beyond = _mm256_setzero_si256();
            let mut scaled = *p;
            for (p, rounded) in scaled.iter_mut().zip(rounded) {
                for (p, rounded) in [(&mut p.0, rounded.0), (&mut p.1, rounded.1)] {
                    let exponent = _mm256_sub_epi32(_mm256_castps_si256(rounded), zero);
                    beyond = _mm256_max_epu32(beyond, _mm256_sub_epi32(exponent, one));
                    *p = _mm256_mul_ps(*p, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent)));
                }
            }
            let fits = _mm256_cmpeq_epi32(_mm256_max_epu32(beyond, most), most);
            if _mm256_movemask_epi8(fits) != -1 {
                for ((to, p), rounded) in scaled.iter_mut().zip(p).zip(rounded) {
                    *to = Avx2(scale(p.0, rounded.0), scale(p.1, rounded.1));
                }
            }
            scaled
        }
    }

    /// As [`Avx512::divide`](super::avx512::Avx512), which says why; here what is below zero is divided, too.
    #[inline(always)]
    unsafe fn divide<const V: usize>(hand: &mut [Avx2; V], b: Avx2, reciprocal: f32) {
        const LEAST: i32 = (127 - 100) << 23;
        const GREATEST: i32 = ((127 + 100) << 23) - 1;
        unsafe {
            let r = _mm256_set1_ps(reciprocal);
            let one = _mm256_set1_epi32(1);
            let mut quotients = *hand;
            let (mut low, mut high) = (_mm256_set1_epi32(-1), _mm256_setzero_si256());
            for (q, a) in quotients.iter_mut().zip(hand.iter()) {
                for (q, a) in [(&mut q.0, a.0), (&mut q.1, a.1)] {
                    let product = _mm256_mul_ps(a, r);
                    *q = _mm256_fmadd_ps(_mm256_fnmadd_ps(product, b.0, a), r, product);
                    let bits = _mm256_castps_si256(a);
                    high = _mm256_max_epu32(high, bits);
                    // +0 becomes the greatest.
                    low = _mm256_min_epu32(low, _mm256_sub_epi32(bits, one));
                }
            }
            let high_fits = _mm256_cmpeq_epi32(_mm256_min_epu32(high, _mm256_set1_epi32(GREATEST)), high);
            let low_fits = _mm256_cmpeq_epi32(_mm256_max_epu32(low, _mm256_set1_epi32(LEAST - 1)), low);
            if reciprocal != 0.0 && _mm256_movemask_epi8(_mm256_and_si256(high_fits, low_fits)) == -1 {
                *hand = quotients;
            } else {
                for a in hand {
                    *a = Avx2(_mm256_div_ps(a.0, b.0), _mm256_div_ps(a.1, b.1));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn greater_some(self, (low, high): Self::Mask, b: Avx2) -> Avx2 {
        unsafe {
            let best = self.greater(b);
            Avx2(
                _mm256_blendv_ps(self.0, best.0, _mm256_castsi256_ps(low)),
                _mm256_blendv_ps(self.1, best.1, _mm256_castsi256_ps(high)),
            )
        }
    }

    #[inline(always)]
    unsafe fn greatest_key(self) -> i32 {
        unsafe {
            let keys = |x: __m256| {
                let bits = _mm256_castps_si256(x);
                _mm256_xor_si256(bits, _mm256_srli_epi32::<1>(_mm256_srai_epi32::<31>(bits)))
            };
            let best = _mm256_max_epi32(keys(self.0), keys(self.1));
            let best = _mm_max_epi32(_mm256_castsi256_si128(best), _mm256_extracti128_si256::<1>(best));
            let best = _mm_max_epi32(best, _mm_shuffle_epi32::<0b01_00_11_10>(best));
            _mm_cvtsi128_si32(_mm_max_epi32(best, _mm_shuffle_epi32::<0b10_11_00_01>(best)))
        }
    }

    #[inline(always)]
    unsafe fn first(lanes: usize) -> Self::Mask {
        let from = MASKS.as_ptr().wrapping_add(16 - lanes).cast::<__m256i>();
        unsafe { (_mm256_loadu_si256(from), _mm256_loadu_si256(from.wrapping_add(1))) }
    }

    #[inline(always)]
    unsafe fn all() -> Self::Mask {
        unsafe { (_mm256_set1_epi32(-1), _mm256_set1_epi32(-1)) }
    }

    #[inline(always)]
    unsafe fn no_nans() -> __m256 {
        unsafe { _mm256_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn see(nans: __m256, a: Avx2, b: Avx2) -> __m256 {
        unsafe {
            let low = _mm256_cmp_ps::<_CMP_UNORD_Q>(a.0, b.0);
            let high = _mm256_cmp_ps::<_CMP_UNORD_Q>(a.1, b.1);
            _mm256_or_ps(nans, _mm256_or_ps(low, high))
        }
    }

    #[inline(always)]
    unsafe fn see_some(nans: __m256, (low, high): Self::Mask, a: Avx2) -> __m256 {
        unsafe {
            let low = _mm256_and_ps(_mm256_castsi256_ps(low), _mm256_cmp_ps::<_CMP_UNORD_Q>(a.0, a.0));
            let high = _mm256_and_ps(_mm256_castsi256_ps(high), _mm256_cmp_ps::<_CMP_UNORD_Q>(a.1, a.1));
            _mm256_or_ps(nans, _mm256_or_ps(low, high))
        }
    }

    #[inline(always)]
    unsafe fn any(nans: __m256) -> bool {
        unsafe { _mm256_movemask_ps(nans) != 0 }
    }
}
