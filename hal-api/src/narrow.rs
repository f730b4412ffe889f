//! Correctly rounded conversions to floats of 16 and 8 bits.
//!
//! `half::f16::from_f64` rounds twice or drops low bits, depending on the machine. Rounding to odd first keeps what a
//! second, nearest-even rounding needs.

use crate::dtype::DType;
use crate::element::Element;
use half::{bf16, f16};

/// `value` rounded to odd: exact, or of the two f32 neighbours the one with an odd last bit.
pub fn odd_from_f64(value: f64) -> f32 {
    let near = value as f32;
    let back = f64::from(near);
    if back == value || value.is_nan() || near.to_bits() & 1 == 1 {
        return near;
    }
    // An even neighbour was chosen; the odd one is the next on the other side of `value`.
    let bits = near.to_bits();
    f32::from_bits(if back.abs() > value.abs() {
        bits - 1
    } else {
        bits + 1
    })
}

/// `value` as an f64 whose last bit is sticky, so that it rounds to any narrower format as `value` does.
fn odd_from_u64(value: u64) -> f64 {
    if value >> 53 == 0 {
        return value as f64;
    }
    ((value >> 11) | u64::from(value & 0x7ff != 0)) as f64 * 2048.0
}

fn odd_from_i64(value: i64) -> f64 {
    odd_from_u64(value.unsigned_abs()).copysign(if value < 0 { -1.0 } else { 1.0 })
}

macro_rules! conversions {
    ($($from:ident, $name:ident -> $to:ident = $odd:expr;)*) => {
        $(#[doc = concat!("`value` rounded once, to nearest even, to ", stringify!($to), ".")]
        pub fn $name(value: $from) -> $to {
            let odd: fn($from) -> f32 = $odd;
            $to::from_f32(odd(value))
        })*
    };
}

conversions! {
    f64, f16_from_f64 -> f16 = odd_from_f64;
    f64, bf16_from_f64 -> bf16 = odd_from_f64;
    i64, f16_from_i64 -> f16 = |v| odd_from_f64(odd_from_i64(v));
    i64, bf16_from_i64 -> bf16 = |v| odd_from_f64(odd_from_i64(v));
    u64, f16_from_u64 -> f16 = |v| odd_from_f64(odd_from_u64(v));
    u64, bf16_from_u64 -> bf16 = |v| odd_from_f64(odd_from_u64(v));
}

/// The bits of `value`, rounded once, as a float dtype; f64's for all others.
pub fn float_bits(dtype: DType, value: f64) -> u64 {
    if dtype.is_float() {
        for_dtype!(dtype, T => <T as Element>::from_f64(value).bits())
    } else {
        value.to_bits()
    }
}

/// The exact value of a float's bits; those of a dtype that is no float are read as f64's.
pub fn float_value(dtype: DType, bits: u64) -> f64 {
    if dtype.is_float() {
        for_dtype!(dtype, T => <T as Element>::from_bits(bits).to_f64())
    } else {
        f64::from_bits(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The nearest of all finite values of a 16-bit float, ties to even, found by search over exact f64 values.
    fn nearest(value: i128, scale: i32, decode: fn(u16) -> f64, infinity: u16) -> u16 {
        // Values are integers times 2^-scale, held exactly.
        let fixed = |x: f64| (x * 2f64.powi(scale)) as i128;
        let mut best = 0u16;
        let mut distance = i128::MAX;
        for bits in 0..infinity {
            let d = (fixed(decode(bits)) - value.abs()).abs();
            if d < distance || (d == distance && bits & 1 == 0) {
                best = bits;
                distance = d;
            }
        }
        best
    }

    #[test]
    fn a_hair_above_a_tie_rounds_up() {
        let tie = 1.0 + 2f64.powi(-11);
        assert_eq!(f16_from_f64(tie).to_bits(), 0x3c00);
        assert_eq!(f16_from_f64(tie + 2f64.powi(-50)).to_bits(), 0x3c01);
        assert_eq!(f16_from_f64(-tie - 2f64.powi(-50)).to_bits(), 0xbc01);
        let tie = 1.0 + 2f64.powi(-8);
        assert_eq!(bf16_from_f64(tie).to_bits(), 0x3f80);
        assert_eq!(bf16_from_f64(tie + 2f64.powi(-50)).to_bits(), 0x3f81);
        let tie = (1i64 << 62) + (1 << 54);
        assert_eq!(bf16_from_i64(tie).to_bits(), 0x5e80);
        assert_eq!(bf16_from_i64(tie + 1).to_bits(), 0x5e81);
        assert_eq!(bf16_from_i64(-tie - 1).to_bits(), 0xde81);
        assert_eq!(bf16_from_u64(u64::MAX).to_f64(), 2f64.powi(64));
    }

    #[test]
    fn edges() {
        assert_eq!(f16_from_f64(-0.0).to_bits(), 0x8000);
        assert_eq!(f16_from_f64(65519.999).to_bits(), 0x7bff);
        assert_eq!(f16_from_f64(65520.0), f16::INFINITY);
        assert_eq!(f16_from_i64(i64::MIN), f16::NEG_INFINITY);
        assert_eq!(f16_from_f64(f64::MIN_POSITIVE).to_bits(), 0);
        assert_eq!(f16_from_f64(2f64.powi(-25)).to_bits(), 0);
        assert_eq!(f16_from_f64(2f64.powi(-25) * (1.0 + f64::EPSILON)).to_bits(), 1);
        assert!(f16_from_f64(f64::NAN).is_nan() && bf16_from_f64(f64::NAN).is_nan());
        assert_eq!(bf16_from_f64(f64::MAX), bf16::INFINITY);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn f16_is_the_nearest(fixed in 0i128..(1 << 52), shift in 0u32..37) {
            let fixed = fixed >> shift;
            let value = fixed as f64 / 2f64.powi(37);
            let expected = nearest(fixed, 37, |b| f16::from_bits(b).to_f64(), 0x7c00);
            prop_assert_eq!(f16_from_f64(value).to_bits(), expected);
        }

        #[test]
        fn bf16_from_u64_is_the_nearest(value: u64) {
            let expected = nearest(i128::from(value), 0, |b| bf16::from_bits(b).to_f64(), 0x6000);
            prop_assert_eq!(bf16_from_u64(value).to_bits(), expected);
        }
    }
}
