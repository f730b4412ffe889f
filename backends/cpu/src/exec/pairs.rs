//! Lines of pairs of 4-byte elements: their first and their second ones as lines of their own, and back. Windows of two places that lie
//! next to each other along a line are such pairs.

use super::strided::Lines;
use crate::isa::Isa;

/// Elements that one instruction of SSE2 moves.
#[cfg(target_arch = "x86_64")]
const FEW: usize = 4;

/// Writes the first ones of the pairs to the dense lines `to[0]` and the second ones to `to[1]`. `lines` counts pairs, and its step is that of
/// the pairs' elements.
///
/// # Safety
/// The machine has the instruction set; all pairs are readable, each of `to` holds their number, and no two sides overlap.
pub(super) unsafe fn split(isa: Isa, to: [*mut u32; 2], from: *const u32, lines: Lines) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instructions exist; the caller's promise.
    unsafe {
        match isa {
            Isa::Avx512 => return x86::split(to, from, lines),
            _ if lines.length >= FEW => return x86::split_few(to, from, lines),
            _ => {}
        }
    }
    let _ = isa;
    for line in 0..lines.count {
        let from = from.wrapping_offset(line as isize * lines.step);
        for i in 0..lines.length {
            for (odd, to) in to.into_iter().enumerate() {
                // SAFETY: the caller's promise.
                unsafe { *to.add(line * lines.length + i) = *from.add(2 * i + odd) };
            }
        }
    }
}

