//! Sine, cosine and atan2 of f32 through f64.

use super::exp::nearest64;
use super::poly64;

/// Cody and Waite's split of pi/2: 33 bits, so that a product with n < 2^20 is exact, and the rest (fdlibm,
/// e_rem_pio2.c).
const PIO2_HI: f64 = 1.570_796_326_734_125_6;
const PIO2_LO: f64 = 6.077_100_506_506_192e-11;

/// Whether `x` is beyond the fast reduction.
#[inline(always)]
pub(crate) fn trig32_is_slow(x: f32) -> bool {
    x.abs() > 1_000_000.0
}

/// sin(r + quadrant pi/2) on |r| <= pi/4; errors 2^-47 and 2^-43.
#[inline(always)]
fn sin_quadrant(r: f64, quadrant: i64) -> f32 {
    let z = r * r;
    let sin = (r * z).mul_add(
        poly64(
            z,
            [
                -0.1666666666663144,
                0.00833333332524326,
                -0.00019841263806885274,
                2.755535424262004e-06,
                -2.4761391593825237e-08,
            ],
        ),
        r,
    );
    let cos = z.mul_add(
        poly64(
            z,
            [
                -0.4999999999954273,
                0.04166666656164374,
                -0.0013888881054423111,
                2.4799035760755452e-05,
                -2.717971042496738e-07,
            ],
        ),
        1.0,
    );
    let value = if quadrant & 1 == 0 { sin } else { cos };
    let sign = ((quadrant & 2) as u64) << 62;
    f64::from_bits(value.to_bits() ^ sign) as f32
}

#[inline(always)]
fn reduce(x: f32) -> (f64, i64) {
    let y = f64::from(x);
    let (nf, n) = nearest64(y * std::f64::consts::FRAC_2_PI);
    ((y - nf * PIO2_HI) - nf * PIO2_LO, n)
}

/// Sine for arguments that are not slow, error below 1 ulp.
#[inline(always)]
pub(crate) fn sin32(x: f32) -> f32 {
    let (r, n) = reduce(x);
    let value = sin_quadrant(r, n);
    if x == 0.0 { x } else { value }
}

/// Cosine for arguments that are not slow, error below 1 ulp.
#[inline(always)]
pub(crate) fn cos32(x: f32) -> f32 {
    let (r, n) = reduce(x);
    sin_quadrant(r, n.wrapping_add(1))
}

/// Sine of any argument (Payne and Hanek's reduction).
pub(crate) fn sin32_slow(x: f32) -> f32 {
    libm::sin(f64::from(x)) as f32
}

/// Cosine of any argument (Payne and Hanek's reduction).
pub(crate) fn cos32_slow(x: f32) -> f32 {
    libm::cos(f64::from(x)) as f32
}

/// Angle of the point (x, y) with the special cases of C's `atan2`, error below 1 ulp. atan on [0, 1] has a polynomial
/// of error 2^-34.
#[inline(always)]
pub(crate) fn atan2_32(y: f32, x: f32) -> f32 {
    let (ay, ax) = (f64::from(y.abs()), f64::from(x.abs()));
    let steep = ay > ax;
    let (low, high) = if steep { (ax, ay) } else { (ay, ax) };
    let q = low / high;
    let q = if high == 0.0 { 0.0 } else { q };
    let q = if low == f64::INFINITY { 1.0 } else { q };
    let z = q * q;
    let p = poly64(
        z,
        [
            -0.33333332235329866,
            0.19999932197908513,
            -0.14284250872701434,
            0.11095202505422036,
            -0.08988792317087306,
            0.07269384982217363,
            -0.0547045013968049,
            0.03470467692052136,
            -0.016471472706516246,
            0.004999324194266805,
            -0.0007113062746687841,
        ],
    );
    let a = (q * z).mul_add(p, q);
    let a = if steep { std::f64::consts::FRAC_PI_2 - a } else { a };
    let a = if x.to_bits() >> 31 == 1 {
        std::f64::consts::PI - a
    } else {
        a
    };
    let value = (a as f32).copysign(y);
    if x.is_nan() | y.is_nan() { f32::NAN } else { value }
}

/// (sin r / r - 1) / r^2 in r^2 on |r| <= pi/4, error 2^-57, and (cos r - 1 + r^2 / 2) / r^4, error 2^-60.
const SIN64: [f64; 7] = [
    -0.16666666666666666,
    0.008333333333333331,
    -0.00019841269841265063,
    2.7557319219337312e-06,
    -2.5052106231802837e-08,
    1.6058531516797758e-10,
    -7.586691094197958e-13,
];
const COS64: [f64; 6] = [
    0.041666666666666664,
    -0.0013888888888887398,
    2.480158729876456e-05,
    -2.7557317271145144e-07,
    2.087614614655861e-09,
    -1.1382623647474604e-11,
];

/// Whether `x` is beyond the fast reduction.
#[inline(always)]
pub(crate) fn trig64_is_slow(x: f64) -> bool {
    x.is_nan() | (x.abs() > 1_000_000.0)
}

/// x less the nearest multiple of pi/2, in two parts, and the number of that. With pi/2 in three parts, the first difference is exact.
#[inline(always)]
fn reduce64(x: f64) -> (f64, f64, i64) {
    const PIO2: [f64; 3] = [
        std::f64::consts::FRAC_PI_2,
        6.123233995736766e-17,
        -1.4973849048591698e-33,
    ];
    let (whole, n) = nearest64(x * std::f64::consts::FRAC_2_PI);
    let r = (-whole).mul_add(PIO2[0], x);
    let next = whole * PIO2[1];
    let next_low = whole.mul_add(PIO2[1], -next);
    let w = r - next;
    let taken = w - r;
    let lost = (r - (w - taken)) - (next + taken);
    (w, lost - (next_low + whole * PIO2[2]), n)
}

#[inline(always)]
fn sin_quadrant64((r, low): (f64, f64), quadrant: i64) -> f64 {
    let z = r * r;
    let sin = r + (r * z).mul_add(poly64(z, SIN64), low * (-0.5_f64).mul_add(z, 1.0));
    let half = 0.5 * z;
    let c = 1.0 - half;
    let cos = c + (((1.0 - c) - half) + (z * z).mul_add(poly64(z, COS64), -(r * low)));
    let value = if quadrant & 1 == 0 { sin } else { cos };
    f64::from_bits(value.to_bits() ^ ((quadrant & 2) as u64) << 62)
}

/// Sine for arguments that are not slow, error below 1 ulp.
#[inline(always)]
pub(crate) fn sin64(x: f64) -> f64 {
    let (r, low, n) = reduce64(x);
    let value = sin_quadrant64((r, low), n);
    if x == 0.0 { x } else { value }
}

/// Cosine for arguments that are not slow, error below 1 ulp.
#[inline(always)]
pub(crate) fn cos64(x: f64) -> f64 {
    let (r, low, n) = reduce64(x);
    sin_quadrant64((r, low), n.wrapping_add(1))
}
