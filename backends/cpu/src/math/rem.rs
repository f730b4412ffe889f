//! The remainder of a division.

/// As `a % b`, which is C's `fmod`, to the last bit. Below 2²⁴ the quotient in f64 is not rounded up to the next whole number, because the
/// numbers have 24 bits each, and its product with `b` and the difference are exact. What is left is the C library's, bit after bit.
#[inline(always)]
pub(crate) fn rem32(a: f32, b: f32) -> f32 {
    let (x, y) = (f64::from(a.abs()), f64::from(b.abs()));
    let quotient = x / y;
    if quotient < 16_777_216.0 && y < f64::INFINITY {
        // SAFETY: between 0 and what i32 has.
        let whole = unsafe { quotient.to_int_unchecked::<i32>() };
        return ((x - f64::from(whole) * y) as f32).copysign(a);
    }
    other(a, b)
}

/// Apart, or the compiler computes it for all and takes what it needs.
#[cold]
#[inline(never)]
fn other(a: f32, b: f32) -> f32 {
    a % b
}
