//! Exponentials: Cody and Waite's reduction x = n ln 2 + r, then a polynomial on |r| <= ln(2)/2.

use super::lanes::power;
use super::{Lanes, poly32, poly64};

/// 1.5 * 2^23: adding it rounds to an integer that stands in the low bits.
const MAGIC32: f32 = 12_582_912.0;
/// 1.5 * 2^52.
const MAGIC64: f64 = 6_755_399_441_055_744.0;

/// (e^r - 1 - r) / r^2 on |r| <= ln(2)/2, error of e^r 2^-60.
pub(super) const EXP64: [f64; 11] = [
    0.5,
    0.16666666666666682,
    0.04166666666666608,
    0.008333333333316786,
    0.0013888888889119105,
    0.0001984126989701242,
    2.4801586922323163e-05,
    2.7557234221205842e-06,
    2.7557583864064154e-07,
    2.511226416568151e-08,
    2.082643182432726e-09,
];

/// 2^n for n in -1022..=1023.
#[inline(always)]
pub(super) fn pow2_64(n: i64) -> f64 {
    f64::from_bits((n.wrapping_add(1023) as u64) << 52)
}

/// The nearest integer, as float and as integer, for |x| < 2^51.
#[inline(always)]
pub(super) fn nearest64(x: f64) -> (f64, i64) {
    let z = x + MAGIC64;
    (
        z - MAGIC64,
        (z.to_bits() as i64).wrapping_sub(MAGIC64.to_bits() as i64),
    )
}

/// The float of an integer below 2^51.
#[inline(always)]
pub(super) fn float64(n: i64) -> f64 {
    f64::from_bits((n as u64).wrapping_add(MAGIC64.to_bits())) - MAGIC64
}

/// Arguments of [`exp32`] are cut to these bounds, beyond which the result is 0 or infinite.
const LOWEST32: f32 = -104.0;
const HIGHEST32: f32 = 89.0;

/// ln 2 in two parts.
const LN2_HIGH32: f32 = 0.693_145_75;
const LN2_LOW32: f32 = 1.428_606_8e-6;

/// (e^r - 1 - r) / r^2 on |r| <= ln(2)/2, error of e^r 2^-28.
const EXP32: [f32; 5] = [
    0.499_999_94,
    0.166_665_15,
    0.041_668_084,
    0.008_369_348,
    0.001_384_036_7,
];

/// What is added to n in the low bits of z, so that shifts make powers of two of them: 2 * 127 where the power is two factors, 127 where
/// it is one, and 127 + 64 where the polynomial brings 2^-64.
const BIAS_OF_TWO: f32 = 254.0;
const BIAS_OF_ONE: f32 = 127.0;
const BIAS_BELOW_ONE: f32 = 191.0;
/// 2^-64.
const BELOW_ONE: f32 = 5.421_010_862_427_522e-20;

/// e^x, error below 1 ulp.
#[inline(always)]
pub(crate) fn exp32<X: Lanes>(x: X) -> X {
    let c = |c: f32| x.splat(c);
    let x = X::choose(c(HIGHEST32).less(x), c(HIGHEST32), x);
    let x = X::choose(x.less(c(LOWEST32)), c(LOWEST32), x);
    let Parts { p, z, whole } = parts32(x, BIAS_OF_TWO, 1.0);
    if let Some(scale) = x.scale() {
        return scale(p, whole);
    }
    // Half of the exponent, rounded up, and then the other half. The first product is exact.
    let half = X::shift_left::<22>(z);
    let up = X::and_constant(X::minus_constant(half, -(1 << 22)), 0x7f80_0000);
    let down = X::and_constant(half, 0x7f80_0000);
    p * X::from_bits(up) * X::from_bits(down)
}

/// The bits of [`exp32`] for x <= 0, and NaN for NaN.
#[inline(always)]
pub(crate) fn exp32_below_one<X: Lanes>(x: X) -> X {
    let x = X::choose(x.less(x.splat(LOWEST32)), x.splat(LOWEST32), x);
    exp32_by_one_factor(x, BIAS_BELOW_ONE, BELOW_ONE)
}

