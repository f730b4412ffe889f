//! How far the results of two devices are apart.

use thalweg_hal::dtype::{Class, DType};
use thalweg_hal::narrow::{float_bits, float_value};

/// How two rows of elements differ.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Difference {
    /// How many there are of each.
    pub elements: u64,
    /// How many have other bits.
    pub differ: u64,
    /// The largest distance of two elements, as a part of the largest finite magnitude of the first row. Infinite where a NaN, an
    /// infinity or an element that is no float differs.
    pub worst: f64,
}

/// How far devices may be apart that compute right, each from the same operands: a multiple of the distance from 1 to the next number
/// of the dtype, because sums are added in another order. That is 1000 for floats of 4 bytes and more, and 4 for shorter ones, whose sums
/// are longer floats. 0 for all that is no float.
pub fn tolerance(dtype: Option<DType>) -> f64 {
    match dtype {
        Some(dtype) if dtype.class() == Class::Float => {
            let next = float_value(dtype, float_bits(dtype, 1.0) + 1) - 1.0;
            next * if dtype.size() >= 4 { 1000.0 } else { 4.0 }
        }
        Some(_) | None => 0.0,
    }
}

/// Compares rows of elements of one dtype, or of bytes; `None` where their lengths differ.
pub fn difference(dtype: Option<DType>, first: &[u8], second: &[u8]) -> Option<Difference> {
    if first.len() != second.len() {
        return None;
    }
    let size = dtype.map_or(1, DType::size);
    let float = dtype.filter(|dtype| dtype.class() == Class::Float);
    let value = |element: &[u8]| {
        let mut bits = [0; 8];
        bits[..size].copy_from_slice(element);
        float.map(|dtype| float_value(dtype, u64::from_le_bytes(bits)))
    };
    let mut found = Difference {
        elements: (first.len() / size) as u64,
        ..Difference::default()
    };
    let mut distance = 0.0_f64;
    for (a, b) in first.chunks_exact(size).zip(second.chunks_exact(size)) {
        if a == b {
            continue;
        }
        let apart = match (value(a), value(b)) {
            (Some(a), Some(b)) if a.is_nan() && b.is_nan() => continue,
            (Some(a), Some(b)) if a.is_finite() && b.is_finite() => (a - b).abs(),
            _ => f64::INFINITY,
        };
        found.differ += 1;
        distance = distance.max(apart);
    }
    if distance > 0.0 {
        let magnitudes = first
            .chunks_exact(size)
            .filter_map(value)
            .filter(|value| value.is_finite());
        let largest = magnitudes.fold(0.0_f64, |largest, value| largest.max(value.abs()));
        // Beside zeros any distance is all there is.
        found.worst = if largest > 0.0 {
            distance / largest
        } else {
            f64::INFINITY
        };
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn distances_are_parts_of_the_largest_magnitude() {
        let compare = |a: &[f32], b: &[f32]| difference(Some(DType::F32), &bytes(a), &bytes(b)).unwrap();
        assert_eq!(compare(&[1.0, 2.0], &[1.0, 2.0]).differ, 0);
        let one = compare(&[1.0, -4.0], &[1.5, -4.0]);
        assert_eq!((one.elements, one.differ, one.worst), (2, 1, 0.125));
        // Every NaN is one, and zeros of both signs are no distance apart.
        assert_eq!(compare(&[f32::NAN], &[-f32::NAN]).differ, 0);
        assert_eq!(
            compare(&[0.0], &[-0.0]),
            Difference {
                elements: 1,
                differ: 1,
                worst: 0.0
            }
        );
        assert_eq!(compare(&[1.0], &[f32::NAN]).worst, f64::INFINITY);
        assert_eq!(compare(&[0.0], &[1e-30]).worst, f64::INFINITY);
    }

    #[test]
    fn tolerances_follow_the_precision() {
        let near = |dtype, expected: f64| (tolerance(Some(dtype)) / expected - 1.0).abs() < 0.01;
        assert!(near(DType::F32, 1.192e-4) && near(DType::F64, 2.22e-13));
        assert!(near(DType::F16, 3.906e-3) && near(DType::BF16, 3.125e-2));
        assert_eq!((tolerance(Some(DType::I64)), tolerance(None)), (0.0, 0.0));
    }

    #[test]
    fn what_is_no_float_differs_at_all_or_not() {
        let two = difference(Some(DType::I32), &[1, 0, 0, 0], &[2, 0, 0, 0]).unwrap();
        assert_eq!((two.differ, two.worst), (1, f64::INFINITY));
        assert_eq!(difference(None, &[1, 2], &[1, 2]).unwrap().differ, 0);
        assert_eq!(difference(None, &[1], &[1, 2]), None);
    }
}
