//! Bits of elements: edges, random ones, and how far apart two of them are.

use half::{bf16, f16};
use thalweg_hal::DType;
use thalweg_hal::dtype::Class;

/// Random numbers that depend on the seed alone (SplitMix64, Steele et al., OOPSLA 2014).
pub struct Random(u64);

impl Random {
    /// Starts at `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// In `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// One of a list that is not empty.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// All ones in the width of `dtype`.
pub fn mask(dtype: DType) -> u64 {
    u64::MAX >> (64 - 8 * dtype.size())
}

/// The exact value of a float's bits.
pub fn float(dtype: DType, bits: u64) -> f64 {
    match dtype {
        DType::F64 => f64::from_bits(bits),
        DType::F32 => f32::from_bits(bits as u32).into(),
        DType::F16 => f16::from_bits(bits as u16).into(),
        DType::F8E4M3 => eighth(bits, 3, 7),
        DType::F8E5M2 => eighth(bits, 2, 15),
        _ => bf16::from_bits(bits as u16).into(),
    }
}

/// The value of a float of eight bits; with three bits of mantissa it has no infinity and one NaN.
fn eighth(bits: u64, mantissa: u32, bias: i32) -> f64 {
    let (size, most) = (bits & 0x7f, (1 << mantissa) - 1);
    let (exponent, low) = ((size >> mantissa) as i32, size & most);
    let unit = 2f64.powi(exponent.max(1) - bias - mantissa as i32);
    let value = match (mantissa, size) {
        (3, 0x7f) | (2, 0x7d..) => f64::NAN,
        (2, 0x7c) => f64::INFINITY,
        _ => (low + if exponent > 0 { most + 1 } else { 0 }) as f64 * unit,
    };
    if bits & 0x80 == 0 { value } else { -value }
}

/// The value of an integer's or bool's bits.
pub fn integer(dtype: DType, bits: u64) -> i128 {
    let unused = 64 - 8 * dtype.size() as u32;
    match dtype.class() {
        Class::Signed => (((bits << unused) as i64) >> unused).into(),
        _ => bits.into(),
    }
}

/// The bits of a float dtype nearest to an exact `mantissa * 2^exponent`, ties to even. Written out in integers, so that
/// it shares nothing with what it checks.
pub fn round(dtype: DType, negative: bool, mantissa: u128, exponent: i32) -> u64 {
    let (precision, lowest) = match dtype {
        DType::F64 => (53, -1074),
        DType::F32 => (24, -149),
        DType::F16 => (11, -24),
        DType::F8E4M3 => (4, -9),
        DType::F8E5M2 => (3, -16),
        _ => (8, -133),
    };
    let (mut mantissa, mut exponent) = (mantissa, exponent);
    let length = 128 - mantissa.leading_zeros() as i32;
    let unit = (exponent + length - precision).max(lowest);
    if unit > exponent {
        let cut = (unit - exponent).min(127) as u32;
        let (rest, half) = (mantissa & ((1 << cut) - 1), 1 << (cut - 1));
        mantissa >>= cut;
        if rest > half || (rest == half && mantissa & 1 == 1) {
            mantissa += 1;
        }
    } else {
        mantissa <<= (exponent - unit) as u32;
    }
    exponent = unit;
    // What is left is below 2^(precision + 1); with the exponent field added it carries by itself.
    let field = u128::from((exponent - lowest) as u32);
    let hidden = 1_u128 << (precision - 1);
    let bits = if mantissa >= hidden {
        mantissa - hidden + ((field + 1) << (precision - 1))
    } else {
        mantissa
    };
    let infinity = infinity(dtype);
    let sign = u64::from(negative) << (8 * dtype.size() - 1);
    bits.min(infinity.into()) as u64 | sign
}

/// Infinity, or what is in its place: f8e4m3 has NaN behind its largest number.
fn infinity(dtype: DType) -> u64 {
    match dtype {
        DType::F64 => f64::INFINITY.to_bits(),
        DType::F32 => f32::INFINITY.to_bits().into(),
        DType::F16 => f16::INFINITY.to_bits().into(),
        DType::F8E4M3 => 0x7f,
        DType::F8E5M2 => 0x7c,
        _ => bf16::INFINITY.to_bits().into(),
    }
}

/// The bits of a float dtype nearest to `value`.
pub fn from_float(dtype: DType, value: f64) -> u64 {
    let sign = u64::from(value.is_sign_negative()) << (8 * dtype.size() - 1);
    if value.is_nan() {
        return infinity(dtype) | (infinity(dtype) >> 1);
    }
    if value.is_infinite() {
        return infinity(dtype) | sign;
    }
    let bits = value.to_bits();
    let (field, low) = ((bits >> 52) as i32 & 0x7ff, bits & ((1 << 52) - 1));
    let (mantissa, exponent) = if field == 0 {
        (low, -1074)
    } else {
        (low | 1 << 52, field - 1075)
    };
    round(dtype, value.is_sign_negative(), mantissa.into(), exponent)
}

/// The bits of any dtype of a small number; integers wrap.
pub fn from_number(dtype: DType, value: f64) -> u64 {
    match dtype.class() {
        Class::Float => from_float(dtype, value),
        Class::Bool => u64::from(value != 0.0),
        Class::Signed | Class::Unsigned => value as i64 as u64 & mask(dtype),
    }
}

/// Whether the bits are a NaN.
pub fn is_nan(dtype: DType, bits: u64) -> bool {
    dtype.is_float() && float(dtype, bits).is_nan()
}

/// Values at the edges of a dtype.
pub fn edges(dtype: DType) -> Vec<u64> {
    let top = 1_u64 << (8 * dtype.size() - 1);
    match dtype.class() {
        Class::Bool => vec![0, 1],
        Class::Unsigned => {
            let width = 8 * dtype.size() as u64;
            vec![
                0,
                1,
                2,
                3,
                5,
                7,
                width - 1,
                width,
                width + 1,
                100,
                top - 1,
                top,
                top + 1,
                mask(dtype) - 1,
                mask(dtype),
            ]
        }
        Class::Signed => {
            let width = 8 * dtype.size() as u64;
            let minus = |n: u64| n.wrapping_neg() & mask(dtype);
            vec![
                0,
                1,
                2,
                3,
                7,
                width - 1,
                width,
                width + 1,
                100,
                top - 1,
                top - 2,
                top,
                top + 1,
                minus(1),
                minus(2),
                minus(3),
                minus(width),
                minus(100),
            ]
        }
        Class::Float => {
            let infinity = infinity(dtype);
            let mut edges: Vec<u64> = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 10.0, 0.1, std::f64::consts::PI]
                .iter()
                .map(|&value| from_float(dtype, value))
                .collect();
            // The least denormal, the greatest, the least normal number, the greatest, infinity.
            let normal = match dtype {
                DType::F64 => f64::MIN_POSITIVE.to_bits(),
                DType::F32 => f32::MIN_POSITIVE.to_bits().into(),
                DType::F16 => 0x0400,
                DType::F8E4M3 => 0x08,
                DType::F8E5M2 => 0x04,
                _ => 0x0080,
            };
            edges.extend([1, normal - 1, normal, infinity - 1, infinity]);
            let negative: Vec<u64> = edges.iter().map(|bits| bits | top).collect();
            edges.extend(negative);
            edges.push(from_float(dtype, f64::NAN));
            edges
        }
    }
}

