//! Many durations in little memory.

/// Buckets for each doubling, so that a quantile is within 0.4 %.
const STEPS: u64 = 128;
const BITS: u32 = STEPS.ilog2();

/// Durations: how many, their sum, smallest and largest exactly, quantiles within 0.4 %.
#[derive(Clone, Debug, Default)]
pub(crate) struct Distribution {
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
    buckets: Vec<u64>,
}

impl Distribution {
    pub(crate) fn add(&mut self, value: u64) {
        self.min = if self.count == 0 {
            value
        } else {
            self.min.min(value)
        };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        let at = bucket(value);
        if self.buckets.len() <= at {
            self.buckets.resize(at + 1, 0);
        }
        self.buckets[at] += 1;
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }

    pub(crate) fn min(&self) -> u64 {
        self.min
    }

    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    pub(crate) fn mean(&self) -> u64 {
        self.sum / self.count.max(1)
    }

    /// The smallest value that is at least as large as `percent` % of the values.
    pub(crate) fn percentile(&self, percent: u64) -> u64 {
        let rank = (u128::from(self.count) * u128::from(percent))
            .div_ceil(100)
            .max(1) as u64;
        let mut seen = 0;
        for (at, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle(at).clamp(self.min, self.max);
            }
        }
        self.max
    }
}

fn bucket(value: u64) -> usize {
    let shift = value.max(1).ilog2().saturating_sub(BITS);
    // Less than 2 * STEPS, and at least STEPS where it was shifted.
    (u64::from(shift) * STEPS + (value >> shift)) as usize
}

fn middle(at: usize) -> u64 {
    let at = at as u64;
    let shift = (at / STEPS).saturating_sub(1);
    let low = (at - shift * STEPS) << shift;
    low + ((1 << shift) - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::Distribution;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_sorted_values(values in prop::collection::vec(any::<u64>(), 1..200), shift in 0..64_u32, percent in 0..=100_u64) {
            let mut values: Vec<u64> = values.iter().map(|value| value >> shift).collect();
            let mut distribution = Distribution::default();
            values.iter().for_each(|value| distribution.add(*value));
            values.sort_unstable();
            let rank = (values.len() * percent as usize).div_ceil(100).max(1);
            let (found, exact) = (distribution.percentile(percent) as f64, values[rank - 1] as f64);
            prop_assert!((found - exact).abs() <= exact * 0.004, "{found} for {exact}");
            prop_assert_eq!(distribution.min(), values[0]);
            prop_assert_eq!(distribution.max(), values[values.len() - 1]);
            prop_assert_eq!(distribution.count(), values.len() as u64);
        }
    }

    #[test]
    fn one_value_is_exact() {
        let mut one = Distribution::default();
        one.add(123_456_789);
        let figures = [
            one.percentile(50),
            one.percentile(99),
            one.min(),
            one.max(),
            one.mean(),
        ];
        assert_eq!(figures, [123_456_789; 5]);
        assert_eq!(Distribution::default().percentile(50), 0);
    }
}
