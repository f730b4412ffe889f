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

/// (atanh(s)/s - 1 - s^2/3) / s^4 in s^2 on [0, 0.0295], error 2^-66 of the logarithm.
const ATANH64: [f64; 8] = [
    0.2,
    0.14285714285714685,
    0.11111111110827367,
    0.0909090916782708,
    0.07692297467298959,
    0.06667403106050301,
    0.05853097844940682,
    0.058618018114527055,
];

/// (2^r - 1 - r ln 2) / r^2 on |r| <= 1/2, error of 2^r 2^-60.
const EXP2_64: [f64; 11] = [
    0.24022650695910072,
    0.055504108664821625,
    0.00961812910762848,
    0.001333355814640647,
    0.00015403530393370734,
    1.5252733841556773e-05,
    1.3215486808705563e-06,
    1.0178057087733941e-07,
    7.0548973041554995e-09,
    4.4558179083360645e-10,
    2.5729324177362305e-11,
];

/// The sum of two numbers of which the first is not the lesser one, or 0, and what it lacks.
#[inline(always)]
fn sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    (sum, (a - sum) + b)
}

/// x to the power y where [`pow64_is_slow`] does not hold, error below 1 ulp: 2^(y log2 x), whose logarithm is the sum of two numbers (Dekker,
/// A Floating-Point Technique for Extending the Available Precision, 1971).
#[inline(always)]
pub(crate) fn pow64(x: f64, y: f64) -> f64 {
    const THIRD: (f64, f64) = (1.0 / 3.0, 1.850371707708594e-17);
    /// 2 log2 e.
    const TWICE: (f64, f64) = (2.8853900817779268, 4.0710547481862066e-17);
    const LN2_LOW: f64 = 2.3190468138462996e-17;
    let (m, e) = split64(x);
    // s = (m - 1) / (m + 1), z = s^2.
    let (f, (t, t_low)) = (m - 1.0, sum(1.0, m));
    let (t, t_low) = if m > 1.0 { sum(m, 1.0) } else { (t, t_low) };
    let s = f / t;
    let s_low = (-s).mul_add(t_low, (-s).mul_add(t, f)) / t;
    let z = s * s;
    let z_low = s.mul_add(s, -z) + 2.0 * s * s_low;
    // q = atanh(s)/s - 1.
    let third = z * THIRD.0;
    let third_low = z.mul_add(THIRD.0, -third) + (z * THIRD.1 + z_low * THIRD.0);
    let (q, q_low) = sum(third, z * z * poly64(z, ATANH64));
    let q_low = q_low + third_low;
    let u = s * q;
    let u_low = s.mul_add(q, -u) + (s * q_low + s_low * q);
    let (l, l_low) = sum(s, u);
    let l_low = l_low + (u_low + s_low);
    let v = l * TWICE.0;
    let v_low = l.mul_add(TWICE.0, -v) + (l * TWICE.1 + l_low * TWICE.0);
    let (w, w_low) = sum(e, v);
    let w_low = w_low + v_low;
    let p = y * w;
    let p_low = y.mul_add(w, -p) + y * w_low;
    let (whole, n) = nearest64(p);
    let (r, r_low) = sum(p - whole, p_low);
    let tail = (r * r).mul_add(poly64(r, EXP2_64), r * LN2_LOW) + r_low * std::f64::consts::LN_2;
    (1.0 + r.mul_add(std::f64::consts::LN_2, tail)) * pow2_64(n)
}

/// Whether x is not positive and normal, or the result might not be.
#[inline(always)]
pub(crate) fn pow64_is_slow(x: f64, y: f64) -> bool {
    // The sign is above the exponent.
    let exponent = (x.to_bits() >> 52) as i32;
    let size = y.abs() * f64::from((exponent - 1023).abs() + 1);
    (exponent.wrapping_sub(1).cast_unsigned() >= 2046) | size.is_nan() | (size >= 1020.0)
}
