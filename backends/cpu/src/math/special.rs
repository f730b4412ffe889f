//! tanh, the error function and the cube root.

use super::exp::exp32_normal;
use super::{Lanes, poly32};

/// Hyperbolic tangent, error below 2 ulp: a polynomial below 0.6 (error 2^-28), 1 - 2 / (e^2x + 1) above.
#[inline(always)]
pub(crate) fn tanh32<X: Lanes>(x: X) -> X {
    let c = |c: f32| x.splat(c);
    let a = x.magnitude();
    let z = x * x;
    let p = poly32(
        z,
        [
            -0.333_332_99,
            0.133_319_36,
            -0.053_784_72,
            0.020_798_65,
            -0.005_898_005_3,
        ],
    );
    let near = (x * z).mul_add(p, x).signed_as(x);
    // Beyond 20 it is 1.
    let t = X::choose(c(20.0).less(a), c(20.0), a);
    let far = (c(1.0) - c(2.0) / (exp32_normal(t + t) + c(1.0))).signed_as(x);
    X::choose(a.less(c(0.6)), near, far)
}

/// Error function, error below 2 ulp: x + x P(x^2) below 0.93 (error 2^-30), 1 - e^R(|x|) above, where R fits
/// ln erfc (2^-31 relative to erf). The two-piece form is that of N. Juffa's `my_erff`.
#[inline(always)]
pub(crate) fn erf32<X: Lanes>(x: X) -> X {
    let c = |c: f32| x.splat(c);
    let a = x.magnitude();
    let z = x * x;
    let p = poly32(
        z,
        [
            0.128_379_17,
            -0.376_126_3,
            0.112_836_257,
            -0.026_855_741,
            0.005_192_460_5,
            -8.050_804e-4,
            8.002_775e-5,
        ],
    );
    let near = x.mul_add(p, x);
    let t = X::choose(c(3.95).less(a), c(3.95), a);
    let q = poly32(
        t,
        [
            -0.128_551_75,
            -0.635_625_24,
            -0.105_262_78,
            0.022_674_244,
            -0.002_930_237,
            4.962_03e-5,
            4.557_382_6e-5,
            -4.937_560_8e-6,
        ],
    );
    let far = (c(1.0) - exp32_normal(t.mul_add(q, -t))).signed_as(x);
    X::choose(a.less(c(0.93)), near, far)
}

/// Cube root through f64, error below 1 ulp: a third of the exponent to 5 bits, as in FreeBSD's `cbrt`, and two steps of
/// Halley's method, each of which triples the bits.
#[inline(always)]
pub(crate) fn cbrt32(x: f32) -> f32 {
    let a = f64::from(x.abs());
    let third = ((a.to_bits() >> 32) * 0x5555_5556) >> 32;
    let t = f64::from_bits((third + 0x2a9f_7893) << 32);
    let cube = t * t * t;
    let t = t * (cube + a + a) / (cube + cube + a);
    let cube = t * t * t;
    let t = t * (cube + a + a) / (cube + cube + a);
    // Zeros, infinities and NaN stay.
    let inside = a > 0.0 && a <= f64::from(f32::MAX);
    if inside { (t as f32).copysign(x) } else { x }
}
