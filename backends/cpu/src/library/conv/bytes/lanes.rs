//! From channels of bytes to lanes of 32 bits.

use super::Pick;
use crate::isa::Isa;
use crate::library::conv::planes::{Plane, PlaneFn, loops};
use crate::library::gemm::Byte;

/// Places that are joined at once.
const STEP: usize = 16;

/// One lane of the bytes of `EACH` channels: four of them, or two as numbers of 16 bits.
#[inline(always)]
fn joined<const EACH: usize, const SIGNED: bool>(bytes: [u8; EACH]) -> u32 {
    let part = |byte: u8| match (EACH, SIGNED) {
        (2, true) => u32::from(i16::from(byte.cast_signed()).cast_unsigned()),
        _ => u32::from(byte),
    };
    let bits = 32 / EACH;
    (0..EACH).fold(0, |lane, i| lane | part(bytes[i]) << (i * bits))
}

/// The copying of planes.
pub(super) fn plane<const EACH: usize, const SIGNED: bool>(isa: Isa) -> PlaneFn<Byte> {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => x86::avx512::<EACH, SIGNED>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => x86::avx2::<EACH, SIGNED>,
        _ => plain::<EACH, SIGNED>,
    }
}

unsafe fn plain<const EACH: usize, const SIGNED: bool>(p: &Plane<Byte>) {
    // SAFETY: same contract.
    unsafe { any::<EACH, SIGNED>(p) }
}

/// The bytes of the lane's channels from one on; those behind the last channel are the last one's, which weights of zero meet.
#[inline(always)]
fn sources<const EACH: usize>(p: &Plane<Byte>, src: *const Byte) -> [*const u8; EACH] {
    std::array::from_fn(|i| src.wrapping_offset(i.min(p.count - 1) as isize * p.apart).cast())
}

#[inline(always)]
unsafe fn any<const EACH: usize, const SIGNED: bool>(p: &Plane<Byte>) {
    let raise = p.zero.cast_unsigned();
    let lines = |step: isize| {
        move |dst: *mut i32, src: *const Byte, count: usize| {
            let sources = sources::<EACH>(p, src);
            let byte = |source: *const u8, at: usize| {
                // SAFETY: the caller vouches for `count` elements of each channel.
                unsafe { *source.offset(at as isize * step) }
            };
            let lane = |bytes: [u8; EACH]| (joined::<EACH, SIGNED>(bytes) ^ raise).cast_signed();
            // SAFETY: the caller has room for `count` lanes.
            unsafe {
                if count < STEP {
                    for k in 0..count {
                        dst.add(k).write(lane(sources.map(|source| byte(source, k))));
                    }
                    return;
                }
                // The last places begin earlier where they would not fit.
                for at in (0..count).step_by(STEP).map(|at| at.min(count - STEP)) {
                    let bytes =
                        sources.map(|source| -> [u8; STEP] { std::array::from_fn(|k| byte(source, at + k)) });
                    let some: [i32; STEP] =
                        std::array::from_fn(|k| lane(std::array::from_fn(|i| bytes[i][k])));
                    dst.add(at).cast::<[i32; STEP]>().write_unaligned(some);
                }
            }
        }
    };
    // SAFETY: the caller's contract. Constant steps let the compiler see neighbours.
    unsafe {
        match p.steps[2] {
            1 => loops(p, lines(1)),
            2 => loops(p, lines(2)),
            step => loops(p, lines(step)),
        }
    }
}

/// The lane of `count` weights of 1 to `EACH` channels; the others are zeros.
///
/// # Safety
/// The weights are readable.
#[inline(always)]
pub(super) unsafe fn lane<const EACH: usize, const SIGNED: bool>(
    src: *const Byte,
    channel: isize,
    count: usize,
) -> i32 {
    let byte = |i: usize| match i < count {
        // SAFETY: the caller vouches for it.
        true => unsafe { (*src.wrapping_offset(i as isize * channel)).0 },
        false => 0,
    };
    joined::<EACH, SIGNED>(std::array::from_fn(byte)).cast_signed()
}