/// The other way round: writes pairs, and nothing else.
///
/// # Safety
/// As [`split`], with the roles changed.
pub(super) unsafe fn join(isa: Isa, to: *mut u32, from: [*const u32; 2], lines: Lines) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instructions exist; the caller's promise.
    unsafe {
        match isa {
            Isa::Avx512 => return x86::join(to, from, lines),
            _ if lines.length >= FEW => return x86::join_few(to, from, lines),
            _ => {}
        }
    }
    let _ = isa;
    for line in 0..lines.count {
        let to = to.wrapping_offset(line as isize * lines.step);
        for i in 0..lines.length {
            for (odd, from) in from.into_iter().enumerate() {
                // SAFETY: the caller's promise.
                unsafe { *to.add(2 * i + odd) = *from.add(line * lines.length + i) };
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{FEW, Lines};
    use std::arch::x86_64::*;

    const LANES: usize = 16;

    /// The lanes of two registers that `count` elements take, fewer than all.
    fn inside(count: usize) -> [u16; 2] {
        let mask = (1_u32 << count) - 1;
        [mask as u16, (mask >> LANES) as u16]
    }

    /// # Safety
    /// AVX-512 F exists; as [`super::split`].
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn split([even, odd]: [*mut u32; 2], from: *const u32, lines: Lines) {
        let first = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        let second = _mm512_or_si512(first, _mm512_set1_epi32(1));
        let whole = lines.length / LANES * LANES;
        let rest = lines.length - whole;
        let ([last, _], [low, high]) = (inside(rest), inside(2 * rest));
        // SAFETY: registers and masks reach the pairs of a line alone; the caller's promise.
        unsafe {
            for line in 0..lines.count {
                let from = from.wrapping_offset(line as isize * lines.step);
                let to = line * lines.length;
                for i in (0..whole).step_by(LANES) {
                    let a = _mm512_loadu_si512(from.add(2 * i).cast());
                    let b = _mm512_loadu_si512(from.add(2 * i + LANES).cast());
                    _mm512_storeu_si512(even.add(to + i).cast(), _mm512_permutex2var_epi32(a, first, b));
                    _mm512_storeu_si512(odd.add(to + i).cast(), _mm512_permutex2var_epi32(a, second, b));
                }
                if rest > 0 {
                    let from = from.add(2 * whole);
                    let a = _mm512_maskz_loadu_epi32(low, from.cast());
                    let b = _mm512_maskz_loadu_epi32(high, from.wrapping_add(LANES).cast());
                    let (x, y) = (
                        _mm512_permutex2var_epi32(a, first, b),
                        _mm512_permutex2var_epi32(a, second, b),
                    );
                    _mm512_mask_storeu_epi32(even.add(to + whole).cast(), last, x);
                    _mm512_mask_storeu_epi32(odd.add(to + whole).cast(), last, y);
                }
            }
        }
    }

    /// # Safety
    /// AVX-512 F exists; as [`super::join`].
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn join(to: *mut u32, [even, odd]: [*const u32; 2], lines: Lines) {
        let first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        let second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
        let whole = lines.length / LANES * LANES;
        let rest = lines.length - whole;
        let ([last, _], [low, high]) = (inside(rest), inside(2 * rest));
        // SAFETY: registers and masks reach the pairs of a line alone; the caller's promise.
        unsafe {
            for line in 0..lines.count {
                let to = to.wrapping_offset(line as isize * lines.step);
                let from = line * lines.length;
                for i in (0..whole).step_by(LANES) {
                    let a = _mm512_loadu_si512(even.add(from + i).cast());
                    let b = _mm512_loadu_si512(odd.add(from + i).cast());
                    let (x, y) = (
                        _mm512_permutex2var_epi32(a, first, b),
                        _mm512_permutex2var_epi32(a, second, b),
                    );
                    _mm512_storeu_si512(to.add(2 * i).cast(), x);
                    _mm512_storeu_si512(to.add(2 * i + LANES).cast(), y);
                }
                if rest > 0 {
                    let a = _mm512_maskz_loadu_epi32(last, even.add(from + whole).cast());
                    let b = _mm512_maskz_loadu_epi32(last, odd.add(from + whole).cast());
                    let (x, y) = (
                        _mm512_permutex2var_epi32(a, first, b),
                        _mm512_permutex2var_epi32(a, second, b),
                    );
                    let to = to.add(2 * whole);
                    _mm512_mask_storeu_epi32(to.cast(), low, x);
                    _mm512_mask_storeu_epi32(to.wrapping_add(LANES).cast(), high, y);
                }
            }
        }
    }

    /// [`super::split`] of lines that are long enough: the last ones of a line overlap those before.
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn split_few([even, odd]: [*mut u32; 2], from: *const u32, lines: Lines) {
        // SAFETY: SSE2 is part of the target; the caller's promise.
        unsafe {
            for line in 0..lines.count {
                let from = from.wrapping_offset(line as isize * lines.step).cast::<f32>();
                let to = line * lines.length;
                for i in (0..lines.length).step_by(FEW) {
                    let i = i.min(lines.length - FEW);
                    let (a, b) = (_mm_loadu_ps(from.add(2 * i)), _mm_loadu_ps(from.add(2 * i + FEW)));
                    _mm_storeu_ps(even.add(to + i).cast(), _mm_shuffle_ps::<0b10_00_10_00>(a, b));
                    _mm_storeu_ps(odd.add(to + i).cast(), _mm_shuffle_ps::<0b11_01_11_01>(a, b));
                }
            }
        }
    }

    /// [`super::join`] of such lines.
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn join_few(to: *mut u32, [even, odd]: [*const u32; 2], lines: Lines) {
        // SAFETY: SSE2 is part of the target; the caller's promise.
        unsafe {
            for line in 0..lines.count {
                let to = to.wrapping_offset(line as isize * lines.step).cast::<f32>();
                let from = line * lines.length;
                for i in (0..lines.length).step_by(FEW) {
                    let i = i.min(lines.length - FEW);
                    let (a, b) = (
                        _mm_loadu_ps(even.add(from + i).cast()),
                        _mm_loadu_ps(odd.add(from + i).cast()),
                    );
                    _mm_storeu_ps(to.add(2 * i), _mm_unpacklo_ps(a, b));
                    _mm_storeu_ps(to.add(2 * i + FEW), _mm_unpackhi_ps(a, b));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{join, split};
    use crate::exec::strided::Lines;
    use crate::isa::Isa;

    #[test]
    fn pairs_of_every_length_are_split_and_joined_and_nothing_else() {
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            for length in (1..70).chain([500]) {
                let (count, step) = (3, 2 * length + 5);
                let lines = Lines {
                    count,
                    length,
                    stride: 2,
                    step: step as isize,
                };
                let wide: Vec<u32> = (0..(count * step) as u32).map(|i| i * 7 + 1).collect();
                let mut halves = [vec![0; count * length + 1], vec![0; count * length + 1]];
                let to = halves.each_mut().map(|half| half.as_mut_ptr());
                // SAFETY: all sides have the elements.
                unsafe { split(isa, to, wide.as_ptr(), lines) };
                for (odd, half) in halves.iter().enumerate() {
                    for (i, &value) in half.iter().enumerate() {
                        let wanted = match i {
                            i if i == count * length => 0,
                            i => wide[i / length * step + i % length * 2 + odd],
                        };
                        assert_eq!(
                            value, wanted,
                            "{isa:?}, length {length}, element {i} of half {odd}"
                        );
                    }
                }
                let mut back = vec![u32::MAX; wide.len()];
                // SAFETY: as above.
                unsafe {
                    join(
                        isa,
                        back.as_mut_ptr(),
                        halves.each_ref().map(|half| half.as_ptr()),
                        lines,
                    )
                };
                for (i, &value) in back.iter().enumerate() {
                    let wanted = if i % step < 2 * length { wide[i] } else { u32::MAX };
                    assert_eq!(value, wanted, "{isa:?}, length {length}, place {i}");
                }
            }
        }
    }
}
