//! Packing of bytes into lanes of four, or of two as 16 bits. Elements behind the last one are zeros.

use super::super::pack::{PackFn, Panel};
use super::Byte;
use crate::isa::Isa;

/// Lanes of four bytes; `raised` adds 128 to each.
pub(super) fn fours(isa: Isa, raised: bool) -> PackFn<Byte> {
    match (isa, raised) {
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, true) => x86::fours_avx512::<0x80>,
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, false) => x86::fours_avx512::<0>,
        (_, true) => any_fours::<0x80>,
        (_, false) => any_fours::<0>,
    }
}

/// Lanes of two numbers of 16 bits.
pub(super) fn pairs(isa: Isa, signed: bool) -> PackFn<Byte> {
    match (isa, signed) {
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512 | Isa::Avx2, true) => x86::pairs_avx2::<true>,
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512 | Isa::Avx2, false) => x86::pairs_avx2::<false>,
        (_, true) => pairs_plain::<true>,
        (_, false) => pairs_plain::<false>,
    }
}

/// `flip` turns the bit of 128.
unsafe fn any_fours<const FLIP: u8>(p: &Panel<Byte>) {
    // SAFETY: same contract.
    unsafe { fours_from::<FLIP>(p, 0) }
}

/// Packs the columns (or rows of A) from `first` on.
#[inline(always)]
unsafe fn fours_from<const FLIP: u8>(p: &Panel<Byte>, first: usize) {
    let whole = p.kc / 4;
    // SAFETY: the panel's source and destination have the extents it says.
    unsafe {
        for lane in 0..p.kc.div_ceil(4) {
            let (dst, src) = (
                p.dst.add(lane * p.pitch),
                p.src.offset(4 * lane as isize * p.k_step),
            );
            for w in first..p.width {
                let src = src.offset(w as isize * p.w_step);
                let bytes = if lane < whole && p.k_step == 1 {
                    src.cast::<[u8; 4]>().read_unaligned()
                } else {
                    let mut bytes = [FLIP; 4];
                    for (i, byte) in bytes.iter_mut().enumerate().take(p.kc - 4 * lane) {
                        *byte = (*src.offset(i as isize * p.k_step)).0;
                    }
                    bytes
                };
                dst.add(w)
                    .write(i32::from_ne_bytes(bytes.map(|byte| byte ^ FLIP)));
            }
            for w in p.width.max(first)..p.pitch {
                dst.add(w).write(0);
            }
        }
    }
}

#[inline(always)]
unsafe fn pairs_loops<const SIGNED: bool>(p: &Panel<Byte>) {
    let wide = |byte: Byte| match SIGNED {
        true => i32::from(byte.0 as i8),
        false => i32::from(byte.0),
    };
    let lane = |low: i32, high: i32| (low & 0xffff) | (high << 16);
    // SAFETY: the panel's source and destination have the extents it says.
    unsafe {
        for step in 0..p.kc.div_ceil(2) {
            let (dst, src) = (
                p.dst.add(step * p.pitch),
                p.src.offset(2 * step as isize * p.k_step),
            );
            if 2 * step + 1 == p.kc {
                for w in 0..p.width {
                    dst.add(w)
                        .write(lane(wide(*src.offset(w as isize * p.w_step)), 0));
                }
            } else if p.w_step == 1 {
                for w in 0..p.width {
                    let (low, high) = (*src.add(w), *src.offset(w as isize + p.k_step));
                    dst.add(w).write(lane(wide(low), wide(high)));
                }
            } else {
                for w in 0..p.width {
                    let src = src.offset(w as isize * p.w_step);
                    dst.add(w).write(lane(wide(*src), wide(*src.offset(p.k_step))));
                }
            }
            for w in p.width..p.pitch {
                dst.add(w).write(0);
            }
        }
    }
}

