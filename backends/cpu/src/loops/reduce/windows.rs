//! The greatest or least f32 of windows that lie side by side along lines, with all places of a window in one pass.

use super::key;
use crate::isa::Isa;

/// Windows of a line from which on vectors pay.
pub(crate) const LONG: usize = 16;

/// Lines of windows: `count` of them with `length` windows each, elements from one to the next.
#[derive(Clone, Copy)]
pub(crate) struct Windows<'a> {
    pub(crate) count: usize,
    pub(crate) length: usize,
    pub(crate) stride: isize,
    pub(crate) step: isize,
    /// Elements from the first place of a window to each.
    pub(crate) places: &'a [isize],
}

/// Takes the places of each window into its key, whose best is the greatest; `false` where no routine suits the stride or the machine,
/// and nothing was done.
///
/// # Safety
/// The machine has the instruction set. There is a key for each window, and its places can be read from `x` on.
pub(crate) unsafe fn take<const MAX: bool>(
    isa: Isa,
    keys: *mut i32,
    x: *const f32,
    windows: &Windows<'_>,
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if isa == Isa::Avx512 {
        // SAFETY: the instructions exist; the caller's promise.
        unsafe {
            match windows.stride {
                1 | 2 if windows.length < LONG => few::<MAX>(keys, x, windows),
                1 => x86::take::<1, MAX>(keys, x, windows),
                2 => x86::take::<2, MAX>(keys, x, windows),
                _ => return false,
            }
        }
        return true;
    }
    let _ = (isa, keys, x, windows);
    false
}

/// The end of a line that is in another block.
///
/// # Safety
/// As [`take`].
#[cfg(target_arch = "x86_64")]
unsafe fn few<const MAX: bool>(keys: *mut i32, x: *const f32, windows: &Windows<'_>) {
    for line in 0..windows.count {
        for window in 0..windows.length {
            let x = x.wrapping_offset(line as isize * windows.step + window as isize * windows.stride);
            for &place in windows.places {
                // SAFETY: the caller's promise.
                unsafe {
                    let best = &mut *keys.add(line * windows.length + window);
                    *best = (*best).max(key::<f32, MAX>(*x.wrapping_offset(place)));
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{LONG as LANES, Windows};
    use std::arch::x86_64::{
        __m512i, _CMP_UNORD_Q, _mm512_castps_si512, _mm512_cmp_ps_mask, _mm512_loadu_ps, _mm512_loadu_si512,
        _mm512_mask_mov_epi32, _mm512_max_epi32, _mm512_permutex2var_ps, _mm512_set1_epi32,
        _mm512_srai_epi32, _mm512_storeu_si512, _mm512_ternarylogic_epi32,
    };

    /// Every second of 31 elements: from the first 16, and from the last 16, where they are at odd places.
    const SECONDS: [i32; LANES] = [0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31];

    /// # Safety
    /// AVX-512 F exists; as [`super::take`] with the stride `S` and lines of [`LANES`] windows or more.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn take<const S: usize, const MAX: bool>(
        keys: *mut i32,
        x: *const f32,
        windows: &Windows<'_>,
    ) {
        /// a ^ (b & c), and its complement.
        const ORDER: i32 = 0x78;
        const INVERTED: i32 = 0x87;
        let n = windows.length;
        // SAFETY: the last windows of a line are taken with those before, so that all places read are of windows.
        unsafe {
            let seconds: __m512i = _mm512_loadu_si512(SECONDS.as_ptr().cast());
            let top = _mm512_set1_epi32(i32::MAX);
            for line in 0..windows.count {
                let x = x.offset(line as isize * windows.step);
                let keys = keys.add(line * n);
                for first in (0..n).step_by(LANES) {
                    let first = first.min(n - LANES);
                    let mut best = _mm512_loadu_si512(keys.add(first).cast());
                    for &place in windows.places {
                        let x = x.offset(place).add(first * S);
                        let mut value = _mm512_loadu_ps(x);
                        if S == 2 {
                            let last = _mm512_loadu_ps(x.add(LANES - 1));
                            value = _mm512_permutex2var_ps(value, seconds, last);
                        }
                        let bits = _mm512_castps_si512(value);
                        let sign = _mm512_srai_epi32::<31>(bits);
                        let key = match MAX {
                            true => _mm512_ternarylogic_epi32::<ORDER>(bits, sign, top),
                            false => _mm512_ternarylogic_epi32::<INVERTED>(bits, sign, top),
                        };
                        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(value, value);
                        best = _mm512_max_epi32(best, _mm512_mask_mov_epi32(key, nan, top));
                    }
                    _mm512_storeu_si512(keys.add(first).cast(), best);
                }
            }
        }
    }
}
