//! Functions of real numbers against those of the standard library.

use super::{everywhere, ulps, values};
use crate::hal::DType;
use crate::tensor::Tensor;

type Definition = fn(f64) -> f64;
type Function = (&'static str, fn(&Tensor) -> Tensor, Definition, f64);

/// Numbers of every size and kind that f32 has too.
fn numbers() -> Vec<f64> {
    let mut numbers = vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        2.0,
        8.0,
        1000.0,
        1e10,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    let mut state = 1_u64;
    for exponent in -30..60 {
        for _ in 0..8 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let mantissa = 1.0 + (state >> 40) as f64 / (1_u64 << 24) as f64;
            let number = mantissa * 2_f64.powf(f64::from(exponent) / 2.0 - 8.0);
            numbers.extend([number, -number].map(|number| f64::from(number as f32)));
        }
    }
    // Close to where formulas change or cancel.
    for at in [
        1.0_f32,
        -1.0,
        0.5,
        -0.5,
        88.7,
        -88.7,
        89.2,
        -87.3,
        std::f32::consts::PI,
        std::f32::consts::FRAC_PI_2,
        268435456.0,
    ] {
        let bits = at.to_bits();
        numbers.extend([bits - 1, bits, bits + 1, bits + 9].map(|bits| f64::from(f32::from_bits(bits))));
    }
    numbers
}

fn check(functions: &[Function]) {
    let numbers = numbers();
    let singles: Vec<f32> = numbers.iter().map(|&number| number as f32).collect();
    everywhere(|cx| {
        let double = Tensor::from_slice(&numbers, [numbers.len()], cx);
        let single = Tensor::from_slice(&singles, [singles.len()], cx);
        for &(name, function, definition, tolerance) in functions {
            for (x, dtype) in [(&double, DType::F64), (&single, DType::F32)] {
                let result = function(x);
                assert_eq!(result.dtype().unwrap(), dtype, "{name}");
                for (&number, got) in numbers.iter().zip(values(&result)) {
                    let wanted = definition(number);
                    let wanted = if dtype == DType::F32 {
                        f64::from(wanted as f32)
                    } else {
                        wanted
                    };
                    let error = ulps(got, wanted, dtype);
                    assert!(
                        error <= tolerance,
                        "{name}({number:e}) {dtype} = {got:e}, not {wanted:e}: {error} ulp"
                    );
                }
            }
        }
    });
}

#[test]
fn primitives() {
    check(&[
        ("sqrt", Tensor::sqrt, f64::sqrt, 0.0),
        ("exp", Tensor::exp, f64::exp, 2.0),
        ("expm1", Tensor::expm1, f64::exp_m1, 2.0),
        ("log", Tensor::log, f64::ln, 2.0),
        ("log1p", Tensor::log1p, f64::ln_1p, 2.0),
        ("sin", Tensor::sin, f64::sin, 2.0),
        ("cos", Tensor::cos, f64::cos, 2.0),
        ("tanh", Tensor::tanh, f64::tanh, 2.0),
        ("erf", Tensor::erf, libm::erf, 2.0),
        ("floor", Tensor::floor, f64::floor, 0.0),
        ("ceil", Tensor::ceil, f64::ceil, 0.0),
        ("trunc", Tensor::trunc, f64::trunc, 0.0),
        ("round", Tensor::round, f64::round_ties_even, 0.0),
        ("neg", Tensor::neg, |x| -x, 0.0),
        ("abs", Tensor::abs, f64::abs, 0.0),
        (
            "sign",
            Tensor::sign,
            |x| if x == 0.0 { x } else { x.signum() },
            0.0,
        ),
    ]);
}

