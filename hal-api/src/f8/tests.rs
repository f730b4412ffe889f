use super::*;

/// The value of a code by the formats' definitions.
fn defined(bits: u8, mantissa: i32, bias: i32) -> f64 {
    let (exponent, low) = (
        i32::from(bits & 0x7f) >> mantissa,
        i32::from(bits) & ((1 << mantissa) - 1),
    );
    let unit = 2_f64.powi(exponent.max(1) - bias - mantissa);
    let size = f64::from(if exponent > 0 { low + (1 << mantissa) } else { low }) * unit;
    if bits & 0x80 == 0 { size } else { -size }
}

#[test]
fn every_code_has_its_value_and_is_read_back() {
    for bits in 0..=255_u8 {
        let (four, five) = (F8E4M3::from_bits(bits), F8E5M2::from_bits(bits));
        let size = bits & 0x7f;
        match size {
            0x7f => assert!(four.is_nan()),
            _ => {
                assert_eq!(four.to_f64().to_bits(), defined(bits, 3, 7).to_bits());
                assert_eq!(F8E4M3::from_f32(four.to_f32()).to_bits(), bits);
            }
        }
        match size {
            0x7d.. => assert!(five.is_nan()),
            0x7c => {
                assert!(five.to_f32().is_infinite() && five.to_f32().is_sign_negative() == (bits != size))
            }
            _ => assert_eq!(five.to_f64().to_bits(), defined(bits, 2, 15).to_bits()),
        }
        if size <= 0x7c {
            assert_eq!(F8E5M2::from_f32(five.to_f32()).to_bits(), bits);
        }
    }
    assert_eq!((F8E4M3::MAX.to_f32(), F8E5M2::MAX.to_f32()), (448.0, 57344.0));
}

/// Between neighbours the nearer one is taken, of two that are as near the even one, and from f64 in one step.
#[test]
fn ties_and_their_neighbours() {
    fn around<T: Copy>(of: impl Fn(u8) -> (T, f64), from: impl Fn(f64) -> u8, largest: u8) {
        for low in 0..largest {
            let (a, b) = (of(low).1, of(low + 1).1);
            let (tie, hair) = (f64::midpoint(a, b), (b - a) * 2_f64.powi(-40));
            let even = if low & 1 == 0 { low } else { low + 1 };
            for sign in [1.0, -1.0] {
                let near = |value: f64| from(sign * value) & 0x7f;
                assert_eq!(
                    [tie - hair, tie, tie + hair].map(near),
                    [low, even, low + 1],
                    "{low}"
                );
                assert_eq!(from(sign * b) & 0x80 != 0, sign < 0.0);
            }
        }
    }
    let four = |bits| (F8E4M3::from_bits(bits), F8E4M3::from_bits(bits).to_f64());
    around(four, |value| F8E4M3::from_f64(value).to_bits(), 0x7e);
    let five = |bits| (F8E5M2::from_bits(bits), F8E5M2::from_bits(bits).to_f64());
    around(five, |value| F8E5M2::from_f64(value).to_bits(), 0x7b);
}

#[test]
fn what_is_too_large() {
    let four = |value: f64| F8E4M3::from_f64(value).to_bits();
    // 464 lies between 448 and what would be 480.
    assert_eq!(
        [464.0, 464.0000001, 1e30, f64::INFINITY, f64::NAN].map(four),
        [0x7e, 0x7f, 0x7f, 0x7f, 0x7f]
    );
    assert_eq!(four(-464.0), 0xfe);
    let five = |value: f64| F8E5M2::from_f64(value).to_bits();
    assert_eq!(
        [61439.99, 61440.0, 1e30, f64::INFINITY].map(five),
        [0x7b, 0x7c, 0x7c, 0x7c]
    );
    assert_eq!(five(f64::NEG_INFINITY), 0xfc);
    assert!(F8E5M2::from_f64(f64::NAN).is_nan() && F8E5M2::from_f32(-f32::NAN).is_nan());
}

#[test]
fn they_compare_as_numbers() {
    assert!(F8E4M3::from_f32(-0.0) == F8E4M3::from_f32(0.0) && F8E4M3::ONE < F8E4M3::MAX);
    assert!(F8E4M3::NAN != F8E4M3::NAN && F8E5M2::NAN.partial_cmp(&F8E5M2::ONE).is_none());
    assert_eq!(
        format!("{} {:?}", F8E4M3::from_f32(0.3), F8E5M2::ONE),
        "0.3125 1.0"
    );
}
