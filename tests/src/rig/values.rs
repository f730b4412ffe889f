//! Bits of elements: edges, random ones, and how far apart two of them are.

use thalweg_hal::DType;
use thalweg_hal::dtype::Class;
use thalweg_hal::interpreter::scalar::whole;
use thalweg_hal::narrow::{float_bits, float_value};

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
    float_value(dtype, bits)
}

/// The value of an integer's or bool's bits.
pub fn integer(dtype: DType, bits: u64) -> i128 {
    whole(dtype, bits)
}

/// The bits of a float dtype nearest to `value`, ties to even.
pub fn from_float(dtype: DType, value: f64) -> u64 {
    float_bits(dtype, value)
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
            // f8e4m3 has NaN behind its largest number.
            let infinity = from_float(dtype, f64::INFINITY);
            let mut edges: Vec<u64> = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 10.0, 0.1, std::f64::consts::PI]
                .iter()
                .map(|&value| from_float(dtype, value))
                .collect();
            // The least denormal, the greatest, the least normal number, the greatest, infinity.
            let normal = 1 << dtype.facts().mantissa;
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
