//! Windows of pairs that lie next to each other: the place of the greatest or least f32 of a window gets one value, the others get another.
//! So does the gradient of a pool.

use crate::isa::Isa;

/// Lines of windows, whose rows have two places each. What is read and what is written lie alike.
#[derive(Clone, Copy)]
pub(crate) struct ChosenWindows<'a> {
    pub(crate) from: *const u32,
    pub(crate) to: *mut u32,
    /// Elements from a window's first row to each.
    pub(crate) rows: &'a [i64],
    /// Windows of a line, lines, and elements from each to the next.
    pub(crate) length: usize,
    pub(crate) count: usize,
    pub(crate) step: isize,
    /// What the place gets, and what the others get: an element for each window or one for all.
    pub(crate) values: [(*const u32, bool); 2],
}

pub(crate) type ChosenFn = unsafe fn(&ChosenWindows<'_>);

/// Of the greatest (`max`) or the least for lines of `length` windows, if the machine has vectors for it.
pub(crate) fn chosen_of(isa: Isa, max: bool, length: u64) -> Option<ChosenFn> {
    #[cfg(target_arch = "x86_64")]
    return match (isa, max) {
        (Isa::Avx512, true) => Some(x86::avx512::<true>),
        (Isa::Avx512, false) => Some(x86::avx512::<false>),
        (Isa::Avx2, true) if length >= x86::LEAST => Some(x86::avx2::<true>),
        (Isa::Avx2, false) if length >= x86::LEAST => Some(x86::avx2::<false>),
        _ => None,
    };
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (isa, max, length);
        None
    }
}

/// Vectors of bits.
///
/// # Safety
/// For all methods: the processor has the instructions, and pointers are valid for what is read or written there, up to `count` elements or
/// pairs, at most a vector.
#[cfg(target_arch = "x86_64")]
trait Bits: Copy {
    type Mask: Copy;
    const LANES: usize;

    unsafe fn splat(x: u32) -> Self;
    /// The order of lanes is that of [`Bits::pairs`].
    unsafe fn load(from: *const u32, count: usize) -> Self;
    /// The first ones and the second ones of pairs.
    unsafe fn pairs(from: *const u32, count: usize) -> [Self; 2];
    unsafe fn put(to: *mut u32, of: [Self; 2], count: usize);
    /// As [`super::num::Num::key`], with the greatest or the least for what is no number.
    unsafe fn key<const MAX: bool>(self) -> Self;
    /// Whether a key is better than another.
    unsafe fn better<const MAX: bool>(self, other: Self) -> Self::Mask;
    unsafe fn same(self, other: Self) -> Self::Mask;
    /// The second where the mask is set.
    unsafe fn either(mask: Self::Mask, a: Self, b: Self) -> Self;
}

/// # Safety
/// As [`Bits`]; `count` windows from the `first` one of a line on.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn windows<T: Bits, const MAX: bool>(
    w: &ChosenWindows<'_>,
    (from, to): (*const u32, *mut u32),
    values: [*const u32; 2],
    count: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let [yes, no] = [0, 1].map(|i| match w.values[i].1 {
            true => T::splat(*w.values[i].0),
            false => T::load(values[i], count),
        });
        let (mut best, mut at) = (T::splat(0), T::splat(0));
        for (row, &place) in w.rows.iter().enumerate() {
            let pair = T::pairs(from.wrapping_offset(place as isize), count);
            for (odd, value) in pair.into_iter().enumerate() {
                let (key, j) = (value.key::<MAX>(), (2 * row + odd) as u32);
                if j == 0 {
                    best = key;
                    continue;
                }
                let better = key.better::<MAX>(best);
                best = T::either(better, best, key);
                at = T::either(better, at, T::splat(j));
            }
        }
        for (row, &place) in w.rows.iter().enumerate() {
            let of = [0, 1].map(|odd| {
                let here = at.same(T::splat(2 * row as u32 + odd));
                T::either(here, no, yes)
            });
            T::put(to.wrapping_offset(place as isize), of, count);
        }
    }
}

