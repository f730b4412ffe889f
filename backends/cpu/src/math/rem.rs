//! The remainder of a division: `a % b`, which is C's `fmod`, to the last bit.

/// Remainders for which [`rem32_is_slow`] does not hold. Below 2²⁴ the quotient in f64 is not rounded up to the next whole number, because
/// the numbers have 24 bits each, and its product with `b` and the difference are exact.
#[inline(always)]
pub(crate) fn rem32(a: f32, b: f32) -> f32 {
    /// 2^52: adding it to a smaller positive number rounds to an integer.
    const MAGIC: f64 = 4_503_599_627_370_496.0;
    let (x, y) = (f64::from(a.abs()), f64::from(b.abs()));
    let quotient = x / y;
    let near = (quotient + MAGIC) - MAGIC;
    let whole = if near > quotient { near - 1.0 } else { near };
    ((x - whole * y) as f32).copysign(a)
}

#[inline(always)]
pub(crate) fn rem32_is_slow(a: f32, b: f32) -> bool {
    let (x, y) = (f64::from(a.abs()), f64::from(b.abs()));
    !((x / y < 16_777_216.0) & (y < f64::INFINITY))
}

/// Any remainder. Apart, or the compiler computes it for all and takes what it needs.
#[cold]
#[inline(never)]
pub(crate) fn rem32_slow(a: f32, b: f32) -> f32 {
    a % b
}
