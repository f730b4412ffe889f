//! Errors in ulp against f64, over bit patterns of the whole range.

use super::*;
use crate::loops::FUNCTIONS;
use thalweg_hal::ir::ScalarOp;

/// Distance of `found` from the exact value in ulp of the f32 nearest to it.
fn ulp(found: f32, exact: f64) -> f64 {
    let nearest = exact as f32;
    if nearest.is_nan() {
        return if found.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if found == nearest {
        return 0.0;
    }
    if found.is_nan() || nearest.is_infinite() || found.is_infinite() {
        return f64::INFINITY;
    }
    let exponent = (nearest.abs().to_bits() >> 23).max(1) as i32 - 127 - 23;
    (f64::from(found) - exact).abs() / 2f64.powi(exponent)
}

/// Every 401st bit pattern, and the special ones.
fn patterns() -> impl Iterator<Item = f32> {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MIN_POSITIVE,
        1e-45,
    ];
    (0..=u32::MAX / 401)
        .map(|i| f32::from_bits(i * 401))
        .chain(special)
}

fn sweep(name: &str, limit: f64, f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64) {
    let (mut worst, mut at) = (0.0, 0.0);
    for x in patterns() {
        let error = ulp(f(x), exact(f64::from(x)));
        if error > worst {
            (worst, at) = (error, x);
        }
    }
    assert!(worst <= limit, "{name}({at:e}) errs by {worst} ulp");
}

#[test]
fn one_argument() {
    let below_one = |x: f32| if x > 0.0 { 1.0 } else { exp2_of_product(x, 1.0) };
    let cut = |x: f64| match x {
        x if x > 0.0 => 1.0,
        x if x <= -125.5 => 0.0,
        x => libm::exp2(x),
    };
    sweep("exp2", 1.0, below_one, cut);
    for &(op, single, double) in FUNCTIONS {
        let limit = match op {
            ScalarOp::Tanh => 2.0,
            ScalarOp::Erf => 1.4,
            _ => 1.0,
        };
        sweep(op.name(), limit, single, double);
    }
}

#[test]
fn exponentials_of_part_of_the_range() {
    for x in patterns() {
        let bits = exp32(x).to_bits();
        if x <= 0.0 {
            assert_eq!(exp32_below_one(x).to_bits(), bits, "{x:e}");
        }
        if (-87.0..=88.0).contains(&x) {
            assert_eq!(exp::exp32_normal(x).to_bits(), bits, "{x:e}");
        }
    }
    assert!(exp32_below_one(f32::NAN).is_nan() && exp::exp32_normal(f32::NAN).is_nan());
}

#[test]
fn signs_of_zero() {
    for f in [expm1_32, log1p_32, sin32, tanh32, erf32] {
        assert!(f(-0.0).to_bits() == (-0.0f32).to_bits() && f(0.0).to_bits() == 0);
    }
}

#[test]
fn two_arguments() {
    let special = [
        0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 3.0, -3.0, 1e-45, -1e-45, 3e38, -3e38,
    ];
    let special =
        special
            .into_iter()
            .chain([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 8388607.0, 16777216.0]);
    let special: Vec<f32> = special.collect();
    let mut state = 1u64;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 32) as u32
    };
    let mut pairs: Vec<(f32, f32)> = special
        .iter()
        .flat_map(|&a| special.iter().map(move |&b| (a, b)))
        .collect();
    for _ in 0..2_000_000 {
        let (a, b) = (f32::from_bits(next()), f32::from_bits(next()));
        pairs.push((a, b));
        pairs.push((
            f32::from_bits(next() % 0x3000_0000 + 0x2800_0000),
            (next() as i32) as f32 / 1e8,
        ));
    }
    for (a, b) in pairs {
        let (p, q) = (f64::from(a), f64::from(b));
        let error = ulp(pow32(a, b), libm::pow(p, q));
        assert!(
            error <= 1.0,
            "pow({a:e}, {b:e}) = {:e} errs by {error} ulp",
            pow32(a, b)
        );
        let error = ulp(atan2_32(a, b), libm::atan2(p, q));
        assert!(
            error <= 1.0,
            "atan2({a:e}, {b:e}) = {:e} errs by {error} ulp",
            atan2_32(a, b)
        );
        if pow32(a, b) == 0.0 {
            assert_eq!(
                pow32(a, b).to_bits() >> 31,
                (libm::pow(p, q).to_bits() >> 63) as u32,
                "pow({a:e}, {b:e})"
            );
        }
    }
}

