//! Quotients and remainders of integers by vectors, which divide floats alone.
//!
//! Below 2⁵³ integers are exact in f64, and so is the whole part of their quotient: what a/b lacks to the next whole number is 1/b at
//! least, and that is more than half a unit in the last place of a/b. Whole numbers below 2⁵¹ stand in the low bits of their sum with 1.5·2⁵².

const MAGIC: f64 = 6_755_399_441_055_744.0;
/// Magnitudes from which on integers do not fit.
const FITS: i64 = 1 << 51;

#[inline(always)]
fn float(x: i64) -> f64 {
    f64::from_bits((x as u64).wrapping_add(MAGIC.to_bits())) - MAGIC
}

#[inline(always)]
fn integer(x: f64) -> i64 {
    (x + MAGIC).to_bits().wrapping_sub(MAGIC.to_bits()) as i64
}

/// The whole part of a quotient below 2⁵¹.
#[inline(always)]
fn whole(a: f64, b: f64) -> f64 {
    let quotient = a / b;
    let near = (quotient + MAGIC) - MAGIC;
    let beyond = near.abs() > quotient.abs();
    near - if beyond { 1.0_f64.copysign(quotient) } else { 0.0 }
}

/// `a / b` towards zero, where [`is_slow64`] does not hold.
#[inline(always)]
pub(crate) fn div64(a: i64, b: i64) -> i64 {
    integer(whole(float(a), float(b)))
}

/// `a % b` with the sign of `a`, where [`is_slow64`] does not hold.
#[inline(always)]
pub(crate) fn rem64(a: i64, b: i64) -> i64 {
    let (a, b) = (float(a), float(b));
    integer(a - whole(a, b) * b)
}

/// Whether a number does not fit, or the divisor is 0.
#[inline(always)]
pub(crate) fn is_slow64(a: i64, b: i64) -> bool {
    let beyond = |x: i64| (x.wrapping_add(FITS) as u64) >> 52 != 0;
    beyond(a) | beyond(b) | (b == 0)
}

/// `a / b` towards zero, wrapped; 0 where `b` is.
#[inline(always)]
pub(crate) fn div32(a: i32, b: i32) -> i32 {
    let quotient = integer(whole(f64::from(a), f64::from(b))) as i32;
    if b == 0 { 0 } else { quotient }
}

/// `a % b` with the sign of `a`; 0 where `b` is.
#[inline(always)]
pub(crate) fn rem32(a: i32, b: i32) -> i32 {
    let (x, y) = (f64::from(a), f64::from(b));
    let rest = integer(x - whole(x, y) * y) as i32;
    if b == 0 { 0 } else { rest }
}
