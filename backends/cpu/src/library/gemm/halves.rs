//! Products of bf16: lanes of 32 bits hold two elements along k. A sum takes the odd one first and then the even one, each with one
//! rounding, and numbers below the least normal one are zeros on the way in and out. That is what `vdpbf16ps` does, and all ways do
//! the same.

mod flushed;
mod sums;

use super::code::{self, Sum};
use super::element::{Kernels, Uniform};
use super::lanes::lanes;
use super::pack::{PackFn, Panel};
use crate::isa::Isa;

pub(crate) use sums::Pairs as HalfLanes;

/// MXCSR with every exception masked, rounding to nearest, and denormals taken and given as zeros.
pub(crate) const MXCSR_FLUSHING: u32 = 0x9fc0;

/// The kernels for an instruction set that this processor has; `sums_halves` only where it has [`Isa::sums_halves`].
pub(crate) fn kernels<T: Uniform<Acc = f32>>(isa: Isa, sums_halves: bool, codegen: bool) -> Kernels<T> {
    let (tiles, apart) = match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 if sums_halves => {
            let code = codegen.then(|| code::tiles(Sum::Halves, isa)).flatten();
            (code.unwrap_or(sums::AVX512), false)
        }
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => (flushed::AVX512, true),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => (flushed::AVX2, true),
        _ => (sums::PLAIN, false),
    };
    let pairs = lanes::<T, 0>(isa);
    Kernels {
        tiles,
        pack: [
            if apart {
                pack_apart::<T> as PackFn<T>
            } else {
                pairs
            },
            pairs,
        ],
        a_words: if apart { 2 } else { 1 },
        step: 2,
        ..T::kernels(isa, codegen)
    }
}

/// The kernels that sum by AMX, with other bits: of 16 pairs the even elements are one chain and the odd ones another, and the sum of both
/// is added to the sum so far. Only where the machine has [`Isa::sums_squares`].
pub(crate) fn by_amx<T: Uniform<Acc = f32>>() -> Kernels<T> {
    #[cfg(target_arch = "x86_64")]
    return super::squares::halves(sums::AVX512);
    #[cfg(not(target_arch = "x86_64"))]
    T::products(Isa::detect(), false)
}

/// Packs each pair of elements of A as two numbers of f32, the odd one first, so that kernels broadcast them as they are.
unsafe fn pack_apart<T: Uniform<Acc = f32>>(p: &Panel<T>) {
    // SAFETY: the panel's source and destination have the extents it says, with two accumulators for a pair.
    unsafe {
        for l in 0..p.kc.next_multiple_of(2) {
            let (dst, src) = (
                p.dst.add((l ^ 1) * p.pitch),
                p.src.wrapping_offset(l as isize * p.k_step),
            );
            for w in 0..p.width {
                let value = match l < p.kc {
                    true => (*src.offset(w as isize * p.w_step)).widen(),
                    false => 0.0,
                };
                dst.add(w).write(value);
            }
            for w in p.width..p.pitch {
                dst.add(w).write(0.0);
            }
        }
    }
}
