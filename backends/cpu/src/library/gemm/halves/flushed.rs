//! Sums of pairs of bf16 by fused multiply-adds of f32, where no instruction takes pairs.
//!
//! Numbers below the least normal one are flushed by the processor. Its control register is set within one block of assembly,
//! because compiled code relies on the usual state of it.
#![cfg(target_arch = "x86_64")]

use super::super::tile::{TileArgs, TileFn, TileSet};
use super::MXCSR_FLUSHING;
use std::arch::asm;

/// [`MXCSR_FLUSHING`] in memory.
static FLUSHING: u32 = MXCSR_FLUSHING;

/// Defines a function that sums a tile of the given rows, each by its number and its two registers. The registers before them hold an
/// element of A, a mask of the upper half of lanes, and a row of B; `$bytes` is the size of one. A tile of fewer rows in C takes what
/// lies behind its rows of A along, and leaves those sums.
macro_rules! flushed_sums {
    ($name:ident, $feature:literal, $width:literal, $bytes:literal, $a:tt, $mask:tt, $b0:tt, $b1:tt, [$($i:literal $x:tt $y:tt),*]) => {
        #[target_feature(enable = $feature)]
        unsafe fn $name(t: &TileArgs<f32>, sums: &mut [[f32; $width]; [$($i),*].len()]) {
            let mut usual = 0_u32;
            // SAFETY: A and B have `kc` pairs, and `sums` has every row. The control register is put back.
            unsafe {
                asm!(
                    "stmxcsr [{usual}]",
                    "ldmxcsr [{flushing}]",
                    "mov {even:e}, 0xffff0000",
                    "vmovd xmm0, {even:e}",
                    concat!("vpbroadcastd ", $mask, ", xmm0"),
                    $(
                        concat!("vxorps ", $x, ", ", $x, ", ", $x),
                        concat!("vxorps ", $y, ", ", $y, ", ", $y),
                    )*
                    "lea {even}, [{a} + {half}]",
                    "2:",
                    concat!("vandps ", $b0, ", ", $mask, ", [{b}]"),
                    concat!("vandps ", $b1, ", ", $mask, ", [{b} + ", $bytes, "]"),
                    $(
                        concat!("vbroadcastss ", $a, ", dword ptr [{a} + 4 * ", $i, "]"),
                        concat!("vfmadd231ps ", $x, ", ", $a, ", ", $b0),
                        concat!("vfmadd231ps ", $y, ", ", $a, ", ", $b1),
                    )*
                    concat!("vmovups ", $b0, ", [{b}]"),
                    concat!("vmovups ", $b1, ", [{b} + ", $bytes, "]"),
                    concat!("vpslld ", $b0, ", ", $b0, ", 16"),
                    concat!("vpslld ", $b1, ", ", $b1, ", 16"),
                    $(
                        concat!("vbroadcastss ", $a, ", dword ptr [{even} + 4 * ", $i, "]"),
                        concat!("vfmadd231ps ", $x, ", ", $a, ", ", $b0),
                        concat!("vfmadd231ps ", $y, ", ", $a, ", ", $b1),
                    )*
                    "lea {a}, [{a} + 2 * {half}]",
                    "lea {even}, [{even} + 2 * {half}]",
                    "add {b}, {row}",
                    "dec {kc}",
                    "jnz 2b",
                    "ldmxcsr [{usual}]",
                    $(
                        concat!("vmovups [{sums} + 2 * ", $bytes, " * ", $i, "], ", $x),
                        concat!("vmovups [{sums} + 2 * ", $bytes, " * ", $i, " + ", $bytes, "], ", $y),
                    )*
                    usual = in(reg) &raw mut usual,
                    flushing = in(reg) &raw const FLUSHING,
                    even = out(reg) _,
                    half = in(reg) 4 * t.a_k,
                    a = inout(reg) t.a => _,
                    b = inout(reg) t.b => _,
                    row = in(reg) 4 * t.b_k,
                    kc = inout(reg) t.kc => _,
                    sums = in(reg) sums.as_mut_ptr(),
                    $(out($x) _, out($y) _,)*
                    out($a) _, out($mask) _, out($b0) _, out($b1) _,
                    options(nostack)
                );
            }
        }
    };
}

flushed_sums!(avx2, "avx2,fma", 16, 32, "ymm12", "ymm13", "ymm14", "ymm15", [
    0 "ymm0" "ymm1", 1 "ymm2" "ymm3", 2 "ymm4" "ymm5", 3 "ymm6" "ymm7", 4 "ymm8" "ymm9", 5 "ymm10" "ymm11"
]);
flushed_sums!(avx512, "avx512f,avx512bw,avx512dq,avx512vl", 32, 64, "zmm28", "zmm29", "zmm30", "zmm31", [
    0 "zmm0" "zmm1", 1 "zmm2" "zmm3", 2 "zmm4" "zmm5", 3 "zmm6" "zmm7", 4 "zmm8" "zmm9", 5 "zmm10" "zmm11", 6 "zmm12" "zmm13",
    7 "zmm14" "zmm15", 8 "zmm16" "zmm17", 9 "zmm18" "zmm19", 10 "zmm20" "zmm21", 11 "zmm22" "zmm23", 12 "zmm24" "zmm25",
    13 "zmm26" "zmm27"
]);

/// Instantiates a `TileSet` constant from such a function, the width of its tile and its most rows.
macro_rules! flushed_set {
    ($name:ident, $sums:ident, $feature:literal, $width:literal, $most:literal) => {
        pub(super) const $name: TileSet<f32> = {
            #[target_feature(enable = $feature)]
            unsafe extern "C" fn kernel(t: &TileArgs<f32>) {
                t.each(|t| {
                    let mut sums = [[0.0_f32; $width]; $most];
                    // SAFETY: the caller's tile; what is read behind rows of A is room that packing has.
                    unsafe { $sums(t, &mut sums) };
                    for (i, sums) in sums.iter().enumerate().take(t.rows) {
                        // SAFETY: C has this row of the tile, and so has what is added.
                        unsafe {
                            let c = t.c.offset(i as isize * t.c_row).cast::<[f32; $width]>();
                            let mut sums = *sums;
                            if t.accumulate {
                                let added = *c.wrapping_byte_offset(t.beside);
                                sums.iter_mut()
                                    .zip(added)
                                    .for_each(|(sum, added)| *sum += added);
                            }
                            *c = sums;
                        }
                    }
                });
            }
            const KERNELS: &[TileFn<f32>] = &[kernel as TileFn<f32>; $most];
            TileSet {
                nr: $width,
                packed: KERNELS,
                strided: &[],
                narrow: &[],
                copying: &[],
            }
        };
    };
}

flushed_set!(AVX2, avx2, "avx2,fma", 16, 6);
flushed_set!(AVX512, avx512, "avx512f,avx512bw,avx512dq,avx512vl", 32, 14);
