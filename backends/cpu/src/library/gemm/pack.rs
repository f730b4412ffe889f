//! Packing: copies a panel of A or B into the order in which a micro-kernel reads it, converting to the accumulator type.

use super::tile::Lines;
use super::{Element, Stored};

/// A panel to be packed: `dst[l * pitch + w] = src[w * w_step + l * k_step]` for `w < width`, zeros up to `pitch`.
#[repr(C)]
pub(crate) struct Panel<T: Stored> {
    /// Packed panel; the kernels may write up to 16 elements past `kc * pitch`.
    pub(crate) dst: *mut T::Acc,
    /// Elements of `dst` per step of k.
    pub(crate) pitch: usize,
    /// Element `[0, 0]`.
    pub(crate) src: *const T,
    /// Rows of A, or columns of B.
    pub(crate) width: usize,
    /// Step in elements along the width.
    pub(crate) w_step: isize,
    /// Step in elements along k.
    pub(crate) k_step: isize,
    /// Length along k.
    pub(crate) kc: usize,
}

impl<T: Stored> Panel<T> {
    /// Its source, to be prefetched. Nothing where the elements are apart in both directions.
    pub(crate) fn lines(&self) -> Lines {
        let (step, runs, elements) = match (self.w_step, self.k_step) {
            (1, step) => (step, self.kc, self.width),
            (step, 1) => (step, self.width, self.kc),
            _ => return Lines::NONE,
        };
        let size = size_of::<T>();
        Lines {
            start: self.src.cast(),
            step: step * size as isize,
            runs,
            bytes: elements * size,
        }
    }
}

/// Packs one panel.
pub(crate) type PackFn<T> = unsafe fn(&Panel<T>);

#[inline(always)]
unsafe fn pack_loops<T: Element>(p: &Panel<T>) {
    // SAFETY: the panel's source and destination have the extents it says.
    unsafe {
        for l in 0..p.kc {
            let (dst, src) = (p.dst.add(l * p.pitch), p.src.offset(l as isize * p.k_step));
            if p.w_step == 1 {
                for w in 0..p.width {
                    dst.add(w).write((*src.add(w)).widen());
                }
            } else {
                for w in 0..p.width {
                    dst.add(w).write((*src.offset(w as isize * p.w_step)).widen());
                }
            }
            for w in p.width..p.pitch {
                dst.add(w).write(T::ZERO);
            }
        }
    }
}

