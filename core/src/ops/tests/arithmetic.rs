//! Arithmetic, comparisons and choices.

use super::{everywhere, integers, read, refusal, ulps, values};
use crate::hal::DType;
use crate::tensor::Tensor;

#[test]
fn operands_broadcast_and_promote() {
    everywhere(|cx| {
        let column = Tensor::from_slice(&[1_i32, 2], [2, 1], cx);
        let row = Tensor::from_slice(&[10.0_f32, 20.0, 30.0], [3], cx);
        let sum = &column + &row;
        assert_eq!(sum.dtype().unwrap(), DType::F32);
        assert_eq!(read(&sum), (vec![2, 3], vec![11.0, 21.0, 31.0, 12.0, 22.0, 32.0]));
        let all = 1 - 2.0 * (&column * 3 - true) / &row.cast(DType::F64);
        assert_eq!(all.dtype().unwrap(), DType::F64);
        assert_eq!(values(&all)[0], 1.0 - 2.0 * 2.0 / 10.0);
        let mut x = row.clone();
        x += &column;
        x *= 2;
        assert_eq!(values(&x), [22.0, 42.0, 62.0, 24.0, 44.0, 64.0]);
        let empty = Tensor::zeros([0, 3], DType::F32, cx) + &row;
        assert_eq!(read(&empty), (vec![0, 3], vec![]));
    });
}

#[test]
fn integers_wrap_and_divide_truly() {
    everywhere(|cx| {
        let x = Tensor::from_slice(&[250_u8, 7, 0], [3], cx);
        assert_eq!(integers(&(&x + 10_u8)), [4, 17, 10]);
        assert_eq!(integers(&(-&x)), [6, 249, 0]);
        let quotient = &x / 4;
        assert_eq!(
            (quotient.dtype().unwrap(), values(&quotient)),
            (DType::F32, vec![62.5, 1.75, 0.0])
        );
        let b = Tensor::from_slice(&[true, false], [2], cx);
        assert_eq!((&b + true).dtype().unwrap(), DType::Bool);
        assert_eq!(integers(&(&b * &b)), [1, 0]);
        assert_eq!(integers(&(&b + 1)), [2, 1]);
        assert!(refusal(&x.cast(DType::U64) + &x.cast(DType::I8)).contains("no integer dtype holds both"));
    });
}

#[test]
fn quotients_and_remainders_are_those_of_python() {
    // Python's a // b, a % b, math.fmod(a, b).
    let cases = [
        (7.0, 2.0, 3.0, 1.0, 1.0),
        (-7.0, 2.0, -4.0, 1.0, -1.0),
        (7.0, -2.0, -4.0, -1.0, 1.0),
        (-7.0, -2.0, 3.0, -1.0, -1.0),
        (6.0, -3.0, -2.0, 0.0, 0.0),
        (1.0, 0.1, 9.0, 0.09999999999999995, 0.09999999999999995),
        (-0.5, f64::INFINITY, -1.0, f64::INFINITY, -0.5),
    ];
    everywhere(|cx| {
        let of = |get: fn(&(f64, f64, f64, f64, f64)) -> f64| cases.iter().map(get).collect::<Vec<f64>>();
        let a = Tensor::from_slice(&of(|case| case.0), [cases.len()], cx);
        let b = Tensor::from_slice(&of(|case| case.1), [cases.len()], cx);
        assert_eq!(values(&a.div_floor(&b)), of(|case| case.2));
        assert_eq!(values(&(&a % &b)), of(|case| case.3));
        assert_eq!(values(&a.fmod(&b)), of(|case| case.4));
        let whole = |x: &Tensor| x.index(..5).cast(DType::I8);
        assert_eq!(integers(&whole(&a).div_floor(whole(&b))), [3, -4, -4, 3, -2]);
        assert_eq!(integers(&(whole(&a) % whole(&b))), [1, 1, -1, -1, 0]);
        let zero = values(&a.index(..2).div_floor(0.0));
        assert_eq!(zero, [f64::INFINITY, f64::NEG_INFINITY]);
    });
}

#[test]
fn integer_powers_wrap() {
    everywhere(|cx| {
        let x = Tensor::from_slice(&[2_i32, -3, 0, 1, -1, 7], [6], cx);
        assert_eq!(integers(&x.pow(&x)), [4, 0, 1, 1, -1, 823543]);
        assert_eq!(integers(&x.pow(0)), [1; 6]);
        assert_eq!(integers(&x.pow(-1)), [0, 0, 0, 1, -1, 0]);
        assert_eq!(
            integers(&x.pow(31)),
            [2, -3, 0, 1, -1, 7].map(|x: i32| i64::from(x.wrapping_pow(31)))
        );
        let x = Tensor::from_slice(&[3_u8, 255], [2], cx);
        assert_eq!(
            integers(&x.pow(200)),
            [3_u8, 255].map(|x| i64::from(x.wrapping_pow(200)))
        );
        let x = Tensor::from_slice(&[2.0_f32, -2.0, 0.0], [3], cx);
        assert_eq!(values(&x.pow(2)), [4.0, 4.0, 0.0]);
        assert_eq!(values(&x.pow(3.0)), [8.0, -8.0, 0.0]);
        assert_eq!(values(&x.pow(-1.0)), [0.5, -0.5, f64::INFINITY]);
        assert!(values(&x.pow(0.5))[1].is_nan());
    });
}

