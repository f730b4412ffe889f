//! Splitting a time by weights, to the last nanosecond.

/// `time` in parts in proportion to `weights`, evenly where all of them are 0. The parts sum to `time`.
pub(crate) fn split(time: u64, weights: impl Iterator<Item = u32> + Clone) -> impl Iterator<Item = u64> {
    let total: u128 = weights.clone().map(u128::from).sum();
    let even = total == 0;
    let total = if even {
        weights.clone().count().max(1) as u128
    } else {
        total
    };
    let (mut weight, mut given) = (0_u128, 0_u64);
    weights.map(move |one| {
        weight += if even { 1 } else { u128::from(one) };
        // At most `time`, because `weight` is at most `total`.
        let until = (u128::from(time) * weight / total) as u64;
        let part = until - given;
        given = until;
        part
    })
}

#[cfg(test)]
mod tests {
    use super::split;
    use proptest::prelude::*;

    #[test]
    fn parts_follow_weights() {
        let parts = |time, weights: &[u32]| split(time, weights.iter().copied()).collect::<Vec<_>>();
        assert_eq!(parts(100, &[1, 3]), [25, 75]);
        assert_eq!(parts(10, &[0, 0, 0]), [3, 3, 4]);
        assert_eq!(parts(7, &[5]), [7]);
        assert_eq!(parts(7, &[0, 2]), [0, 7]);
        assert!(parts(7, &[]).is_empty());
    }

    proptest! {
        #[test]
        fn parts_sum_to_the_time(time: u64, weights in prop::collection::vec(any::<u32>(), 1..9)) {
            prop_assert_eq!(split(time, weights.iter().copied()).map(u128::from).sum::<u128>(), u128::from(time));
            let total: u128 = weights.iter().copied().map(u128::from).sum();
            for (part, weight) in split(time, weights.iter().copied()).zip(&weights) {
                let exact = time as f64 * *weight as f64 / total.max(1) as f64;
                prop_assert!(total == 0 || (part as f64 - exact).abs() <= 1.0 + exact * 1e-9);
            }
        }
    }
}
