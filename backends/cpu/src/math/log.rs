//! Logarithms: x = 2^e m, then a polynomial in m - 1 or in s = (m - 1) / (m + 1) (fdlibm, e_log.c).

use super::exp::float64;
use super::{Lanes, poly32, poly64};

/// (atanh(s)/s - 1) / s^2 in s^2 on [0, 0.0295], error 2^-66.
const ATANH64: [f64; 8] = [
    0.3333333333333333,
    0.20000000000002477,
    0.14285714284698012,
    0.11111111304892049,
    0.09090889049624544,
    0.07693500530938237,
    0.06625927492187164,
    0.06618786152838295,
];

/// As `ATANH64`, error 2^-44.
pub(super) const ATANH64_SHORT: [f64; 5] = [
    0.3333333333794967,
    0.1999999779216512,
    0.14286056762088375,
    0.11087995610806621,
    0.0979359389559976,
];

/// `(m, e)` with x = 2^e m and m in [sqrt(1/2), sqrt(2)), for a positive normal x.
#[inline(always)]
pub(super) fn split64(x: f64) -> (f64, f64) {
    const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    let shifted = x.to_bits().wrapping_sub(SQRT_HALF) as i64;
    let m = f64::from_bits(x.to_bits().wrapping_sub((shifted & !0xf_ffff_ffff_ffff) as u64));
    (m, float64(shifted >> 52))
}

/// ln x, error below 1 ulp. The polynomial's error is 2^-28 relative to ln m.
#[inline(always)]
pub(crate) fn log32<X: Lanes>(x: X) -> X {
    let c = |c: f32| x.splat(c);
    let tiny = x.less(c(f32::MIN_POSITIVE));
    let scaled = X::choose(tiny, x * c(8_388_608.0), x);
    let bias = X::choose(tiny, c(-23.0), c(0.0));
    // m in [2/3, 4/3), so that ln x has no cancellation around 1.
    let shifted = X::and_constant(X::minus_constant(scaled.bits(), 0x3f2a_aaab), !0x7f_ffff);
    let m = X::from_bits(X::minus(scaled.bits(), shifted));
    let e = X::float(X::shift_right::<23>(shifted)) + bias;
    let f = m - c(1.0);
    let p = poly32(
        f,
        [
            0.333_333_34,
            -0.249_998_11,
            0.199_997_65,
            -0.166_800_86,
            0.142_989_53,
            -0.121_878_64,
            0.108_213_067,
            -0.128_853_22,
            0.117_277_503,
        ],
    );
    let near = (f * f).mul_add(f.mul_add(p, c(-0.5)), f);
    let value = e.mul_add(c(std::f32::consts::LN_2), near);
    let value = X::choose(x.equals(c(f32::INFINITY)), x, value);
    let value = X::choose(x.equals(c(0.0)), c(f32::NEG_INFINITY), value);
    // Negative or NaN.
    X::choose(c(0.0).at_most(x), value, c(f32::NAN))
}

/// ln x, error below 1 ulp (fdlibm, e_log.c, with a polynomial of our own).
#[inline(always)]
pub(crate) fn log64(x: f64) -> f64 {
    const LN2_HI: f64 = 6.931_471_803_691_238e-1;
    const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;
    let tiny = x < f64::MIN_POSITIVE;
    let scaled = if tiny { x * 18_014_398_509_481_984.0 } else { x };
    let (m, e) = split64(scaled);
    let e = if tiny { e - 54.0 } else { e };
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let r = 2.0 * z * poly64(z, ATANH64);
    let half = 0.5 * f * f;
    let value = e.mul_add(LN2_HI, -((half - e.mul_add(LN2_LO, s * (half + r))) - f));
    let value = if x == f64::INFINITY { x } else { value };
    let value = if x == 0.0 { f64::NEG_INFINITY } else { value };
    if x >= 0.0 { value } else { f64::NAN }
}

/// ln(1 + x) through f64, error below 1 ulp.
#[inline(always)]
pub(crate) fn log1p_32(x: f32) -> f32 {
    let y = f64::from(x);
    // Around 0 the sum would lose x's low bits; there m - 1 is x itself.
    let near = y.abs() < 0.25;
    let (m, e) = split64(1.0 + y);
    let f = if near { y } else { m - 1.0 };
    let e = if near { 0.0 } else { e };
    let s = f / (2.0 + f);
    let z = s * s;
    let p = (s * z).mul_add(poly64(z, ATANH64_SHORT), s);
    let value = e.mul_add(std::f64::consts::LN_2, 2.0 * p) as f32;
    let value = if x == f32::INFINITY { x } else { value };
    let value = if x == -1.0 { f32::NEG_INFINITY } else { value };
    let value = if x == 0.0 { x } else { value };
    if x >= -1.0 { value } else { f32::NAN }
}
