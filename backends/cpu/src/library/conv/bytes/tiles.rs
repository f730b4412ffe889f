//! The compiler's kernels of lanes of two.

use crate::isa::Isa;
use crate::library::conv::lines::{self, Lines, LinesArgs};
use crate::library::conv::tile::{TapArgs, TapFn, Tiles, taps};
use crate::library::gemm::{PairLanes, Vector};
#[cfg(target_arch = "x86_64")]
use crate::library::gemm::{Pairs256, Pairs512};

/// A function that puts kernels of one vector in the place of others of 32 bits. There are none of gradients.
macro_rules! kernels {
    ($name:ident, $vector:ty, $narrow:ty, $(#[$feature:meta],)? wide $wide:literal, high $high:literal) => {
        fn $name(base: Tiles<u32>) -> Tiles<u32> {
            $(#[$feature])?
            unsafe extern "C" fn tap<const NV: usize, const ROWS: bool>(t: &TapArgs<u32>) {
                // SAFETY: same contract; lanes have the size of words.
                unsafe { taps::<$vector, NV, ROWS>(&*std::ptr::from_ref(t).cast::<TapArgs<i32>>()) }
            }
            $(#[$feature])?
            unsafe extern "C" fn of_lines<V: Vector<Lane = i32>>(t: &LinesArgs<u32>) {
                // SAFETY: same contract; lanes have the size of words.
                unsafe { lines::lines::<V>(&*std::ptr::from_ref(t).cast::<LinesArgs<i32>>()) }
            }
            fn lines<V: Vector<Lane = i32>>() -> Lines<u32> {
                Lines {
                    lanes: V::LANES,
                    compiled: of_lines::<V>,
                    code: None,
                }
            }
            const LANES: usize = <$vector as Vector>::LANES;
            Tiles {
                lines: [lines::<$narrow>(), lines::<$vector>()],
                wide: (LANES * 4, &[tap::<4, false> as TapFn<u32>; $wide]),
                high: (LANES * 2, &[tap::<2, false> as TapFn<u32>; $high]),
                rows: [
                    (LANES, &[tap::<1, true> as TapFn<u32>; $high]),
                    (LANES * 2, &[tap::<2, true> as TapFn<u32>; $high]),
                ],
                steps: [&[]; 3],
                outer: base.outer.map(|(lanes, _, _)| (lanes, &[][..], &[][..])),
                ..base
            }
        }
    };
}
kernels!(plain, PairLanes<4>, PairLanes<4>, wide 2, high 4);
#[cfg(target_arch = "x86_64")]
kernels!(avx2, Pairs256, Pairs256, #[target_feature(enable = "avx2,fma")], wide 2, high 6);
#[cfg(target_arch = "x86_64")]
kernels!(avx512, Pairs512, Pairs256, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")], wide 4, high 14);

/// Those of an instruction set that this machine has; all others are those of `base`.
pub(super) fn pairs(base: Tiles<u32>, isa: Isa) -> Tiles<u32> {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => avx512(base),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => avx2(base),
        _ => plain(base),
    }
}
