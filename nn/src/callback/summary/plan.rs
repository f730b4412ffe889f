//! Which steps are collected.

use crate::summary::record::Due;

/// Steps with tensors, at most, unless a frequency is given.
const TENSORS: u64 = 20;

/// Which steps have tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TensorPlan {
    /// Step 1 and multiples.
    Every(u64),
    /// The first steps.
    First(u64),
    /// Step 1 and the first multiples, 0 included in their count.
    Spread(u64),
}

impl TensorPlan {
    /// The plan of a training of `total` steps, whose other values are collected at multiples of `frequency`.
    pub(super) fn new(tensors: Option<u64>, frequency: u64, total: u64) -> TensorPlan {
        let multiples = total / frequency + 1;
        match (tensors, total / (TENSORS - 1)) {
            (Some(tensors), _) => TensorPlan::Every(tensors),
            (None, _) if multiples <= TENSORS => TensorPlan::Every(frequency),
            (None, distance) if distance > 1 => TensorPlan::Spread(distance),
            (None, _) => TensorPlan::First(TENSORS),
        }
    }

    fn has(self, step: u64) -> bool {
        match self {
            TensorPlan::Every(frequency) => is_multiple(step, frequency),
            TensorPlan::First(count) => step <= count,
            TensorPlan::Spread(distance) => {
                step == 1 || (step.is_multiple_of(distance) && step / distance < TENSORS)
            }
        }
    }
}

fn is_multiple(step: u64, frequency: u64) -> bool {
    step == 1 || step.is_multiple_of(frequency)
}

/// Which steps are collected; none twice.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    frequency: u64,
    tensors: TensorPlan,
    /// The last step that was collected.
    last: u64,
    due: Due,
}

impl Plan {
    pub(super) fn new(frequency: u64, tensors: TensorPlan) -> Plan {
        Plan {
            frequency,
            tensors,
            last: 0,
            due: Due::default(),
        }
    }

    /// What the step collects that begins.
    pub(super) fn begin(&mut self, step: u64) -> Due {
        // A model that went back comes to its steps again.
        let fresh = step > self.last;
        self.due = Due {
            values: fresh && is_multiple(step, self.frequency),
            tensors: fresh && self.tensors.has(step),
        };
        self.last = self.last.max(step);
        self.due
    }

    /// What the step collects that runs.
    pub(super) fn due(&self) -> Due {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps with tensors, and steps with other values.
    fn steps(frequency: u64, tensors: Option<u64>, total: u64) -> (Vec<u64>, Vec<u64>) {
        let mut plan = Plan::new(frequency, TensorPlan::new(tensors, frequency, total));
        let (mut with_tensors, mut with_values) = (Vec::new(), Vec::new());
        for step in 1..=total {
            let due = plan.begin(step);
            with_tensors.extend(due.tensors.then_some(step));
            with_values.extend(due.values.then_some(step));
        }
        (with_tensors, with_values)
    }

    #[test]
    fn counts_of_records() {
        let counts = |frequency, total| {
            let (tensors, values) = steps(frequency, None, total);
            (tensors.len(), values.len())
        };
        assert_eq!(counts(10, 600), (20, 61));
        assert_eq!(counts(10, 20), (3, 3));
        assert_eq!(counts(10, 1), (1, 1));
        assert_eq!(counts(1, 19), (19, 19));
    }

    #[test]
    fn steps_with_tensors() {
        // 600 / 19 = 31.
        let spread: Vec<u64> = std::iter::once(1).chain((1..20).map(|at| at * 31)).collect();
        assert_eq!(steps(10, None, 600).0, spread);
        // 20 multiples of 10 lie in 0..=199, 21 in 0..=200.
        assert_eq!(steps(10, None, 199).0, steps(10, None, 199).1);
        assert_eq!(steps(10, None, 200).0[..3], [1, 10, 20]);
        assert_eq!(steps(10, None, 200).0.last(), Some(&190));
        // 30 / 19 = 1.
        assert_eq!(steps(1, None, 30).0, (1..=20).collect::<Vec<_>>());
        assert_eq!(steps(1, None, 38).0[..3], [1, 2, 4]);
        assert_eq!(steps(10, Some(7), 30).0, [1, 7, 14, 21, 28]);
    }

    #[test]
    fn a_step_is_collected_once() {
        let mut plan = Plan::new(10, TensorPlan::Every(10));
        assert!(plan.begin(10).values);
        assert!(!plan.begin(9).values && !plan.begin(10).values && plan.begin(20).values);
    }
}