/// A random value: an edge, arbitrary bits, or a number of moderate size.
pub fn random(dtype: DType, random: &mut Random) -> u64 {
    match (dtype.class(), random.below(8)) {
        (Class::Bool, _) => random.below(2),
        (_, 0) => {
            let edges = edges(dtype);
            random.pick(&edges)
        }
        (_, 1) => random.bits() & mask(dtype),
        (Class::Float, _) => from_float(dtype, (random.unit() - 0.5) * 16.0),
        (Class::Signed | Class::Unsigned, _) => (random.below(41) as i64 - 20) as u64 & mask(dtype),
    }
}

/// Values as the bytes of memory.
pub fn to_bytes(dtype: DType, values: &[u64]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|bits| bits.to_le_bytes().into_iter().take(dtype.size()))
        .collect()
}

/// The values in memory; a last piece that is no whole element is left out.
pub fn from_bytes(dtype: DType, bytes: &[u8]) -> Vec<u64> {
    let element = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |bits, &byte| bits << 8 | u64::from(byte))
    };
    bytes.chunks_exact(dtype.size()).map(element).collect()
}

/// Units in the last place between two numbers; infinity counts as the next number after the greatest one.
pub fn distance(dtype: DType, a: u64, b: u64) -> u64 {
    let top = 1_u64 << (8 * dtype.size() - 1);
    let line = |bits: u64| {
        let size = i128::from(bits & (top - 1));
        if bits & top != 0 { -size } else { size }
    };
    (line(a) - line(b)).unsigned_abs() as u64
}