#[test]
fn nan_compares_as_nan() {
    everywhere(|cx| {
        let nan = f32::NAN;
        let a = Tensor::from_slice(&[1.0, nan, 2.0, -0.0], [4], cx);
        let b = Tensor::from_slice(&[1.0, 1.0, nan, 0.0], [4], cx);
        assert_eq!(integers(&a.eq(&b)), [1, 0, 0, 1]);
        assert_eq!(integers(&a.ne(&b)), [0, 1, 1, 0]);
        assert_eq!(integers(&a.lt(&b)), [0, 0, 0, 0]);
        assert_eq!(integers(&a.ge(&b)), [1, 0, 0, 1]);
        assert_eq!(integers(&a.gt(0.5)), [1, 0, 1, 0]);
        assert_eq!(integers(&a.le(1)), [1, 0, 0, 1]);
        assert!(values(&a.maximum(&b))[1..3].iter().all(|x| x.is_nan()));
        assert_eq!(values(&a.fmax(&b)), [1.0, 1.0, 2.0, 0.0]);
        assert_eq!(values(&a.fmin(&b)), [1.0, 1.0, 2.0, 0.0]);
        assert_eq!(integers(&a.isnan()), [0, 1, 0, 0]);
        assert_eq!(integers(&a.signbit()), [0, 0, 0, 1]);
        assert_eq!(integers(&(&a / 0.0).isinf()), [1, 0, 1, 0]);
        assert_eq!(integers(&(&a / 0.0).isfinite()), [0; 4]);
        assert_eq!(integers(&a.isclose(&b, 0.0, 0.0)), [1, 0, 0, 1]);
    });
}

#[test]
fn choices_and_bounds() {
    everywhere(|cx| {
        let x = Tensor::from_slice(&[-2.0_f32, 0.5, 3.0, f32::NAN], [4], cx);
        let chosen = x.gt(0).where_cond(&x, -1);
        assert_eq!(values(&chosen), [-1.0, 0.5, 3.0, -1.0]);
        assert_eq!(values(&x.clamp(-1, 1))[..3], [-1.0, 0.5, 1.0]);
        assert!(values(&x.clamp(-1, 1))[3].is_nan());
        assert_eq!(values(&x.clamp_min(1.0))[..3], [1.0, 1.0, 3.0]);
        assert_eq!(values(&x.heaviside(0.5)), [0.0, 1.0, 1.0, 0.0]);
        assert_eq!(values(&x.copysign(-0.0))[..3], [-2.0, -0.5, -3.0]);
        assert_eq!(values(&x.frac())[..3], [0.0, 0.5, 0.0]);
        assert_eq!(values(&x.lerp(1.0, 1.0))[..3], [1.0, 1.0, 1.0]);
        assert_eq!(values(&x.lerp(1.0, 0.25))[..3], [-1.25, 0.625, 2.5]);
        let i = Tensor::from_slice(&[5_i32, -5], [2], cx).clamp(-1, 3);
        assert_eq!((i.dtype().unwrap(), integers(&i)), (DType::I32, vec![3, -1]));
    });
}

#[test]
fn bits_and_truth_values() {
    everywhere(|cx| {
        let a = Tensor::from_slice(&[0b1100_u8, 0xff], [2], cx);
        assert_eq!(integers(&(&a & 0b1010)), [0b1000, 0b1010]);
        assert_eq!(integers(&(&a | 1)), [0b1101, 0xff]);
        assert_eq!(integers(&(&a ^ &a)), [0, 0]);
        assert_eq!(integers(&!&a), [0xf3, 0]);
        assert_eq!(integers(&(&a << 4)), [0b1100_0000, 0xf0]);
        assert_eq!(integers(&(&a >> 2)), [0b11, 0x3f]);
        assert_eq!(integers(&a.logical_and(&(&a - 12))), [0, 1]);
        assert_eq!(
            integers(&a.logical_not().logical_or(false).logical_xor(true)),
            [1, 1]
        );
        assert!(refusal(a.cast(DType::F32) & 1).starts_with("bitwise_and: "));
    });
}

#[test]
fn lengths_and_sums_of_exponentials_do_not_overflow() {
    everywhere(|cx| {
        let inf = f64::INFINITY;
        let a = Tensor::from_slice(&[3.0, 1e300, 0.0, inf, 1e-300], [5], cx);
        let b = Tensor::from_slice(&[4.0, 1e300, 0.0, f64::NAN, 1e-300], [5], cx);
        for (got, wanted) in
            values(&a.hypot(&b))
                .into_iter()
                .zip([5.0, 2_f64.sqrt() * 1e300, 0.0, inf, 2_f64.sqrt() * 1e-300])
        {
            assert!(ulps(got, wanted, DType::F64) <= 2.0, "{got} {wanted}");
        }
        let a = Tensor::from_slice(&[1000.0, -inf, inf, 0.0], [4], cx);
        let b = Tensor::from_slice(&[1000.0, -inf, inf, -50.0], [4], cx);
        let wanted = [1000.0 + 2_f64.ln(), -inf, inf, (-50_f64).exp()];
        for (got, wanted) in values(&a.logaddexp(&b)).into_iter().zip(wanted) {
            assert!(ulps(got, wanted, DType::F64) <= 2.0, "{got} {wanted}");
        }
        let x = Tensor::from_slice(&[0.0, 0.0, 2.0], [3], cx);
        let y = Tensor::from_slice(&[0.0, f64::NAN, 1.0], [3], cx);
        let product = values(&x.xlogy(&y));
        assert!(product[0] == 0.0 && product[1].is_nan() && product[2] == 0.0);
    });
}
