//! Numbers over the steps.

/// A number that was noted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) step: i64,
    /// Seconds since 1970.
    pub(crate) time: f64,
    pub(crate) value: f64,
}

/// Appends a point. A step that comes again begins a training anew, so it replaces what was noted from there on.
pub(crate) fn push(points: &mut Vec<Point>, point: Point) {
    while points.last().is_some_and(|last| last.step >= point.step) {
        points.pop();
    }
    points.push(point);
}

/// At most `most` of the points, from 9 on: the first and the last one, and of each stretch between them the smallest value, the largest
/// one, and the first that is none.
pub(crate) fn thinned(points: &[Point], most: usize) -> Vec<Point> {
    let most = most.max(9);
    let [first, inner @ .., last] = points else {
        return points.to_vec();
    };
    if points.len() <= most {
        return points.to_vec();
    }
    let kinds = match points.iter().all(|point| point.value.is_finite()) {
        true => 2,
        false => 3,
    };
    let stretches = (most - 2) / kinds;
    let mut kept = vec![*first];
    for at in 0..stretches {
        let (from, to) = (at * inner.len() / stretches, (at + 1) * inner.len() / stretches);
        kept.extend(extremes(&inner[from..to]));
    }
    kept.push(*last);
    kept
}

/// Those of a stretch that must not get lost, in their order.
fn extremes(stretch: &[Point]) -> impl Iterator<Item = Point> + '_ {
    let finite = || (0..stretch.len()).filter(|&at| stretch[at].value.is_finite());
    let order = |a: &usize, b: &usize| stretch[*a].value.total_cmp(&stretch[*b].value);
    let mut kept = [
        finite().min_by(order),
        finite().max_by(order),
        (0..stretch.len()).find(|&at| !stretch[at].value.is_finite()),
    ];
    kept.sort_unstable();
    let again = |at: usize| at > 0 && kept[at] == kept[at - 1];
    let kept: Vec<usize> = (0..kept.len())
        .filter(|&at| !again(at))
        .filter_map(|at| kept[at])
        .collect();
    kept.into_iter().map(|at| stretch[at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point(step: i64, value: f64) -> Point {
        Point {
            step,
            time: step as f64,
            value,
        }
    }

    #[test]
    fn a_step_that_comes_again_replaces_what_follows_it() {
        let mut points = Vec::new();
        for (step, value) in [(1, 1.0), (2, 2.0), (3, 3.0), (2, 5.0), (2, 6.0), (4, 7.0)] {
            push(&mut points, point(step, value));
        }
        assert_eq!(points, [point(1, 1.0), point(2, 6.0), point(4, 7.0)]);
    }

    proptest! {
        #[test]
        fn thinning_keeps_ends_and_extremes(
            values in prop::collection::vec(prop_oneof![9 => -1e6_f64..1e6, 1 => Just(f64::NAN)], 0..3000),
            most in 9_usize..400,
        ) {
            let points: Vec<Point> = (0..).zip(&values).map(|(step, value)| point(step, *value)).collect();
            let kept = thinned(&points, most);
            prop_assert!(kept.len() <= most.max(9));
            prop_assert!(kept.windows(2).all(|two| two[0].step < two[1].step));
            let ends = |points: &[Point]| (points.first().map(|p| p.step), points.last().map(|p| p.step));
            prop_assert_eq!(ends(&kept), ends(&points));
            let range = |points: &[Point]| {
                let finite = points.iter().map(|p| p.value).filter(|value| value.is_finite());
                (finite.clone().reduce(f64::min), finite.reduce(f64::max))
            };
            prop_assert_eq!(range(&kept), range(&points));
            let none = |points: &[Point]| points.iter().any(|p| p.value.is_nan());
            prop_assert_eq!(none(&kept), none(&points));
            if points.len() <= most {
                prop_assert_eq!(kept.len(), points.len());
            }
        }
    }
}