#[test]
fn powers_and_logarithms() {
    check(&[
        ("square", Tensor::square, |x| x * x, 0.5),
        ("reciprocal", Tensor::reciprocal, |x| 1.0 / x, 0.5),
        ("rsqrt", Tensor::rsqrt, |x| 1.0 / x.sqrt(), 1.5),
        ("cbrt", Tensor::cbrt, f64::cbrt, 1.0),
        ("exp2", Tensor::exp2, f64::exp2, 2.0),
        ("log2", Tensor::log2, f64::log2, 3.0),
        ("log10", Tensor::log10, f64::log10, 3.0),
    ]);
}

#[test]
fn circular_and_hyperbolic_functions() {
    check(&[
        ("tan", Tensor::tan, f64::tan, 8.0),
        ("asin", Tensor::asin, f64::asin, 4.0),
        ("acos", Tensor::acos, f64::acos, 4.0),
        ("atan", Tensor::atan, f64::atan, 4.0),
        ("sinh", Tensor::sinh, libm::sinh, 8.0),
        ("cosh", Tensor::cosh, libm::cosh, 8.0),
        ("asinh", Tensor::asinh, libm::asinh, 8.0),
        (
            "acosh",
            Tensor::acosh,
            |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) },
            8.0,
        ),
        ("atanh", Tensor::atanh, libm::atanh, 8.0),
    ]);
}

#[test]
fn erfc_keeps_its_digits_far_out() {
    check(&[("erfc", Tensor::erfc, libm::erfc, 8.0)]);
}

#[test]
fn bounds_hold_for_f64_of_every_size() {
    let large = [
        710.0,
        710.4,
        -710.4,
        711.0,
        1e300,
        -1e300,
        1e-300,
        f64::MIN_POSITIVE,
        5e-324,
        1.7e308,
    ];
    everywhere(|cx| {
        let x = Tensor::from_slice(&large, [large.len()], cx);
        let functions: [(&str, Tensor, Definition); 9] = [
            ("sinh", x.sinh(), libm::sinh),
            ("cosh", x.cosh(), libm::cosh),
            ("asinh", x.asinh(), libm::asinh),
            ("acosh", x.acosh(), |x| {
                if x < 1.0 { f64::NAN } else { libm::acosh(x) }
            }),
            ("atan", x.atan(), f64::atan),
            ("cbrt", x.cbrt(), f64::cbrt),
            ("log2", x.log2(), f64::log2),
            ("log10", x.log10(), f64::log10),
            ("tanh", x.tanh(), f64::tanh),
        ];
        for (name, result, definition) in functions {
            for (&number, got) in large.iter().zip(values(&result)) {
                let error = ulps(got, definition(number), DType::F64);
                assert!(
                    error <= 8.0,
                    "{name}({number:e}) = {got:e}, not {:e}: {error} ulp",
                    definition(number)
                );
            }
        }
    });
}

#[test]
fn narrow_floats_round_once_and_integers_become_f32() {
    everywhere(|cx| {
        let numbers = [0.1_f32, 0.7, 1.3, 3.0, -2.5];
        let x = Tensor::from_slice(&numbers, [5], cx).cast(DType::F16);
        let exact = values(&x);
        for (number, got) in exact.iter().zip(values(&x.sinh())) {
            let wanted = half::f16::from_f64(number.sinh()).to_f64();
            assert!(ulps(got, wanted, DType::F16) <= 1.0, "{number}: {got} {wanted}");
        }
        let x = Tensor::from_slice(&[0_i16, 1, 4], [3], cx);
        assert_eq!(x.sqrt().to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0]);
        assert_eq!(x.log2().to_vec::<f32>().unwrap(), [f32::NEG_INFINITY, 0.0, 2.0]);
        assert_eq!(x.floor().to_vec::<i16>().unwrap(), [0, 1, 4]);
        let powers: Vec<f64> = (0..23).map(|n| 10_f64.powi(n)).collect();
        let exponents: Vec<f64> = (0..23).map(f64::from).collect();
        assert_eq!(values(&Tensor::from_slice(&powers, [23], cx).log10()), exponents);
    });
}
