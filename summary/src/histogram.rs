//! How often values lie where.

use crate::wire::{Fields, Malformed, Message};

/// Buckets of the same width, most.
const BUCKETS: usize = 64;

/// Values counted in buckets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// How many.
    pub count: f64,
    /// Their sum.
    pub sum: f64,
    /// The sum of their squares.
    pub sum_squares: f64,
    /// The upper end of each bucket; the first begins at the smallest value.
    pub limits: Vec<f64>,
    /// Values of each bucket.
    pub buckets: Vec<f64>,
}

impl Histogram {
    /// Counts values, in 8 to 64 buckets of the same width from the smallest to the largest. A value at the border of two belongs to the
    /// upper one. NaN and infinite values are left out.
    ///
    /// ```
    /// use thalweg_summary::Histogram;
    /// let histogram = Histogram::of([3.0, 1.0, f64::NAN, 1.0]);
    /// assert_eq!((histogram.min, histogram.max, histogram.count, histogram.sum), (1.0, 3.0, 3.0, 5.0));
    /// assert_eq!(histogram.buckets, [2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    /// ```
    pub fn of(values: impl IntoIterator<Item = f64>) -> Histogram {
        let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        let (Some(min), Some(max)) = (
            values.iter().copied().reduce(f64::min),
            values.iter().copied().reduce(f64::max),
        ) else {
            return Histogram::default();
        };
        let count = match min == max {
            true => 1,
            false => BUCKETS.min(values.len().max(8)),
        };
        // Halves, because the difference of two finite numbers may be infinite.
        let width = max / count as f64 - min / count as f64;
        let mut buckets = vec![0.0; count];
        for value in &values {
            let at = (value / 2.0 - min / 2.0) / (width / 2.0);
            let at = if at.is_finite() { at as usize } else { 0 };
            buckets[at.min(count - 1)] += 1.0;
        }
        let limit = |at: usize| if at == count { max } else { min + width * at as f64 };
        Histogram {
            min,
            max,
            count: values.len() as f64,
            sum: values.iter().sum(),
            sum_squares: values.iter().map(|value| value * value).sum(),
            limits: (1..=count).map(limit).collect(),
            buckets,
        }
    }

    pub(crate) fn encode(&self) -> Message {
        Message::new()
            .double(1, self.min)
            .double(2, self.max)
            .double(3, self.count)
            .double(4, self.sum)
            .double(5, self.sum_squares)
            .doubles(6, &self.limits)
            .doubles(7, &self.buckets)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Histogram, Malformed> {
        let mut histogram = Histogram::default();
        for field in Fields::new(bytes) {
            match field? {
                (1, min) => histogram.min = min.double()?,
                (2, max) => histogram.max = max.double()?,
                (3, count) => histogram.count = count.double()?,
                (4, sum) => histogram.sum = sum.double()?,
                (5, sum) => histogram.sum_squares = sum.double()?,
                (6, limits) => limits.doubles(&mut histogram.limits)?,
                (7, buckets) => buckets.doubles(&mut histogram.buckets)?,
                _ => {}
            }
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges() {
        assert_eq!(Histogram::of([]), Histogram::default());
        assert_eq!(Histogram::of([f64::NAN, f64::INFINITY]), Histogram::default());
        let one = Histogram::of([2.5; 7]);
        assert_eq!((one.limits, one.buckets), (vec![2.5], vec![7.0]));
        let wide = Histogram::of([f64::MIN, f64::MAX, 0.0]);
        assert_eq!(wide.buckets.iter().sum::<f64>(), 3.0);
        assert_eq!((wide.buckets[0], wide.buckets[7]), (1.0, 1.0));
        let halves = Histogram::of((0..8).map(f64::from));
        assert_eq!(halves.buckets, [1.0; 8]);
        let denormal = Histogram::of([0.0, f64::from_bits(1)]);
        assert_eq!(denormal.buckets.iter().sum::<f64>(), 2.0);
    }

    proptest! {
        /// Against counting each bucket by itself.
        #[test]
        fn each_value_is_counted_where_it_lies(values in prop::collection::vec(-1e3_f64..1e3, 1..300)) {
            let histogram = Histogram::of(values.clone());
            prop_assert_eq!(histogram.buckets.iter().sum::<f64>(), values.len() as f64);
            prop_assert!(histogram.limits.is_sorted());
            prop_assert_eq!(histogram.limits.last(), Some(&histogram.max));
            let mut below = 0.0;
            for (limit, count) in histogram.limits.iter().zip(&histogram.buckets) {
                below += count;
                let slack = (histogram.max - histogram.min) * 1e-12;
                let (least, most) = (
                    values.iter().filter(|value| **value < limit - slack).count() as f64,
                    values.iter().filter(|value| **value <= limit + slack).count() as f64,
                );
                prop_assert!(least <= below && below <= most);
            }
        }
    }
}
