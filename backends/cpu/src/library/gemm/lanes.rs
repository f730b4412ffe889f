//! Packing of several elements along k into a lane of 32 bits: four of 8 bits, or two of 16. Elements behind the last one are zeros.

use super::Element;
use super::pack::{PackFn, Panel};
use crate::isa::Isa;

/// The packing for an instruction set; `FLIP` is added to each byte without a carry.
pub(super) fn lanes<T: Element, const FLIP: u8>(isa: Isa) -> PackFn<T> {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => x86::lanes_avx512::<T, FLIP>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => x86::lanes_avx2::<T, FLIP>,
        _ => lanes_plain::<T, FLIP>,
    }
}

unsafe fn lanes_plain<T: Element, const FLIP: u8>(p: &Panel<T>) {
    // SAFETY: same contract.
    unsafe { lanes_from::<T, FLIP>(p, 0) }
}

/// Elements in a lane.
const fn per<T>() -> usize {
    4 / size_of::<T>()
}

/// Packs the columns (or rows of A) from `first` on.
#[inline(always)]
unsafe fn lanes_from<T: Element, const FLIP: u8>(p: &Panel<T>, first: usize) {
    const { assert!(size_of::<T::Acc>() == 4 && size_of::<T>() * per::<T>() == 4) };
    let (whole, size) = (p.kc / per::<T>(), size_of::<T>());
    let flip = u32::from_ne_bytes([FLIP; 4]);
    // SAFETY: the panel's source and destination have the extents it says.
    unsafe {
        for lane in 0..p.kc.div_ceil(per::<T>()) {
            let dst = p.dst.cast::<u32>().add(lane * p.pitch);
            let src = p.src.offset((per::<T>() * lane) as isize * p.k_step);
            if lane < whole && size == 2 && p.w_step == 1 {
                let (low, high) = (src.cast::<u16>(), src.offset(p.k_step).cast::<u16>());
                for w in first..p.width {
                    let (low, high) = (low.add(w).read(), high.add(w).read());
                    dst.add(w).write((u32::from(low) | u32::from(high) << 16) ^ flip);
                }
            } else if lane < whole && p.k_step == 1 {
                for w in first..p.width {
                    let src = src.offset(w as isize * p.w_step).cast::<u32>();
                    dst.add(w).write(src.read_unaligned() ^ flip);
                }
            } else {
                for w in first..p.width {
                    let src = src.offset(w as isize * p.w_step);
                    let mut bytes = [FLIP; 4];
                    for i in 0..per::<T>().min(p.kc - per::<T>() * lane) {
                        let from = src.offset(i as isize * p.k_step).cast::<u8>();
                        for byte in 0..size {
                            bytes[i * size + byte] = *from.add(byte);
                        }
                    }
                    dst.add(w).write(u32::from_ne_bytes(bytes) ^ flip);
                }
            }
            for w in p.width.max(first)..p.pitch {
                dst.add(w).write(0);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Words, words};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::Element;
    use super::super::pack::{Panel, transpose_f32};
    use super::{lanes_from, per};
    use crate::prefetch::{LINE, ask_second};
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn lanes_avx2<T: Element, const FLIP: u8>(p: &Panel<T>) {
        // SAFETY: same contract.
        unsafe {
            match size_of::<T>() {
                1 if p.w_step == 1 && p.kc >= per::<T>() => {
                    by_rows::<T, FLIP>(p, |l, w| rows_of_bytes::<T, FLIP>(p, l, w))
                }
                size if p.k_step == 1 => {
                    let done = p.kc / (8 * per::<T>()) * 8;
                    words(&Words {
                        dst: p.dst.cast(),
                        pitch: p.pitch,
                        src: p.src.cast(),
                        step: p.w_step * size as isize,
                        width: p.width,
                        count: done,
                        flip: i32::from_ne_bytes([FLIP; 4]),
                    });
                    let rest = Panel {
                        dst: p.dst.add(done * p.pitch),
                        src: p.src.add(done * per::<T>()),
                        kc: p.kc - done * per::<T>(),
                        ..*p
                    };
                    lanes_from::<T, FLIP>(&rest, 0);
                }
                _ => lanes_from::<T, FLIP>(p, 0),
            }
        }
    }

    /// Words that lie side by side in each of some rows, which become columns.
    pub(in crate::library::gemm) struct Words {
        pub(in crate::library::gemm) dst: *mut u32,
        pub(in crate::library::gemm) pitch: usize,
        pub(in crate::library::gemm) src: *const u8,
        /// Bytes from row to row.
        pub(in crate::library::gemm) step: isize,
        /// Rows; the others up to the pitch are zeros.
        pub(in crate::library::gemm) width: usize,
        /// Words of a row, a multiple of 8.
        pub(in crate::library::gemm) count: usize,
        /// What each word is combined with by exclusive or.
        pub(in crate::library::gemm) flip: i32,
    }

    /// Packs words with AVX2. A store may run over the end of its row: the next row, or the next panel, comes after it.
    #[inline(always)]
    pub(in crate::library::gemm) unsafe fn words(p: &Words) {
        // SAFETY: the rows have the words, and the panel room for them.
        unsafe {
            let flip = _mm256_set1_epi32(p.flip);
            for l in (0..p.count).step_by(8) {
                // From right to left: what runs over a row's end is the start of rows that are stored after it.
                for w in (0..p.pitch).step_by(8).rev() {
                    let mut r = [_mm256_setzero_ps(); 8];
                    let mut row = p.src.wrapping_offset(w as isize * p.step).wrapping_add(4 * l);
                    for (i, x) in r.iter_mut().enumerate() {
                        if w + i < p.width {
                            _mm_prefetch::<_MM_HINT_T0>(row.cast::<i8>().wrapping_add(AHEAD));
                            let loaded = _mm256_loadu_si256(row.cast());
                            *x = _mm256_castsi256_ps(_mm256_xor_si256(loaded, flip));
                            row = row.wrapping_offset(p.step);
                        }
                    }
                    transpose_avx2(&mut r);
                    for (i, x) in r.into_iter().enumerate() {
                        _mm256_storeu_ps(p.dst.add((l + i) * p.pitch + w).cast(), x);
                    }
                }
            }
        }
    }

    /// Transposes a square of 8 lanes of 32 bits.
    #[inline(always)]
    unsafe fn transpose_avx2(r: &mut [__m256; 8]) {
        // SAFETY: register operations of an instruction set that the caller has on.
        unsafe {
            let mut t = *r;
            for i in 0..4 {
                t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
                t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
            }
            // r[4 i + j]: columns j and 4 + j of rows 4 i .. 4 i + 4.
            for i in 0..2 {
                for h in 0..2 {
                    let (x, y) = (t[4 * i + h], t[4 * i + 2 + h]);
                    r[4 * i + 2 * h] = _mm256_shuffle_ps::<0x44>(x, y);
                    r[4 * i + 2 * h + 1] = _mm256_shuffle_ps::<0xee>(x, y);
                }
            }
            for j in 0..4 {
                t[j] = _mm256_permute2f128_ps::<0x20>(r[j], r[4 + j]);
                t[4 + j] = _mm256_permute2f128_ps::<0x31>(r[j], r[4 + j]);
            }
            *r = t;
        }
    }

    /// Bytes of a row that are asked for ahead of time.
    const AHEAD: usize = 256;

    /// Rows from the one that is packed to the one that is asked for.
    const ROWS_AHEAD: isize = 32;

    /// Packing with AVX-512. A store may run over the end of its row: the next row, or the next panel, comes after it.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) unsafe fn lanes_avx512<T: Element, const FLIP: u8>(p: &Panel<T>) {
        // SAFETY: the panel's contract.
        unsafe {
            if p.k_step == 1 {
                // Panels of several registers have whole ones, so only the last of a row runs over.
                for w in (0..p.pitch).step_by(16) {
                    for l in (0..p.kc).step_by(64 / size_of::<T>()) {
                        square::<T, FLIP>(p, l, w);
                    }
                }
            } else if p.w_step == 1 && p.kc >= per::<T>() {
                match size_of::<T>() {
                    1 => by_rows::<T, FLIP>(p, |l, w| rows_of_bytes::<T, FLIP>(p, l, w)),
                    _ => by_rows::<T, FLIP>(p, |l, w| rows_of_halves::<T, FLIP>(p, l, w)),
                }
            } else {
                lanes_from::<T, FLIP>(p, 0);
            }
        }
    }

    /// Packs rows that lie side by side: `group` those of a lane from a step of k on, 16 places from one on. Loops pack the rest.
    #[inline(always)]
    unsafe fn by_rows<T: Element, const FLIP: u8>(p: &Panel<T>, group: impl Fn(usize, usize)) {
        let (done, whole) = (p.width / 16 * 16, p.kc / per::<T>());
        for lane in 0..whole {
            for w in (0..done).step_by(16) {
                group(per::<T>() * lane, w);
            }
        }
        // SAFETY: the panel's contract; both parts lie in it.
        unsafe {
            if done < p.pitch {
                lanes_from::<T, FLIP>(p, done);
            }
            if per::<T>() * whole < p.kc {
                let tail = Panel {
                    dst: p.dst.add(whole * p.pitch),
                    src: p.src.offset((per::<T>() * whole) as isize * p.k_step),
                    kc: p.kc - per::<T>() * whole,
                    ..*p
                };
                lanes_from::<T, FLIP>(&tail, 0);
            }
        }
    }

    /// Four steps of k from `l`, 16 places from `w`, which lie side by side.
    #[inline(always)]
    unsafe fn rows_of_bytes<T: Element, const FLIP: u8>(p: &Panel<T>, l: usize, w: usize) {
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

    /// Two steps of k from `l`, 16 places from `w`, which lie side by side.
    #[inline(always)]
    unsafe fn rows_of_halves<T: Element, const FLIP: u8>(p: &Panel<T>, l: usize, w: usize) {
        // SAFETY: the panel has these elements; the caller has the instruction set on.
        unsafe {
            let row = |i: usize| {
                let from = p.src.offset((l + i) as isize * p.k_step).add(w);
                if w.is_multiple_of(32) {
                    let next = from.wrapping_offset(ROWS_AHEAD * p.k_step);
                    ask_second(next.cast(), LINE);
                }
                _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()))
            };
            let pairs = _mm512_or_si512(row(0), _mm512_slli_epi32::<16>(row(1)));
            let dst = p.dst.add(l / 2 * p.pitch + w);
            _mm512_storeu_si512(dst.cast(), _mm512_xor_si512(pairs, _mm512_set1_epi8(FLIP as i8)));
        }
    }

    /// A register of steps of k from `l` and 16 places from `w`, as far as they exist; each place's steps lie side by side. A raised
    /// element behind the last one is 128, which meets a zero of B.
    #[inline(always)]
    unsafe fn square<T: Element, const FLIP: u8>(p: &Panel<T>, l: usize, w: usize) {
        let bytes = ((p.kc - l) * size_of::<T>()).min(64);
        let width = p.width.saturating_sub(w);
        // SAFETY: the panel's contract; no more than `bytes` bytes of `width` rows are read.
        unsafe {
            let mask = u64::MAX >> (64 - bytes);
            let flip = _mm512_set1_epi8(FLIP as i8);
            let mut r = [_mm512_setzero_ps(); 16];
            let mut row = p.src.wrapping_offset(w as isize * p.w_step).wrapping_add(l);
            for (i, x) in r.iter_mut().enumerate() {
                if i < width {
                    _mm_prefetch::<_MM_HINT_T0>(row.cast::<i8>().wrapping_add(AHEAD));
                    let loaded = _mm512_maskz_loadu_epi8(mask, row.cast());
                    *x = _mm512_castsi512_ps(_mm512_xor_si512(loaded, flip));
                    row = row.wrapping_offset(p.w_step);
                }
            }
            transpose_f32(&mut r);
            let mut dst = p.dst.wrapping_add(l / per::<T>() * p.pitch + w);
            for (i, x) in r.iter().enumerate() {
                if i < bytes.div_ceil(4) {
                    _mm512_storeu_ps(dst.cast(), *x);
                    dst = dst.wrapping_add(p.pitch);
                }
            }
        }
    }
}
