//! Elementary functions as branch-free code that the compiler vectorises.
//!
//! The f32 functions err by at most 2 ulp over the whole range and return the same bits on every instruction set: what
//! they use is IEEE arithmetic and fused multiply-add. Coefficients are Remez fits made for this crate, with the error
//! weighted as each function's doc says; methods are cited there. Those that stay in f32 are written over [`Lanes`]. Where a fast path does not cover every argument the
//! function comes with a `…_is_slow` predicate and a `…_slow` version for the rest.

// Coefficients stand as they were fitted.
#![allow(clippy::excessive_precision)]

mod exp;
mod half;
mod lanes;
mod log;
mod pow;
pub(crate) mod quotient;
mod special;
mod trig;

#[cfg(test)]
mod tests;

pub(crate) use exp::{exp2_of_product, exp32, exp32_below_one, exp64, expm1_32};
pub(crate) use half::{bf16_round, bf16_to_f32, f16_round, f16_to_f32, f32_to_bf16, f32_to_f16};
pub(crate) use lanes::Lanes;
pub(crate) use log::{log1p_32, log32, log64};
pub(crate) use pow::{pow32, pow64, pow64_is_slow};
pub(crate) use special::{cbrt32, erf32, tanh32};
pub(crate) use trig::{
    atan2_32, cos32, cos32_slow, cos64, sin32, sin32_slow, sin64, trig32_is_slow, trig64_is_slow,
};

/// `c[0] + x c[1] + …`, each step fused.
#[inline(always)]
pub(crate) fn poly32<X: Lanes, const N: usize>(x: X, c: [f32; N]) -> X {
    let mut sum = x.splat(c[N - 1]);
    for i in (0..N - 1).rev() {
        sum = sum.mul_add(x, x.splat(c[i]));
    }
    sum
}

/// `c[0] + x c[1] + …`, each step fused.
#[inline(always)]
pub(crate) fn poly64<const N: usize>(x: f64, c: [f64; N]) -> f64 {
    let mut sum = c[N - 1];
    for i in (0..N - 1).rev() {
        sum = sum.mul_add(x, c[i]);
    }
    sum
}