/// The bits of [`exp32`] for x in -87..=88, and NaN for NaN.
#[inline(always)]
pub(super) fn exp32_normal<X: Lanes>(x: X) -> X {
    exp32_by_one_factor(x, BIAS_OF_ONE, 1.0)
}

/// e^x, where the polynomial brings a power of two as `scale` that `bias` takes back.
#[inline(always)]
fn exp32_by_one_factor<X: Lanes>(x: X, bias: f32, scale: f32) -> X {
    if let Some(scale) = x.scale() {
        let Parts { p, whole, .. } = parts32(x, BIAS_OF_TWO, 1.0);
        return scale(p, whole);
    }
    let Parts { p, z, .. } = parts32(x, bias, scale);
    p * X::from_bits(X::shift_left::<23>(z))
}

/// e^x = p 2^n.
struct Parts<X: Lanes> {
    /// p, times `scale`.
    p: X,
    /// n + `bias` in the low bits.
    z: X::Bits,
    /// n.
    whole: X,
}

#[inline(always)]
fn parts32<X: Lanes>(x: X, bias: f32, scale: f32) -> Parts<X> {
    let c = |c: f32| x.splat(c);
    let z = x.mul_add(c(std::f32::consts::LOG2_E), c(MAGIC32 + bias));
    let whole = z - c(MAGIC32 + bias);
    let r = whole.mul_add(c(-LN2_LOW32), whole.mul_add(c(-LN2_HIGH32), x));
    let p = poly32(r, EXP32.map(|c| c * scale));
    Parts {
        p: p.mul_add(r, c(scale)).mul_add(r, c(scale)),
        z: z.bits(),
        whole,
    }
}

/// 2^(x y) for products that are not above 0, and NaN; error below 1 ulp; 0 where the product rounds to less than -125.
#[inline(always)]
pub(crate) fn exp2_of_product(x: f32, y: f32) -> f32 {
    /// (2^r - 1) / r on |r| <= 1/2, error of 2^r 2^-28.
    const POLY: [f32; 6] = [
        std::f32::consts::LN_2,
        0.240_226_48,
        0.055_503_324,
        0.009_618_437,
        0.001_339_887_4,
        0.000_153_533_62,
    ];
    let z = x.mul_add(y, MAGIC32);
    let n = (z.to_bits() as i32).wrapping_sub(MAGIC32.to_bits() as i32);
    let r = x.mul_add(y, -(z - MAGIC32));
    let value = poly32(r, POLY).mul_add(r, 1.0) * power(n);
    if z < MAGIC32 - 125.0 { 0.0 } else { value }
}

/// e^x, error below 1 ulp.
#[inline(always)]
pub(crate) fn exp64(x: f64) -> f64 {
    const LN2_HI: f64 = 6.931_471_803_691_238e-1;
    const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;
    let x = if x > 710.0 { 710.0 } else { x };
    let x = if x < -746.0 { -746.0 } else { x };
    let (nf, n) = nearest64(x * std::f64::consts::LOG2_E);
    let r = nf.mul_add(-LN2_LO, nf.mul_add(-LN2_HI, x));
    let p = (r * r).mul_add(poly64(r, EXP64), r) + 1.0;
    let half = n >> 1;
    p * pow2_64(half) * pow2_64(n.wrapping_sub(half))
}

/// e^x - 1 through f64, error below 1 ulp.
#[inline(always)]
pub(crate) fn expm1_32(x: f32) -> f32 {
    let y = f64::from(x);
    let y = if y > 90.0 { 90.0 } else { y };
    let y = if y < -30.0 { -30.0 } else { y };
    let (nf, n) = nearest64(y * std::f64::consts::LOG2_E);
    let r = nf.mul_add(-std::f64::consts::LN_2, y);
    let [c0, c1, c2, c3, c4, c5, c6, c7, ..] = EXP64;
    let p = (r * r).mul_add(poly64(r, [c0, c1, c2, c3, c4, c5, c6, c7]), r);
    let scale = pow2_64(n);
    let value = scale.mul_add(p, scale - 1.0) as f32;
    if x == 0.0 { x } else { value }
}