/// As [`lines`], one window after the other.
///
/// # Safety
/// As there.
#[cfg(target_arch = "x86_64")]
unsafe fn few<const MAX: bool>(w: &ChosenWindows<'_>) {
    use super::num::Num;
    for (line, first) in (0..w.count).flat_map(|line| (0..w.length).map(move |first| (line, first))) {
        let at = line as isize * w.step + 2 * first as isize;
        let place = |j: usize| at + w.rows[j / 2] as isize + (j % 2) as isize;
        // SAFETY: the caller's promise.
        unsafe {
            let [yes, no] = w.values.map(|(values, single)| match single {
                true => *values,
                false => *values.add(line * w.length + first),
            });
            let key = |j: usize| f32::from_bits(*w.from.wrapping_offset(place(j))).key::<MAX>();
            let mut best = (key(0), 0);
            for j in 1..2 * w.rows.len() {
                let key = key(j);
                let better = if MAX { key > best.0 } else { key < best.0 };
                best = if better { (key, j) } else { best };
            }
            for j in 0..2 * w.rows.len() {
                *w.to.wrapping_offset(place(j)) = if j == best.1 { yes } else { no };
            }
        }
    }
}

/// Lines of windows, by whole vectors and one that has fewer, or that begins earlier where it is `WHOLE`.
///
/// # Safety
/// As [`Bits`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn lines<T: Bits, const MAX: bool, const WHOLE: bool>(w: &ChosenWindows<'_>) {
    for line in 0..w.count {
        for first in (0..w.length).step_by(T::LANES) {
            let first = if WHOLE {
                first.min(w.length - T::LANES)
            } else {
                first
            };
            let count = T::LANES.min(w.length - first);
            let at = line as isize * w.step + 2 * first as isize;
            let values = w
                .values
                .map(|(values, _)| values.wrapping_add(line * w.length + first));
            // SAFETY: the caller's promise.
            unsafe {
                let memory = (w.from.wrapping_offset(at), w.to.wrapping_offset(at));
                windows::<T, MAX>(w, memory, values, count);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Bits, ChosenWindows, few, lines};
    use std::arch::x86_64::*;

    /// Windows of a line from which on AVX2 pays.
    pub(super) const LEAST: u64 = 4;

    /// # Safety
    /// AVX2 exists; otherwise as [`Bits`], and what is written is not read.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn avx2<const MAX: bool>(w: &ChosenWindows<'_>) {
        // SAFETY: the caller's promise.
        unsafe {
            // A block may end within a line.
            match w.length {
                U32x8::LANES.. => lines::<U32x8, MAX, true>(w),
                U32x4::LANES.. => lines::<U32x4, MAX, true>(w),
                _ => few::<MAX>(w),
            }
        }
    }

    /// # Safety
    /// AVX-512 F and DQ exist; otherwise as [`Bits`].
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(super) unsafe fn avx512<const MAX: bool>(w: &ChosenWindows<'_>) {
        // SAFETY: the caller's promise.
        unsafe { lines::<U32x16, MAX, false>(w) }
    }

    /// The key of what is no number.
    const fn of_none<const MAX: bool>() -> i32 {
        if MAX { i32::MAX } else { i32::MIN }
    }

    #[derive(Clone, Copy)]
    struct U32x4(__m128i);

    // SAFETY of all methods: the processor has the instructions, and pointers are what the trait asks for.
    impl Bits for U32x4 {
        type Mask = __m128i;
        const LANES: usize = 4;

        #[inline(always)]
        unsafe fn splat(x: u32) -> Self {
            // SAFETY: as above.
            unsafe { Self(_mm_set1_epi32(x.cast_signed())) }
        }

        #[inline(always)]
        unsafe fn load(from: *const u32, _: usize) -> Self {
            // SAFETY: as above.
            unsafe { Self(_mm_loadu_si128(from.cast())) }
        }

        #[inline(always)]
        unsafe fn pairs(from: *const u32, _: usize) -> [Self; 2] {
            // SAFETY: as above.
            unsafe {
                let (a, b) = (_mm_loadu_ps(from.cast()), _mm_loadu_ps(from.add(4).cast()));
                [
                    Self(_mm_castps_si128(_mm_shuffle_ps::<0b10_00_10_00>(a, b))),
                    Self(_mm_castps_si128(_mm_shuffle_ps::<0b11_01_11_01>(a, b))),
                ]
            }
        }

        #[inline(always)]
        unsafe fn put(to: *mut u32, [a, b]: [Self; 2], _: usize) {
            // SAFETY: as above.
            unsafe {
                _mm_storeu_si128(to.cast(), _mm_unpacklo_epi32(a.0, b.0));
                _mm_storeu_si128(to.add(4).cast(), _mm_unpackhi_epi32(a.0, b.0));
            }
        }

        #[inline(always)]
        unsafe fn key<const MAX: bool>(self) -> Self {
            // SAFETY: as above.
            unsafe {
                let float = _mm_castsi128_ps(self.0);
                let flip = _mm_srli_epi32::<1>(_mm_srai_epi32::<31>(self.0));
                let none = _mm_castps_si128(_mm_cmpunord_ps(float, float));
                Self(_mm_blendv_epi8(
                    _mm_xor_si128(self.0, flip),
                    _mm_set1_epi32(of_none::<MAX>()),
                    none,
                ))
            }
        }

        #[inline(always)]
        unsafe fn better<const MAX: bool>(self, other: Self) -> __m128i {
            // SAFETY: as above.
            unsafe {
                match MAX {
                    true => _mm_cmpgt_epi32(self.0, other.0),
                    false => _mm_cmpgt_epi32(other.0, self.0),
                }
            }
        }

        #[inline(always)]
        unsafe fn same(self, other: Self) -> __m128i {
            // SAFETY: as above.
            unsafe { _mm_cmpeq_epi32(self.0, other.0) }
        }

        #[inline(always)]
        unsafe fn either(mask: __m128i, a: Self, b: Self) -> Self {
            // SAFETY: as above.
            unsafe { Self(_mm_blendv_epi8(a.0, b.0, mask)) }
        }
    }

    /// Its lanes stand for windows 0, 1, 4, 5, 2, 3, 6 and 7, so that pairs need no more than a shuffle of halves.
    #[derive(Clone, Copy)]
    struct U32x8(__m256i);

    // SAFETY of all methods: as above.
    impl Bits for U32x8 {
        type Mask = __m256i;
        const LANES: usize = 8;

        #[inline(always)]
        unsafe fn splat(x: u32) -> Self {
            // SAFETY: as above.
            unsafe { Self(_mm256_set1_epi32(x.cast_signed())) }
        }

        #[inline(always)]
        unsafe fn load(from: *const u32, _: usize) -> Self {
            // SAFETY: as above.
            unsafe {
                Self(_mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_loadu_si256(
                    from.cast(),
                )))
            }
        }

        #[inline(always)]
        unsafe fn pairs(from: *const u32, _: usize) -> [Self; 2] {
            // SAFETY: as above.
            unsafe {
                let (a, b) = (_mm256_loadu_ps(from.cast()), _mm256_loadu_ps(from.add(8).cast()));
                [
                    Self(_mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(a, b))),
                    Self(_mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(a, b))),
                ]
            }
        }

        #[inline(always)]
        unsafe fn put(to: *mut u32, [a, b]: [Self; 2], _: usize) {
            // SAFETY: as above.
            unsafe {
                _mm256_storeu_si256(to.cast(), _mm256_unpacklo_epi32(a.0, b.0));
                _mm256_storeu_si256(to.add(8).cast(), _mm256_unpackhi_epi32(a.0, b.0));
            }
        }

        #[inline(always)]
        unsafe fn key<const MAX: bool>(self) -> Self {
            // SAFETY: as above.
            unsafe {
                let float = _mm256_castsi256_ps(self.0);
                let flip = _mm256_srli_epi32::<1>(_mm256_srai_epi32::<31>(self.0));
                let none = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(float, float));
                let key = _mm256_xor_si256(self.0, flip);
                Self(_mm256_blendv_epi8(key, _mm256_set1_epi32(of_none::<MAX>()), none))
            }
        }

        #[inline(always)]
        unsafe fn better<const MAX: bool>(self, other: Self) -> __m256i {
            // SAFETY: as above.
            unsafe {
                match MAX {
                    true => _mm256_cmpgt_epi32(self.0, other.0),
                    false => _mm256_cmpgt_epi32(other.0, self.0),
                }
            }
        }

        #[inline(always)]
        unsafe fn same(self, other: Self) -> __m256i {
            // SAFETY: as above.
            unsafe { _mm256_cmpeq_epi32(self.0, other.0) }
        }

        #[inline(always)]
        unsafe fn either(mask: __m256i, a: Self, b: Self) -> Self {
            // SAFETY: as above.
            unsafe { Self(_mm256_blendv_epi8(a.0, b.0, mask)) }
        }
    }

    #[derive(Clone, Copy)]
    struct U32x16(__m512i);

    /// The lanes of two vectors that so many elements take.
    #[inline(always)]
    fn inside(count: usize) -> [__mmask16; 2] {
        let mask = (1_u64 << count) - 1;
        [mask as u16, (mask >> 16) as u16]
    }

    // SAFETY of all methods: as above.
    impl Bits for U32x16 {
        type Mask = __mmask16;
        const LANES: usize = 16;

        #[inline(always)]
        unsafe fn splat(x: u32) -> Self {
            // SAFETY: as above.
            unsafe { Self(_mm512_set1_epi32(x.cast_signed())) }
        }

        #[inline(always)]
        unsafe fn load(from: *const u32, count: usize) -> Self {
            // SAFETY: as above.
            unsafe { Self(_mm512_maskz_loadu_epi32(inside(count)[0], from.cast())) }
        }

        #[inline(always)]
        unsafe fn pairs(from: *const u32, count: usize) -> [Self; 2] {
            // SAFETY: as above.
            unsafe {
                let first = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
                let second = _mm512_or_si512(first, _mm512_set1_epi32(1));
                let [low, high] = inside(2 * count);
                let a = _mm512_maskz_loadu_epi32(low, from.cast());
                let b = _mm512_maskz_loadu_epi32(high, from.wrapping_add(16).cast());
                [first, second].map(|of| Self(_mm512_permutex2var_epi32(a, of, b)))
            }
        }

        #[inline(always)]
        unsafe fn put(to: *mut u32, [a, b]: [Self; 2], count: usize) {
            // SAFETY: as above.
            unsafe {
                let first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
                let second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
                let [low, high] = inside(2 * count);
                _mm512_mask_storeu_epi32(to.cast(), low, _mm512_permutex2var_epi32(a.0, first, b.0));
                let high_to = to.wrapping_add(16).cast();
                _mm512_mask_storeu_epi32(high_to, high, _mm512_permutex2var_epi32(a.0, second, b.0));
            }
        }

        #[inline(always)]
        unsafe fn key<const MAX: bool>(self) -> Self {
            // SAFETY: as above.
            unsafe {
                let float = _mm512_castsi512_ps(self.0);
                let flip = _mm512_srli_epi32::<1>(_mm512_srai_epi32::<31>(self.0));
                let none = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(float, float);
                let key = _mm512_xor_si512(self.0, flip);
                Self(_mm512_mask_mov_epi32(
                    key,
                    none,
                    _mm512_set1_epi32(of_none::<MAX>()),
                ))
            }
        }

        #[inline(always)]
        unsafe fn better<const MAX: bool>(self, other: Self) -> __mmask16 {
            // SAFETY: as above.
            unsafe {
                match MAX {
                    true => _mm512_cmpgt_epi32_mask(self.0, other.0),
                    false => _mm512_cmplt_epi32_mask(self.0, other.0),
                }
            }
        }

        #[inline(always)]
        unsafe fn same(self, other: Self) -> __mmask16 {
            // SAFETY: as above.
            unsafe { _mm512_cmpeq_epi32_mask(self.0, other.0) }
        }

        #[inline(always)]
        unsafe fn either(mask: __mmask16, a: Self, b: Self) -> Self {
            // SAFETY: as above.
            unsafe { Self(_mm512_mask_mov_epi32(a.0, mask, b.0)) }
        }
    }
}
