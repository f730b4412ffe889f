//! Quotients and remainders by vectors of f64, which divide integers too.
//!
//! Below 2⁵³ integers are exact in f64, and so is the whole part of their quotient: what a/b lacks to the next whole number is 1/b at
//! least, and that is more than half a unit in the last place of a/b.

use super::exp::{float64, nearest64};

/// Magnitudes from which on integers are none of [`nearest64`].
const FITS: i64 = 1 << 51;

/// The whole part of a quotient below 2⁵¹.
#[inline(always)]
fn whole(a: f64, b: f64) -> f64 {
    let quotient = a / b;
    let (near, _) = nearest64(quotient);
    let beyond = near.abs() > quotient.abs();
    near - if beyond { 1.0_f64.copysign(quotient) } else { 0.0 }
}

/// `a / b` towards zero, where [`i64_is_slow`] does not hold.
#[inline(always)]
pub(crate) fn div_i64(a: i64, b: i64) -> i64 {
    nearest64(whole(float64(a), float64(b))).1
}

/// `a % b` with the sign of `a`, where [`i64_is_slow`] does not hold.
#[inline(always)]
pub(crate) fn rem_i64(a: i64, b: i64) -> i64 {
    let (a, b) = (float64(a), float64(b));
    nearest64(a - whole(a, b) * b).1
}

/// Whether a number does not fit, or the divisor is 0.
#[inline(always)]
pub(crate) fn i64_is_slow(a: i64, b: i64) -> bool {
    let beyond = |x: i64| (x.wrapping_add(FITS) as u64) >> 52 != 0;
    beyond(a) | beyond(b) | (b == 0)
}

/// `a / b` towards zero, wrapped; 0 where `b` is.
#[inline(always)]
pub(crate) fn div_i32(a: i32, b: i32) -> i32 {
    let quotient = nearest64(whole(f64::from(a), f64::from(b))).1 as i32;
    if b == 0 { 0 } else { quotient }
}

/// `a % b` with the sign of `a`; 0 where `b` is.
#[inline(always)]
pub(crate) fn rem_i32(a: i32, b: i32) -> i32 {
    let (x, y) = (f64::from(a), f64::from(b));
    let rest = nearest64(x - whole(x, y) * y).1 as i32;
    if b == 0 { 0 } else { rest }
}

/// `a % b`, which is C's `fmod`, to the last bit, where [`rem_f32_is_slow`] does not hold. Below 2²⁴ the quotient is not rounded up to the
/// next whole number, because the numbers have 24 bits each, and its product with `b` and the difference are exact.
#[inline(always)]
pub(crate) fn rem_f32(a: f32, b: f32) -> f32 {
    let (x, y) = (f64::from(a.abs()), f64::from(b.abs()));
    ((x - whole(x, y) * y) as f32).copysign(a)
}

#[inline(always)]
pub(crate) fn rem_f32_is_slow(a: f32, b: f32) -> bool {
    let (x, y) = (f64::from(a.abs()), f64::from(b.abs()));
    !((x / y < 16_777_216.0) & (y < f64::INFINITY))
}

/// Any remainder. Apart, or the compiler computes it for all and takes what it needs.
#[cold]
#[inline(never)]
pub(crate) fn rem_f32_slow(a: f32, b: f32) -> f32 {
    a % b
}