unsafe fn pairs_plain<const SIGNED: bool>(p: &Panel<Byte>) {
    // SAFETY: same contract.
    unsafe { pairs_loops::<SIGNED>(p) }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::super::pack::{Panel, transpose_f32};
    use super::super::Byte;
    use super::{fours_from, pairs_loops};
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn pairs_avx2<const SIGNED: bool>(p: &Panel<Byte>) {
        // SAFETY: same contract.
        unsafe { pairs_loops::<SIGNED>(p) }
    }

    /// Bytes of a row that are asked for ahead of time.
    const AHEAD: usize = 256;

    /// Packing with AVX-512. A store may run over the end of its row: the next row, or the next panel, comes after it.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) unsafe fn fours_avx512<const FLIP: u8>(p: &Panel<Byte>) {
        // SAFETY: the panel's contract.
        unsafe {
            if p.k_step == 1 {
                // Panels of several registers have whole ones, so only the last of a row runs over.
                for w in (0..p.pitch).step_by(16) {
                    for l in (0..p.kc).step_by(64) {
                        square::<FLIP>(p, l, w);
                    }
                }
            } else if p.w_step == 1 && p.kc >= 4 {
                let done = p.width / 16 * 16;
                for l in (0..p.kc / 4 * 4).step_by(4) {
                    for w in (0..done).step_by(16) {
                        rows::<FLIP>(p, l, w);
                    }
                }
                if done < p.pitch || !p.kc.is_multiple_of(4) {
                    rest::<FLIP>(p, done);
                }
            } else {
                fours_from::<FLIP>(p, 0);
            }
        }
    }

    /// What whole squares of four rows and 16 columns leave: the columns from `done` on, and the last steps of k.
    unsafe fn rest<const FLIP: u8>(p: &Panel<Byte>, done: usize) {
        let whole = p.kc / 4;
        // SAFETY: the panel's contract; both parts lie in it.
        unsafe {
            fours_from::<FLIP>(p, done);
            let tail = Panel {
                dst: p.dst.add(whole * p.pitch),
                src: p.src.offset(4 * whole as isize * p.k_step),
                kc: p.kc - 4 * whole,
                ..*p
            };
            fours_from::<FLIP>(&tail, 0);
        }
    }

    /// Four steps of k from `l`, 16 places from `w`, which lie side by side.
    #[inline(always)]
    unsafe fn rows<const FLIP: u8>(p: &Panel<Byte>, l: usize, w: usize) {
        // SAFETY: the panel has these elements; the caller has the instruction set on.
        unsafe {
            let flip = _mm_set1_epi8(FLIP as i8);
            let row = |i: usize| {
                let from = p.src.offset((l + i) as isize * p.k_step).add(w);
                _mm_xor_si128(_mm_loadu_si128(from.cast()), flip)
            };
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            let (low, high) = (_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b));
            let (low2, high2) = (_mm_unpacklo_epi8(c, d), _mm_unpackhi_epi8(c, d));
            let dst = p.dst.add(l / 4 * p.pitch + w);
            let lanes = [
                _mm_unpacklo_epi16(low, low2),
                _mm_unpackhi_epi16(low, low2),
                _mm_unpacklo_epi16(high, high2),
                _mm_unpackhi_epi16(high, high2),
            ];
            for (i, four) in lanes.into_iter().enumerate() {
                _mm_storeu_si128(dst.add(4 * i).cast(), four);
            }
        }
    }

    /// 64 steps of k from `l` and 16 places from `w`, as far as they exist; each place's steps lie side by side. A raised element
    /// behind the last one is 128, which meets a zero of B.
    #[inline(always)]
    unsafe fn square<const FLIP: u8>(p: &Panel<Byte>, l: usize, w: usize) {
        let bytes = (p.kc - l).min(64);
        let width = p.width.saturating_sub(w);
        // SAFETY: the panel's contract; no more than `bytes` elements of `width` rows are read.
        unsafe {
            let mask = u64::MAX >> (64 - bytes);
            let flip = _mm512_set1_epi8(FLIP as i8);
            let mut r = [_mm512_setzero_ps(); 16];
            let mut row = p.src.wrapping_offset(w as isize * p.w_step).wrapping_add(l);
            for (i, x) in r.iter_mut().enumerate() {
                if i < width {
                    _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(AHEAD).cast());
                    let loaded = _mm512_maskz_loadu_epi8(mask, row.cast());
                    *x = _mm512_castsi512_ps(_mm512_xor_si512(loaded, flip));
                    row = row.wrapping_offset(p.w_step);
                }
            }
            transpose_f32(&mut r);
            let mut dst = p.dst.wrapping_add(l / 4 * p.pitch + w);
            for (i, x) in r.iter().enumerate() {
                if i < bytes.div_ceil(4) {
                    _mm512_storeu_ps(dst.cast(), *x);
                    dst = dst.wrapping_add(p.pitch);
                }
            }
        }
    }
}