#[test]
fn double_precision() {
    let check = |name: &str, found: f64, exact: f64| {
        let distance = (found.to_bits() as i64).abs_diff(exact.to_bits() as i64);
        assert!(
            distance <= 2 || found.is_nan() && exact.is_nan(),
            "{name}: {found:e} instead of {exact:e}"
        );
    };
    for i in 0..=u64::from(u32::MAX / 1999) {
        let bits = (i * 1999) << 32 | ((i * 0x9e37_79b9) & 0xffff_ffff);
        let x = f64::from_bits(bits);
        check(&format!("exp({x:e})"), exp64(x), libm::exp(x));
        check(&format!("log({x:e})"), log64(x), libm::log(x));
        if !trig64_is_slow(x) {
            check(&format!("sin({x:e})"), sin64(x), libm::sin(x));
            check(&format!("cos({x:e})"), cos64(x), libm::cos(x));
        }
        let y = (i as f64 - 1e6) / 1500.0;
        check(&format!("sin({y:e})"), sin64(y), libm::sin(y));
        check(&format!("cos({y:e})"), cos64(y), libm::cos(y));
        // Bases and exponents of every size, and bases around 1.
        let base = f64::from_bits(1 << 52 | (bits ^ i << 30) & (u64::MAX >> 2));
        for (base, exponent) in [
            (base, y / 2000.0),
            (base, y),
            (1.0 + y / 1e4, 5.0 * y),
            (10.0, y / 5.0),
        ] {
            if !pow64_is_slow(base, exponent) {
                let name = format!("pow({base:e}, {exponent:e})");
                check(&name, pow64(base, exponent), libm::pow(base, exponent));
            }
        }
        check(&format!("exp({y:e})"), exp64(y), libm::exp(y));
    }
    assert_eq!(log64(0.0), f64::NEG_INFINITY);
    assert_eq!(log64(f64::INFINITY), f64::INFINITY);
    assert_eq!(exp64(f64::NEG_INFINITY), 0.0);
    assert_eq!(log64(5e-324), libm::log(5e-324));
}

#[test]
fn halves() {
    for bits in 0..=u16::MAX {
        let (h, b) = (::half::f16::from_bits(bits), ::half::bf16::from_bits(bits));
        if h.is_nan() {
            assert!(f16_to_f32(bits).is_nan());
        } else {
            assert_eq!(f16_to_f32(bits).to_bits(), h.to_f32().to_bits());
            assert_eq!(f32_to_f16(f16_to_f32(bits)), bits);
        }
        if b.is_nan() {
            assert!(bf16_to_f32(bits).is_nan());
        } else {
            assert_eq!(bf16_to_f32(bits).to_bits(), b.to_f32().to_bits());
        }
    }
    for x in patterns() {
        let (h, b) = (::half::f16::from_f32(x), ::half::bf16::from_f32(x));
        assert!(
            f32_to_f16(f16_round(x)) == h.to_bits() || h.is_nan() && f16_round(x).is_nan(),
            "{x:e}"
        );
        assert!(
            f32_to_bf16(bf16_round(x)) == b.to_bits() || b.is_nan() && bf16_round(x).is_nan(),
            "{x:e}"
        );
    }
}

#[test]
fn quotients_of_integers() {
    use quotient::{div_i32, div_i64, i64_is_slow, rem_i32, rem_i64};
    let mut bits = 1_u64;
    let mut random = |width: u32| {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        (bits as i64) >> (64 - width)
    };
    let same = |a: i64, b: i64| {
        if !i64_is_slow(a, b) {
            assert_eq!((div_i64(a, b), rem_i64(a, b)), (a / b, a % b), "{a} by {b}");
        }
        let (a, b) = (a as i32, b as i32);
        let expected = match b {
            0 => (0, 0),
            _ => (a.wrapping_div(b), a.wrapping_rem(b)),
        };
        assert_eq!((div_i32(a, b), rem_i32(a, b)), expected, "{a} by {b}");
    };
    for _ in 0..100_000 {
        for widths in [(64, 64), (52, 52), (52, 20), (33, 5), (8, 8)] {
            let (a, b) = (random(widths.0), random(widths.1));
            same(a, b);
            // Just below, at and above a multiple.
            for near in -1..=1 {
                same(
                    (a / b.wrapping_abs().max(1)).wrapping_mul(b).wrapping_add(near),
                    b,
                );
            }
        }
    }
    for a in [i64::MIN, i64::MAX, i32::MIN.into(), i32::MAX.into(), 0, 1, -1] {
        for b in [i64::MIN, i64::MAX, i32::MIN.into(), i32::MAX.into(), 0, 1, -1] {
            same(a, b);
        }
    }
}

#[test]
fn remainders_have_every_bit() {
    use quotient::{rem_f32, rem_f32_is_slow, rem_f32_slow};
    let same = |a: f32, b: f32| {
        let found = if rem_f32_is_slow(a, b) {
            rem_f32_slow(a, b)
        } else {
            rem_f32(a, b)
        };
        let exact = a % b;
        assert!(
            found.to_bits() == exact.to_bits() || found.is_nan() && exact.is_nan(),
            "{a:e} % {b:e}: {found:e} instead of {exact:e}"
        );
    };
    let mut bits = 1_u32;
    let mut random = || {
        bits ^= bits << 13;
        bits ^= bits >> 17;
        bits ^= bits << 5;
        bits
    };
    for _ in 0..1_000_000 {
        let (a, b) = (f32::from_bits(random()), random());
        same(a, f32::from_bits(b));
        // Of nearly one size, and multiples with what is next to them.
        let near = f32::from_bits((a.to_bits() & 0x7f80_0000) ^ (b & 0x80ff_ffff));
        same(a, near);
        let multiple = near * (b >> 8) as f32;
        for a in [multiple, multiple.next_up(), multiple.next_down()] {
            same(a, near);
        }
    }
    for a in patterns() {
        for b in [
            0.0,
            -0.0,
            1.0,
            -3.0,
            f32::INFINITY,
            f32::NAN,
            f32::MIN_POSITIVE,
            1e-45,
        ] {
            same(a, b);
            same(b, a);
        }
    }
}