/// Packing for any processor.
pub(crate) unsafe fn pack_plain<T: Element>(p: &Panel<T>) {
    // SAFETY: same contract.
    unsafe { pack_loops(p) }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::Element;
    use super::super::element::Wide;
    use super::super::lanes::{Words, words};
    use super::{Panel, pack_loops};
    use half::{bf16, f16};
    use std::arch::x86_64::*;
    use thalweg_hal::f8::{F8E4M3, F8E5M2};

    /// Widens f16 with F16C.
    #[inline(always)]
    pub(in crate::library::gemm) unsafe fn widen_f16(to: *mut f32, from: *const f16, count: usize) {
        let whole = count / 8 * 8;
        // SAFETY: there are `count` elements; the caller has the instruction set on.
        unsafe {
            for i in (0..whole).step_by(8) {
                _mm256_storeu_ps(to.add(i), _mm256_cvtph_ps(_mm_loadu_si128(from.add(i).cast())));
            }
            for i in whole..count {
                to.add(i).write((*from.add(i)).widen());
            }
        }
    }

    /// Terms that are widened before they are transposed, and most columns.
    const WIDENED: [usize; 2] = [64, 32];

    /// Packing with AVX2.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(crate) unsafe fn pack_avx2<T: Element>(p: &Panel<T>) {
        let widens = !T::DIRECT && size_of::<T::Acc>() == 4;
        // SAFETY: same contract.
        unsafe {
            if widens && p.w_step == 1 {
                for l in 0..p.kc {
                    let (dst, src) = (p.dst.add(l * p.pitch), p.src.offset(l as isize * p.k_step));
                    T::widen_row(dst, src, p.width);
                    for w in p.width..p.pitch {
                        dst.add(w).write(T::ZERO);
                    }
                }
            } else if widens && p.k_step == 1 && p.pitch <= WIDENED[1] {
                for l in (0..p.kc).step_by(WIDENED[0]) {
                    widen_columns(&Panel {
                        dst: p.dst.add(l * p.pitch),
                        src: p.src.add(l),
                        kc: WIDENED[0].min(p.kc - l),
                        ..*p
                    });
                }
            } else {
                pack_loops(p);
            }
        }
    }

    /// Packs columns of a few terms.
    #[inline(always)]
    unsafe fn widen_columns<T: Element>(p: &Panel<T>) {
        const { assert!(WIDENED[0].is_multiple_of(8)) };
        let mut wide = [[T::ZERO; WIDENED[0]]; WIDENED[1]];
        let done = p.kc / 8 * 8;
        // SAFETY: the panel's contract; no column has more terms, and no more columns are read than there is room for.
        unsafe {
            for (w, wide) in wide[..p.width].iter_mut().enumerate() {
                T::widen_row(wide.as_mut_ptr(), p.src.offset(w as isize * p.w_step), p.kc);
            }
            words(&Words {
                dst: p.dst.cast(),
                pitch: p.pitch,
                src: wide.as_ptr().cast(),
                step: size_of_val(&wide[0]) as isize,
                width: p.width,
                count: done,
                flip: 0,
            });
            for l in done..p.kc {
                for (w, wide) in wide[..p.pitch].iter().enumerate() {
                    p.dst.add(l * p.pitch + w).write(wide[l]);
                }
            }
        }
    }

    /// Elements that AVX-512 loads as a register of the accumulator type. The instruction set must be on.
    pub(crate) trait Load512: Element {
        type Register: Copy;
        const LANES: usize;
        /// The first `count` (at most `LANES`) elements of `p`, then zeros.
        unsafe fn load(p: *const Self, count: usize) -> Self::Register;
        unsafe fn store(p: *mut Self::Acc, x: Self::Register);
        /// Transposes `r[0..LANES]`, a square matrix of one row per register.
        unsafe fn transpose(r: &mut [Self::Register; 16]);
    }

    #[inline(always)]
    fn mask(count: usize) -> u16 {
        ((1u32 << count) - 1) as u16
    }

    /// Transposes a square of 16 lanes of 32 bits.
    #[inline(always)]
    pub(in crate::library::gemm) unsafe fn transpose_f32(r: &mut [__m512; 16]) {
        // SAFETY: register operations of an instruction set that the caller has on.
        unsafe {
            let mut t = *r;
            for i in 0..8 {
                t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
                t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
            }
            // r[4 i + j]: column 4 lane + j of rows 4 i .. 4 i + 4.
            for i in 0..4 {
                for h in 0..2 {
                    let (x, y) = (_mm512_castps_pd(t[4 * i + h]), _mm512_castps_pd(t[4 * i + 2 + h]));
                    r[4 * i + 2 * h] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
                    r[4 * i + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
                }
            }
            for j in 0..4 {
                let low = _mm512_shuffle_f32x4::<0x44>(r[j], r[4 + j]);
                let high = _mm512_shuffle_f32x4::<0xee>(r[j], r[4 + j]);
                let low2 = _mm512_shuffle_f32x4::<0x44>(r[8 + j], r[12 + j]);
                let high2 = _mm512_shuffle_f32x4::<0xee>(r[8 + j], r[12 + j]);
                t[j] = _mm512_shuffle_f32x4::<0x88>(low, low2);
                t[4 + j] = _mm512_shuffle_f32x4::<0xdd>(low, low2);
                t[8 + j] = _mm512_shuffle_f32x4::<0x88>(high, high2);
                t[12 + j] = _mm512_shuffle_f32x4::<0xdd>(high, high2);
            }
            *r = t;
        }
    }

    macro_rules! load512_f32 {
        ($t:ty, |$p:ident, $count:ident| $load:expr) => {
            impl Load512 for $t {
                type Register = __m512;
                const LANES: usize = 16;
                #[inline(always)]
                unsafe fn load($p: *const Self, $count: usize) -> __m512 {
                    // SAFETY: only the first `count` elements are read; the instruction set is on.
                    unsafe { $load }
                }
                #[inline(always)]
                unsafe fn store(p: *mut f32, x: __m512) {
                    // SAFETY: the caller's contract.
                    unsafe { _mm512_storeu_ps(p, x) }
                }
                #[inline(always)]
                unsafe fn transpose(r: &mut [__m512; 16]) {
                    // SAFETY: the caller's contract.
                    unsafe { transpose_f32(r) }
                }
            }
        };
    }
    load512_f32!(f32, |p, count| _mm512_maskz_loadu_ps(mask(count), p));
    load512_f32!(f16, |p, count| _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(
        mask(count),
        p.cast()
    )));
    load512_f32!(bf16, |p, count| {
        let bits = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask(count), p.cast()));
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits))
    });
    load512_f32!(Wide<f16>, |p, count| f16::load(p.cast(), count));
    load512_f32!(Wide<bf16>, |p, count| bf16::load(p.cast(), count));
    // The upper byte of an f16, and a float of 8 bits with f16's exponent 8 too low.
    load512_f32!(F8E5M2, |p, count| {
        let bits = _mm256_cvtepu8_epi16(_mm_maskz_loadu_epi8(mask(count), p.cast()));
        _mm512_cvtph_ps(_mm256_slli_epi16::<8>(bits))
    });
    load512_f32!(F8E4M3, |p, count| {
        let bits = _mm256_cvtepi8_epi16(_mm_maskz_loadu_epi8(mask(count), p.cast()));
        let size = _mm256_and_si256(bits, _mm256_set1_epi16(0x7f));
        let sign = _mm256_and_si256(bits, _mm256_set1_epi16(i16::MIN));
        let none = _mm256_cmpeq_epi16_mask(size, _mm256_set1_epi16(0x7f));
        let low = _mm512_cvtph_ps(_mm256_or_si256(sign, _mm256_slli_epi16::<7>(size)));
        let value = _mm512_mul_ps(low, _mm512_set1_ps(256.0));
        _mm512_mask_mov_ps(value, none, _mm512_set1_ps(f32::NAN))
    });

    impl Load512 for f64 {
        type Register = __m512d;
        const LANES: usize = 8;
        #[inline(always)]
        unsafe fn load(p: *const Self, count: usize) -> __m512d {
            // SAFETY: only the first `count` elements are read; the instruction set is on.
            unsafe { _mm512_maskz_loadu_pd(mask(count) as u8, p) }
        }
        #[inline(always)]
        unsafe fn store(p: *mut f64, x: __m512d) {
            // SAFETY: the caller's contract.
            unsafe { _mm512_storeu_pd(p, x) }
        }
        #[inline(always)]
        unsafe fn transpose(r: &mut [__m512d; 16]) {
            // SAFETY: register operations of an instruction set that the caller has on.
            unsafe {
                let mut t = *r;
                for i in 0..4 {
                    t[2 * i] = _mm512_unpacklo_pd(r[2 * i], r[2 * i + 1]);
                    t[2 * i + 1] = _mm512_unpackhi_pd(r[2 * i], r[2 * i + 1]);
                }
                for j in 0..2 {
                    let low = _mm512_shuffle_f64x2::<0x44>(t[j], t[2 + j]);
                    let high = _mm512_shuffle_f64x2::<0xee>(t[j], t[2 + j]);
                    let low2 = _mm512_shuffle_f64x2::<0x44>(t[4 + j], t[6 + j]);
                    let high2 = _mm512_shuffle_f64x2::<0xee>(t[4 + j], t[6 + j]);
                    r[j] = _mm512_shuffle_f64x2::<0x88>(low, low2);
                    r[2 + j] = _mm512_shuffle_f64x2::<0xdd>(low, low2);
                    r[4 + j] = _mm512_shuffle_f64x2::<0x88>(high, high2);
                    r[6 + j] = _mm512_shuffle_f64x2::<0xdd>(high, high2);
                }
            }
        }
    }

    /// Registers of a row that are asked for ahead of time: the rows are more than the hardware follows.
    const AHEAD: usize = 6;

    /// Packing with AVX-512. A store may run over the end of its row: the next row, or the next panel, comes after it.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(crate) unsafe fn pack_avx512<T: Load512>(p: &Panel<T>) {
        // SAFETY: the panel's source and destination have the extents it says; loads are masked to the width.
        unsafe {
            if p.w_step == 1 {
                for l in 0..p.kc {
                    let (dst, src) = (p.dst.add(l * p.pitch), p.src.offset(l as isize * p.k_step));
                    for w in (0..p.pitch).step_by(T::LANES) {
                        let count = p.width.saturating_sub(w).min(T::LANES);
                        T::store(dst.add(w), T::load(src.wrapping_add(w), count));
                    }
                }
            } else if p.k_step == 1 {
                if p.pitch.is_multiple_of(T::LANES) {
                    // Few rows at a time: the lines of many may fall on one set of L1.
                    for w in (0..p.pitch).step_by(T::LANES) {
                        for l in (0..p.kc).step_by(T::LANES) {
                            square(p, l, w);
                        }
                    }
                    return;
                }
                for l in (0..p.kc).step_by(T::LANES) {
                    // From right to left: what runs over a row's end is the start of rows that are stored after it.
                    for w in (0..p.pitch).step_by(T::LANES).rev() {
                        square(p, l, w);
                    }
                }
            } else {
                pack_loops(p);
            }
        }
    }

    /// Packs the square of `LANES` steps from `l` and as many places from `w`, as far as they exist. Its loops have constant bounds, so
    /// that `r` stays in registers.
    #[inline(always)]
    unsafe fn square<T: Load512>(p: &Panel<T>, l: usize, w: usize) {
        let steps = (p.kc - l).min(T::LANES);
        let width = p.width.saturating_sub(w);
        // SAFETY: the panel's contract; no more than `steps` elements of `width` rows are read.
        unsafe {
            let mut r = [T::load(p.src, 0); 16];
            let mut row = p.src.wrapping_offset(w as isize * p.w_step).wrapping_add(l);
            for (i, x) in r.iter_mut().enumerate().take(T::LANES) {
                if i < width {
                    _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(AHEAD * T::LANES).cast());
                    *x = T::load(row, steps);
                    row = row.wrapping_offset(p.w_step);
                }
            }
            T::transpose(&mut r);
            let mut dst = p.dst.wrapping_add(l * p.pitch + w);
            for (i, x) in r.iter().enumerate().take(T::LANES) {
                if i < steps {
                    T::store(dst, *x);
                    dst = dst.wrapping_add(p.pitch);
                }
            }
        }
    }
}
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::*;
