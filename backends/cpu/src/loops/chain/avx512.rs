//! Vectors of AVX-512.

use super::vector::Vector;
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub(super) struct Avx512(__m512);

/// The selector of `vrangeps`: the greater of two, -0 below +0.
const GREATER: i32 = 0b0101;

macro_rules! lanewise {
    ($($name:ident = $intrinsic:path;)*) => {$(
        #[inline(always)]
        unsafe fn $name(self, b: Avx512) -> Avx512 {
            // SAFETY: the processor has the instructions.
            unsafe { Avx512($intrinsic(self.0, b.0)) }
        }
    )*};
}

// SAFETY of each block: the processor has the instructions, and pointers are valid as the trait says.
#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "one reason for all of them, above"
)]
impl Vector for Avx512 {
    type Mask = __mmask16;
    type Nans = __mmask16;

    lanewise! {
        add = _mm512_add_ps;
        sub = _mm512_sub_ps;
        mul = _mm512_mul_ps;
        min = _mm512_min_ps;
        max = _mm512_max_ps;
        greater = _mm512_range_ps::<GREATER>;
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> Avx512 {
        unsafe { Avx512(_mm512_set1_ps(x)) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Avx512 {
        unsafe { Avx512(_mm512_loadu_ps(from)) }
    }

    #[inline(always)]
    unsafe fn load_some(mask: __mmask16, from: *const f32) -> Avx512 {
        unsafe { Avx512(_mm512_maskz_loadu_ps(mask, from)) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { _mm512_storeu_ps(to, self.0) }
    }

    #[inline(always)]
    unsafe fn store_some(self, mask: __mmask16, to: *mut f32) {
        unsafe { _mm512_mask_storeu_ps(to, mask, self.0) }
    }

    #[inline(always)]
    unsafe fn add_some(self, mask: __mmask16, b: Avx512) -> Avx512 {
        unsafe { Avx512(_mm512_mask_add_ps(self.0, mask, self.0, b.0)) }
    }

    #[inline(always)]
    unsafe fn fma(self, b: Avx512, c: Avx512) -> Avx512 {
        unsafe { Avx512(_mm512_fmadd_ps(self.0, b.0, c.0)) }
    }

    #[inline(always)]
    unsafe fn fnma(self, b: Avx512, c: Avx512) -> Avx512 {
        unsafe { Avx512(_mm512_fnmadd_ps(self.0, b.0, c.0)) }
    }

    /// At once: the first of the two products of `math::exp32` is exact.
    #[inline(always)]
    unsafe fn scale<const V: usize>(p: &[Avx512; V], n: &[Avx512; V], _rounded: &[Avx512; V]) -> [Avx512; V] {
        let mut scaled = *p;
        for (p, n) in scaled.iter_mut().zip(n) {
            p.0 = unsafe { _mm512_scalef_ps(p.0, n.0) };
        }
        scaled
    }

    /// That one product and two fused steps suffice with a correctly rounded reciprocal is Markstein's theorem (Brisebarre,
    /// Muller, Raina, Accelerating correctly rounded floating-point division when the divisor is known in advance, 2004), provided
    /// that nothing underflows or overflows: nothing does for |a| in 2^-100..2^100, and +0 passes. With any other, all are divided.
    #[inline(always)]
    unsafe fn divide<const V: usize>(hand: &mut [Avx512; V], Avx512(b): Avx512, reciprocal: f32) {
        // Of bits with the sign last.
        const LEAST: i32 = (127 - 100) << 24;
        const GREATEST: u32 = ((127 + 100) << 24) - 1;
        unsafe {
            let r = _mm512_set1_ps(reciprocal);
            let one = _mm512_set1_epi32(1);
            let mut quotients = *hand;
            let (mut low, mut high) = (_mm512_set1_epi32(-1), _mm512_setzero_si512());
            for (q, &Avx512(a)) in quotients.iter_mut().zip(hand.iter()) {
                let product = _mm512_mul_ps(a, r);
                *q = Avx512(_mm512_fmadd_ps(_mm512_fnmadd_ps(product, b, a), r, product));
                let bits = _mm512_rol_epi32::<1>(_mm512_castps_si512(a));
                high = _mm512_max_epu32(high, bits);
                // +0 becomes the greatest.
                low = _mm512_min_epu32(low, _mm512_sub_epi32(bits, one));
            }
            let outside = _mm512_cmplt_epu32_mask(low, _mm512_set1_epi32(LEAST - 1))
                | _mm512_cmpgt_epu32_mask(high, _mm512_set1_epi32(GREATEST.cast_signed()));
            if outside == 0 && reciprocal != 0.0 {
                *hand = quotients;
            } else {
                for Avx512(a) in hand {
                    *a = _mm512_div_ps(*a, b);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn greater_some(self, mask: __mmask16, b: Avx512) -> Avx512 {
        unsafe { Avx512(_mm512_mask_range_ps::<GREATER>(self.0, mask, self.0, b.0)) }
    }

    #[inline(always)]
    unsafe fn greatest_key(self) -> i32 {
        unsafe {
            let bits = _mm512_castps_si512(self.0);
            let flip = _mm512_and_si512(_mm512_srai_epi32::<31>(bits), _mm512_set1_epi32(i32::MAX));
            _mm512_reduce_max_epi32(_mm512_xor_si512(bits, flip))
        }
    }

    #[inline(always)]
    unsafe fn first(lanes: usize) -> __mmask16 {
        (1 << lanes) - 1
    }

    #[inline(always)]
    unsafe fn all() -> __mmask16 {
        !0
    }

    #[inline(always)]
    unsafe fn no_nans() -> __mmask16 {
        0
    }

    #[inline(always)]
    unsafe fn see(nans: __mmask16, a: Avx512, b: Avx512) -> __mmask16 {
        nans | unsafe { _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a.0, b.0) }
    }

    #[inline(always)]
    unsafe fn see_some(nans: __mmask16, mask: __mmask16, a: Avx512) -> __mmask16 {
        nans | unsafe { _mm512_mask_cmp_ps_mask::<_CMP_UNORD_Q>(mask, a.0, a.0) }
    }

    #[inline(always)]
    unsafe fn any(nans: __mmask16) -> bool {
        nans != 0
    }
}