/// Whether a result is right: the same bits, both NaN, or for a float within `ulps`.
pub fn is_close(dtype: DType, found: u64, expected: u64, ulps: u64) -> bool {
    if found == expected {
        return true;
    }
    match (is_nan(dtype, found), is_nan(dtype, expected)) {
        (true, true) => true,
        (false, false) => dtype.is_float() && ulps > 0 && distance(dtype, found, expected) <= ulps,
        _ => false,
    }
}

/// A value for a message.
pub fn show(dtype: DType, bits: u64) -> String {
    match dtype.class() {
        Class::Float => format!("{:?} ({bits:#x})", float(dtype, bits)),
        _ => format!("{} ({bits:#x})", integer(dtype, bits)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_agrees_with_the_language() {
        let mut random = Random::new(1);
        for step in 0..200_000 {
            let value = match step % 3 {
                0 => f64::from_bits(random.bits()),
                1 => f64::from(f32::from_bits(random.bits() as u32)) * (1.0 + (random.unit() - 0.5) * 1e-7),
                _ => (random.unit() - 0.5) * 2f64.powi(random.below(300) as i32 - 150),
            };
            if value.is_nan() {
                continue;
            }
            assert_eq!(from_float(DType::F64, value), value.to_bits());
            assert_eq!(
                from_float(DType::F32, value),
                u64::from((value as f32).to_bits()),
                "{value:e}"
            );
            let single = value as f32;
            let near = |dtype| from_float(dtype, single.into());
            assert_eq!(
                near(DType::F16),
                u64::from(f16::from_f32(single).to_bits()),
                "{single:e}"
            );
            assert_eq!(
                near(DType::BF16),
                u64::from(bf16::from_f32(single).to_bits()),
                "{single:e}"
            );
        }
        assert!(is_nan(DType::BF16, from_float(DType::BF16, f64::NAN)));
    }

    #[test]
    fn distances() {
        let bits = |value: f32| u64::from(value.to_bits());
        assert_eq!(distance(DType::F32, bits(1.0), bits(1.0 + 3.0 * f32::EPSILON)), 3);
        assert_eq!(distance(DType::F32, bits(-0.0), bits(f32::from_bits(2))), 2);
        assert_eq!(distance(DType::F32, bits(f32::MAX), bits(f32::INFINITY)), 1);
        assert!(
            is_close(DType::F32, bits(-0.0), bits(0.0), 1) && !is_close(DType::F32, bits(-0.0), bits(0.0), 0)
        );
        assert!(!is_close(DType::I32, 1, 2, 5) && is_close(DType::F32, bits(f32::NAN), bits(-f32::NAN), 0));
        assert!(!is_close(DType::F32, bits(f32::NAN), bits(f32::INFINITY), 100));
    }

    #[test]
    fn bytes_and_back() {
        let values = [1, 0xfffe, 0x8000];
        assert_eq!(from_bytes(DType::I16, &to_bytes(DType::I16, &values)), values);
        assert_eq!(to_bytes(DType::F64, &[1]).len(), 8);
        assert_eq!(integer(DType::I16, 0xfffe), -2);
    }
}
