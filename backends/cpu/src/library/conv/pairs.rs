//! Convolutions of bf16: channels come in pairs. A sum takes the product of the odd channel first and then that of the even one, each with
//! one rounding, and numbers below the least normal one are zeros on the way in and out. That is what `vdpbf16ps` does, and all ways do
//! the same. A last channel without a partner has the even place, and its partner's product is -0, which changes no sum.

use super::code;
use super::forward;
use super::geometry::Pass;
use super::operands::{Sizes, Weights};
use super::planes::{Plane, PlaneFn, loops};
use super::tile::{TapArgs, TapFn, Tiles, taps};
use super::words::ConvKernels;
use super::{ConvKernel, Direction, Launch};
use crate::isa::Isa;
use crate::library::gemm::code::Sum;
use crate::library::gemm::{HalfLanes, Vector};
use crate::library::matmul::MatDType;
use std::ops::Range;

/// How channels come in pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pairs {
    /// A lane of 32 bits holds both, the odd one above.
    Joined,
    /// As f32, one after the other.
    Apart,
}

/// -0 as bf16, in the upper half of a lane.
const NEGATIVE_ZERO: u32 = 0x8000_0000;

/// The kernels of a launch: those of pairs, if it is one of bf16 with enough channels. That follows from extents alone.
pub(super) fn kernels(base: ConvKernels<u16>, kernel: &ConvKernel, launch: &Launch) -> ConvKernels<u16> {
    match kernel.dtype == MatDType::Bf16 && suits(kernel, launch) {
        true => of(base, (kernel.isa, kernel.codegen), kernel.isa.sums_halves_fast()),
        false => base,
    }
}

fn suits(kernel: &ConvKernel, launch: &Launch) -> bool {
    let (sizes, channels) = (launch.sizes, launch.sizes.channels);
    if kernel.direction == Direction::GradWeight || channels < 2 {
        return false;
    }
    let Some(passes) = kernel.passes(&launch.windows) else {
        return false;
    };
    let by_lines = |pass: &Pass| {
        [channels, channels.div_ceil(2)]
            .iter()
            .any(|&channels| forward::takes_lines(&Sizes { channels, ..sizes }, pass))
    };
    !passes.iter().any(by_lines)
}

/// The kernels of pairs for an instruction set that this processor has; `by_halves` only where it has [`Isa::sums_halves`].
pub(super) fn of(base: ConvKernels<u16>, (isa, codegen): (Isa, bool), by_halves: bool) -> ConvKernels<u16> {
    let tiles = Tiles {
        steps: [&[]; 3],
        outer: base.tiles.outer.map(|(lanes, _, _)| (lanes, &[][..], &[][..])),
        ..base.tiles
    };
    let (sum, pairs) = match by_halves {
        true => (Sum::Halves, Pairs::Joined),
        false => (Sum::Flushed, Pairs::Apart),
    };
    let written = codegen.then(|| code::tiles(tiles, sum, isa)).flatten();
    let (tiles, pairs) = match written {
        Some(written) => (written, pairs),
        None => (plain(tiles), Pairs::Joined),
    };
    ConvKernels {
        tiles,
        pairs: Some(pairs),
        plane: match pairs {
            Pairs::Joined => plane(isa),
            Pairs::Apart => base.plane,
        },
        ..base
    }
}

/// The compiler's kernels, for any processor.
fn plain(base: Tiles<u32>) -> Tiles<u32> {
    type Lanes = HalfLanes<4>;
    const LANES: usize = Lanes::LANES;
    unsafe extern "C" fn tap<const NV: usize, const ROWS: bool>(t: &TapArgs<u32>) {
        // SAFETY: same contract; lanes have the size of words.
        unsafe { taps::<Lanes, NV, ROWS>(&*std::ptr::from_ref(t).cast::<TapArgs<f32>>()) }
    }
    Tiles {
        wide: (LANES * 4, &[tap::<4, false> as TapFn<u32>; 2]),
        high: (LANES * 2, &[tap::<2, false> as TapFn<u32>; 4]),
        rows: [
            (LANES, &[tap::<1, true> as TapFn<u32>; 4]),
            (LANES * 2, &[tap::<2, true> as TapFn<u32>; 4]),
        ],
        ..base
    }
}

/// The copying of planes of joined pairs.
fn plane(isa: Isa) -> PlaneFn<u16> {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => x86::avx512,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => x86::avx2,
        _ => any,
    }
}

unsafe fn any(p: &Plane<u16>) {
    // SAFETY: same contract.
    unsafe { joined(p) }
}

#[inline(always)]
unsafe fn joined(p: &Plane<u16>) {
    let lines = |step: isize| {
        move |dst: *mut u32, src: *const u16, count: usize| {
            for k in 0..count {
                let even = src.wrapping_offset(k as isize * step);
                // SAFETY: the caller vouches for `count` elements of each channel that exists, and has room for as many lanes.
                unsafe {
                    let odd = match p.count {
                        1 => 0,
                        _ => *even.wrapping_offset(p.apart),
                    };
                    dst.add(k).write(u32::from(*even) | u32::from(odd) << 16);
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

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Plane, joined, loops};
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn avx2(p: &Plane<u16>) {
        // SAFETY: same contract.
        unsafe { joined(p) }
    }

    /// With whole registers: a row's last one runs over its end with zeros.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) unsafe fn avx512(p: &Plane<u16>) {
        const STEP: usize = 16;
        // SAFETY: same contract; what is written past a row's end is written again or is slack. Masks leave out what does not exist.
        unsafe {
            if p.steps[2] != 1 {
                joined(p);
                return;
            }
            let both = if p.count == 1 { 0 } else { u16::MAX };
            loops(p, |dst, src, count| {
                let odd = src.wrapping_offset(p.apart);
                for k in (0..count).step_by(STEP) {
                    let mask = u16::MAX >> (STEP - (count - k).min(STEP));
                    let load = |mask: u16, from: *const u16| {
                        _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from.wrapping_add(k).cast()))
                    };
                    let odd = _mm512_slli_epi32::<16>(load(mask & both, odd));
                    _mm512_storeu_si512(dst.add(k).cast(), _mm512_or_si512(load(mask, src), odd));
                }
            });
        }
    }
}

/// Packs the weights of a group and some rows in joined pairs: `dst[(pair * taps + tap) * pitch + row]`, zeros from the last row to the
/// pitch.
///
/// # Safety
/// The weights are readable, and `dst` has room.
pub(super) unsafe fn pack(
    (w, pass): (&Weights<u16>, &Pass),
    group: usize,
    (rows, pitch): (Range<usize>, usize),
    pairs: Range<usize>,
    mut dst: *mut u32,
) {
    let first = w
        .ptr
        .wrapping_offset(group as isize * w.group + rows.start as isize * w.row);
    for pair in pairs {
        let src = first.wrapping_offset(2 * pair as isize * w.channel);
        let alone = 2 * pair + 1 == w.channels;
        pass.each_tap(|taps| {
            let src = src.wrapping_offset(w.tap(taps));
            // SAFETY: the caller vouches for the weights and for `pitch` lanes.
            unsafe {
                for row in 0..rows.len() {
                    let even = src.wrapping_offset(row as isize * w.row);
                    let odd = match alone {
                        true => NEGATIVE_ZERO,
                        false => u32::from(*even.wrapping_offset(w.channel)) << 16,
                    };
                    dst.add(row).write(u32::from(*even) | odd);
                }
                for row in rows.len()..pitch {
                    dst.add(row).write(0);
                }
                dst = dst.add(pitch);
            }
        });
    }
}
