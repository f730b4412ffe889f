//! f32 powers through f64: 2^(y log2 |x|).

use super::exp::{nearest64, pow2_64};
use super::log::{ATANH64_SHORT, split64};
use super::poly64;

/// (2^r - 1) / r on |r| <= 1/2, error 2^-39.
const EXP2: [f64; 8] = [
    0.6931471805346268,
    0.24022650695734657,
    0.05550410977428277,
    0.009618129184496633,
    0.0013333421558532712,
    0.00015403435755504332,
    1.5316717202628396e-05,
    1.3259823331369596e-06,
];

/// x to the power y with the special cases of C's `pow`, error below 1 ulp.
#[inline(always)]
pub(crate) fn pow32(x: f32, y: f32) -> f32 {
    /// 2^23: adding it to a smaller positive number rounds to an integer that stands in the low bits.
    const MAGIC: f32 = 8_388_608.0;
    let ax = x.abs();
    let (m, e) = split64(f64::from(ax));
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let log2 = (s * z)
        .mul_add(poly64(z, ATANH64_SHORT), s)
        .mul_add(2.0 * std::f64::consts::LOG2_E, e);
    let log2 = if ax == f32::INFINITY { f64::INFINITY } else { log2 };
    let log2 = if ax == 0.0 { f64::NEG_INFINITY } else { log2 };
    let t = f64::from(y) * log2;
    let t = if t > 200.0 { 200.0 } else { t };
    let t = if t < -200.0 { -200.0 } else { t };
    // |x| = 1: infinite y included, NaN not.
    let t = if ax == 1.0 && y.abs() >= 0.0 { 0.0 } else { t };
    let t = if x.is_nan() { f64::NAN } else { t };
    let (nf, n) = nearest64(t);
    let r = t - nf;
    let value = (r.mul_add(poly64(r, EXP2), 1.0) * pow2_64(n)) as f32;

    let ay = y.abs();
    let shifted = ay + MAGIC;
    let small = ay < MAGIC;
    let whole = if small { shifted - MAGIC == ay } else { true };
    let low = if small { shifted.to_bits() } else { y.to_bits() };
    let odd = whole & (low & 1 == 1) & (ay < 16_777_216.0);
    let negative = x.to_bits() >> 31 == 1;
    let value = if negative & odd { -value } else { value };
    let undefined = negative & !whole & (ax != 0.0) & (ax != f32::INFINITY);
    let value = if undefined { f32::NAN } else { value };
    if (x == 1.0) | (y == 0.0) { 1.0 } else { value }
}
