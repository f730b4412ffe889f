//! Registers whose lanes hold two numbers of bf16.

use super::super::tile::{TileArgs, TileFn, TileSet, tile, tile_set};
use super::super::vector::{Lanes, Vector, sum_to_odd};

/// Lanes of two numbers of bf16, for any processor.
#[derive(Clone, Copy)]
pub(crate) struct Pairs<const N: usize>(Lanes<f32, N>);

/// The number in the upper half of a lane, and that in its lower half; 0 for what lies below the least normal one.
#[inline(always)]
fn parts(lane: f32) -> [f32; 2] {
    [lane.to_bits() & 0xffff_0000, lane.to_bits() << 16].map(|bits| {
        let normal = bits & 0x7f80_0000 != 0;
        f32::from_bits(if normal { bits } else { bits & 0x8000_0000 })
    })
}

/// `x + a * b`, rounded once, and 0 where what is rounded to 24 bits lies below the least normal number.
#[inline(always)]
fn flushed(x: f32, a: f32, b: f32) -> f32 {
    /// What rounds to the least normal number: 2⁻¹²⁶ − 2⁻¹⁵¹.
    const LEAST: f64 = f64::from_bits(0x380f_ffff_f000_0000);
    let sum = sum_to_odd(x, a, b);
    let zero = f64::from_bits(sum.to_bits() & (1 << 63));
    (if sum.abs() < LEAST { zero } else { sum }) as f32
}

impl<const N: usize> Vector for Pairs<N> {
    type Lane = f32;
    const LANES: usize = N;
    #[inline(always)]
    unsafe fn zero() -> Self {
        Self(Lanes([0.0; N]))
    }
    #[inline(always)]
    unsafe fn splat(p: *const f32) -> Self {
        // SAFETY: the caller's contract.
        Self(unsafe { Lanes::splat(p) })
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller's contract.
        Self(unsafe { Lanes::load(p) })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller's contract.
        unsafe { self.0.store(p) }
    }
    #[inline(always)]
    unsafe fn mul_add(mut self, a: Self, b: Self) -> Self {
        for ((x, a), b) in self.0.0.iter_mut().zip(a.0.0).zip(b.0.0) {
            for (a, b) in parts(a).into_iter().zip(parts(b)) {
                *x = flushed(*x, a, b);
            }
        }
        self
    }
    #[inline(always)]
    unsafe fn add(self, a: Self) -> Self {
        // SAFETY: the caller's contract.
        Self(unsafe { self.0.add(a.0) })
    }
}

tile_set!(PLAIN, Pairs<4>, 2, 6);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use crate::library::gemm::tile::x86_vector;
    use std::arch::x86_64::*;
    use std::mem::transmute;

    x86_vector!(
        Pairs512,
        __m512,
        f32,
        16,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_setzero_ps,
        _mm512_set1_ps,
        |x, a: __m512, b: __m512| _mm512_dpbf16_ps(
            x,
            transmute::<__m512, __m512bh>(a),
            transmute::<__m512, __m512bh>(b)
        ),
        _mm512_add_ps
    );

    tile_set!(AVX512, Pairs512, 2, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")], 14);
}
#[cfg(target_arch = "x86_64")]
pub(super) use x86::*;
