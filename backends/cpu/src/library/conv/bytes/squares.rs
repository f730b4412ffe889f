//! Convolutions by AMX, whose registers are squares of 16 rows of 64 bytes.
//!
//! Sixteen lanes of channels, as rows of a register, and sixteen neighbouring places of their planes are what an instruction multiplies by
//! sixteen rows of weights. So planes are read where they lie, like those of vectors. Four registers are sums: 32 rows by 32 places.
#![cfg(target_arch = "x86_64")]

use crate::library::gemm::{SIDE, Scratch, Signs};
use std::arch::asm;

/// Rows of the result, and places, whose sums are in registers at a time.
pub(in super::super) const TILE: usize = 2 * SIDE;

/// Sums over terms, each of 16 lanes of channels and a tap.
pub(in super::super) struct SquareArgs {
    /// Weights, as [`arrange`] leaves them.
    pub(in super::super) weights: *const i32,
    /// From the first place to what each term meets in its first lane, in lanes.
    pub(in super::super) offsets: *const u32,
    /// At least one.
    pub(in super::super) terms: usize,
    pub(in super::super) x: *const i32,
    /// Bytes from a lane to the next at a place.
    pub(in super::super) apart: usize,
    /// Rows of [`TILE`] sums.
    pub(in super::super) out: *mut i32,
}

/// Computes a tile, with the registers in use.
pub(in super::super) type SquareFn = unsafe fn(&SquareArgs);

/// The kernel for elements and weights of these signs.
pub(super) fn kernel(signs: Signs) -> SquareFn {
    /// Defines the kernel of an instruction, whose first factor are weights.
    macro_rules! kernel {
        ($dot:literal) => {{
            unsafe fn kernel(t: &SquareArgs) {
                // SAFETY: the caller has configured the registers; weights, planes and sums have what the terms say.
                unsafe {
                    asm!(
                        "tilezero tmm0",
                        "tilezero tmm1",
                        "tilezero tmm2",
                        "tilezero tmm3",
                        "2:",
                        "mov {at:e}, dword ptr [{offsets}]",
                        "lea {at}, [{x} + 4 * {at}]",
                        "tileloadd tmm4, [{weights} + {side}]",
                        "tileloadd tmm6, [{at} + {apart}]",
                        "tileloadd tmm7, [{at} + {apart} + 64]",
                        concat!($dot, " tmm0, tmm4, tmm6"),
                        concat!($dot, " tmm1, tmm4, tmm7"),
                        "tileloadd tmm5, [{weights} + {side} + 1024]",
                        concat!($dot, " tmm2, tmm5, tmm6"),
                        concat!($dot, " tmm3, tmm5, tmm7"),
                        "add {weights}, 2048",
                        "add {offsets}, 4",
                        "dec {terms}",
                        "jnz 2b",
                        "tilestored [{out} + {row}], tmm0",
                        "tilestored [{out} + {row} + 64], tmm1",
                        "tilestored [{out} + {row} + 2048], tmm2",
                        "tilestored [{out} + {row} + 2112], tmm3",
                        at = out(reg) _,
                        offsets = inout(reg) t.offsets => _,
                        x = in(reg) t.x,
                        weights = inout(reg) t.weights => _,
                        side = in(reg) 4 * SIDE,
                        apart = in(reg) t.apart,
                        terms = inout(reg) t.terms => _,
                        out = in(reg) t.out,
                        row = in(reg) 4 * TILE,
                        options(nostack),
                    );
                }
            }
            kernel as SquareFn
        }};
    }
    match (signs.b, signs.a) {
        (false, false) => kernel!("tdpbuud"),
        (false, true) => kernel!("tdpbusd"),
        (true, false) => kernel!("tdpbsud"),
        (true, true) => kernel!("tdpbssd"),
    }
}

/// Makes squares of packed weights of [`TILE`] rows: for each tap and 16 lanes, 16 rows of these lanes, and 16 more.
///
/// # Safety
/// `packed` has the weights, `[lanes][taps][TILE]`, of a multiple of 16 lanes.
pub(in super::super) unsafe fn arrange(packed: *mut i32, lanes: usize, taps: usize) {
    let len = lanes * taps * TILE;
    let scratch = Scratch::take(len * size_of::<i32>());
    let from: *mut i32 = scratch.start().cast();
    // SAFETY: both have room for all weights, and every index is below their number.
    unsafe {
        from.copy_from_nonoverlapping(packed, len);
        let mut to = packed;
        for tap in 0..taps {
            for first in (0..lanes).step_by(SIDE) {
                for row in 0..TILE {
                    for lane in first..first + SIDE {
                        to.write(*from.add((lane * taps + tap) * TILE + row));
                        to = to.add(1);
                    }
                }
            }
        }
    }
}