/// Packs weights; see [`super::PackLanesFn`].
pub(super) unsafe fn pack<const EACH: usize, const SIGNED: bool>(of: &Pick<'_>, pitch: usize, dst: *mut i32) {
    const { assert!(EACH == 2 || EACH == 4) };
    let w = of.weights;
    let rows = w
        .ptr
        .wrapping_offset(of.group as isize * w.group + of.rows.start as isize * w.row);
    let taps = of.pass.taps();
    for first in of.lanes.clone().step_by(of.together) {
        let lanes = first..of.lanes.end.min(first + of.together);
        let apart = lanes.len() * pitch;
        for lane in lanes {
            let at = (first - of.lanes.start) * taps + lane - first;
            let mut dst = dst.wrapping_add(at * pitch);
            let src = rows.wrapping_offset((lane * EACH) as isize * w.channel);
            let count = EACH.min(w.channels - lane * EACH);
            of.pass.each_tap(|taps| {
                let src = src.wrapping_offset(w.tap(taps));
                // SAFETY: the caller vouches for the weights and for `pitch` lanes.
                unsafe {
                    for row in 0..of.rows.len() {
                        let src = src.wrapping_offset(row as isize * w.row);
                        dst.add(row)
                            .write(self::lane::<EACH, SIGNED>(src, w.channel, count));
                    }
                    for row in of.rows.len()..pitch {
                        dst.add(row).write(0);
                    }
                }
                dst = dst.wrapping_add(apart);
            });
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{STEP, any, sources};
    use crate::library::conv::planes::{Plane, loops};
    use crate::library::gemm::Byte;
    use crate::prefetch::ask;
    use std::arch::x86_64::*;

    /// Bytes between what is copied and what is asked for.
    const AHEAD: usize = 1 << 10;

    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn avx2<const EACH: usize, const SIGNED: bool>(p: &Plane<Byte>) {
        // SAFETY: same contract.
        unsafe { any::<EACH, SIGNED>(p) }
    }

    /// With whole registers: a row's last one runs over its end with zeros.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) unsafe fn avx512<const EACH: usize, const SIGNED: bool>(p: &Plane<Byte>) {
        // SAFETY: same contract; what is written past a row's end is written again or is slack. Masks leave out what does not exist.
        unsafe {
            if !matches!(p.steps[2], 1 | 2) {
                any::<EACH, SIGNED>(p);
                return;
            }
            let raise = _mm512_set1_epi32(p.zero);
            let wide = |bytes: __m128i| match (EACH, SIGNED) {
                (2, true) => _mm512_and_si512(_mm512_cvtepi8_epi32(bytes), _mm512_set1_epi32(0xffff)),
                _ => _mm512_cvtepu8_epi32(bytes),
            };
            let two = p.steps[2] == 2;
            loops(p, |dst, src, count| {
                let sources = sources::<EACH>(p, src);
                for k in (0..count).step_by(STEP) {
                    let some = (count - k).min(STEP);
                    let parts = sources.map(|source| match two {
                        false => {
                            ask(source.wrapping_add(k + AHEAD), 1);
                            _mm_maskz_loadu_epi8(
                                (u32::MAX >> (32 - some)) as u16,
                                source.wrapping_add(k).cast(),
                            )
                        }
                        true => {
                            ask(source.wrapping_add(2 * k + AHEAD), 1);
                            let mask = u32::MAX >> (33 - 2 * some);
                            _mm256_cvtepi16_epi8(_mm256_maskz_loadu_epi8(
                                mask,
                                source.wrapping_add(2 * k).cast(),
                            ))
                        }
                    });
                    let parts = parts.map(wide);
                    let lanes = match EACH {
                        2 => _mm512_or_si512(parts[0], _mm512_slli_epi32::<16>(parts[1])),
                        _ => {
                            let low = _mm512_or_si512(parts[0], _mm512_slli_epi32::<8>(parts[1]));
                            let high =
                                _mm512_or_si512(parts[2 % EACH], _mm512_slli_epi32::<8>(parts[3 % EACH]));
                            _mm512_or_si512(low, _mm512_slli_epi32::<16>(high))
                        }
                    };
                    _mm512_storeu_si512(dst.add(k).cast(), _mm512_xor_si512(lanes, raise));
                }
            });
        }
    }
}
