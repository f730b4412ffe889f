//! Packing of bytes into lanes of two numbers of 16 bits. Elements behind the last one are zeros.

use super::super::pack::{PackFn, Panel};
use super::Byte;
use crate::isa::Isa;

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
    use super::super::super::pack::Panel;
    use super::super::Byte;
    use super::pairs_loops;

    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn pairs_avx2<const SIGNED: bool>(p: &Panel<Byte>) {
        // SAFETY: same contract.
        unsafe { pairs_loops::<SIGNED>(p) }
    }
}
