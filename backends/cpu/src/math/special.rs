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
    let near = (a * z).mul_add(p, a);
    // Beyond 20 it is 1.
    let t = X::choose(c(20.0).less(a), c(20.0), a);
    let far = c(1.0) - c(2.0) / (exp32_normal(t + t) + c(1.0));
    X::choose(a.less(c(0.6)), near, far).signed_as(x)
}

/// Error function, error below 1.4 ulp: x + x P(x^2) below 1.15 (error 2^-26 relative), 1 - S(|x|)^4 above, where S fits the fourth
/// root of erfc (error of erf 2^-27). The root is a polynomial where ln erfc would need an exponential after it.
#[inline(always)]
pub(crate) fn erf32<X: Lanes>(x: X) -> X {
    let c = |c: f32| x.splat(c);
    let a = x.magnitude();
    let z = x * x;
    let p = poly32(
        z,
        [
            0.128_379_15,
            -0.376_125_43,
            0.112_827_964,
            -0.026_825_283,
            0.005_140_403_3,
            -7.632_436e-4,
            6.722_702_5e-5,
        ],
    );
    let near = x.mul_add(p, x);
    // Beyond 3.95 it is 1.
    let t = X::choose(c(3.95).less(a), c(3.95), a);
    let root = poly32(
        t,
        [
            1.005_809_8,
            -0.310_007_54,
            -0.061_407_965,
            -0.052_296_27,
            0.067_084_365,
            -0.022_513_252,
            0.003_285_040_6,
            -1.831_150_6e-4,
        ],
    );
    let square = root * root;
    let far = square.taken_from(square, c(1.0)).signed_as(x);
    X::choose(a.less(c(1.15)), near, far)
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
