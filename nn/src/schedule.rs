//! Learning rates that change with the step.

use std::f64::consts::PI;

/// A learning rate for each step, counted from 0.
pub trait Schedule: Send + Sync {
    /// The rate of `step`, given that of the optimizer.
    fn rate(&self, step: u64, base: f64) -> f64;
}

impl<F: Fn(u64, f64) -> f64 + Send + Sync> Schedule for F {
    fn rate(&self, step: u64, base: f64) -> f64 {
        self(step, base)
    }
}

/// Always the same.
#[derive(Clone, Copy, Debug)]
pub struct Constant;

impl Schedule for Constant {
    fn rate(&self, _: u64, base: f64) -> f64 {
        base
    }
}

/// Times `factor` every `every` steps.
#[derive(Clone, Copy, Debug)]
pub struct StepDecay {
    /// Steps of one rate.
    pub every: u64,
    /// From one rate to the next.
    pub factor: f64,
}

impl Schedule for StepDecay {
    fn rate(&self, step: u64, base: f64) -> f64 {
        base * self.factor.powf((step / self.every.max(1)) as f64)
    }
}

/// Times `factor` every step.
#[derive(Clone, Copy, Debug)]
pub struct Exponential {
    /// From one step to the next.
    pub factor: f64,
}

impl Schedule for Exponential {
    fn rate(&self, step: u64, base: f64) -> f64 {
        base * self.factor.powf(step as f64)
    }
}

/// Half a cosine from the optimizer's rate to `end` over `steps` (Loshchilov and Hutter, ICLR 2017).
#[derive(Clone, Copy, Debug)]
pub struct Cosine {
    /// Length in steps.
    pub steps: u64,
    /// Rate at the end and after it.
    pub end: f64,
}

impl Schedule for Cosine {
    fn rate(&self, step: u64, base: f64) -> f64 {
        let done = (step as f64 / self.steps.max(1) as f64).min(1.0);
        self.end + (base - self.end) * 0.5 * (1.0 + (PI * done).cos())
    }
}

/// Half a cosine from the optimizer's rate to `end` again and again (Loshchilov and Hutter, ICLR 2017).
#[derive(Clone, Copy, Debug)]
pub struct CosineRestarts {
    /// Steps of the first.
    pub steps: u64,
    /// How many times as long each is as the one before.
    pub factor: u64,
    /// Rate at the end of each.
    pub end: f64,
}

impl Schedule for CosineRestarts {
    fn rate(&self, step: u64, base: f64) -> f64 {
        let (mut left, mut steps) = (step, self.steps.max(1));
        if self.factor <= 1 {
            left %= steps;
        }
        while left >= steps {
            left -= steps;
            steps = steps.saturating_mul(self.factor);
        }
        Cosine { steps, end: self.end }.rate(left, base)
    }
}

/// Half a cosine up to the optimizer's rate, and one down (Smith and Topin 2019, in PyTorch's form).
#[derive(Clone, Copy, Debug)]
pub struct OneCycle {
    /// Length in steps.
    pub steps: u64,
    /// Share of the steps that go up.
    pub up: f64,
    /// The first rate is the optimizer's, divided by this.
    pub start_divisor: f64,
    /// The last rate is the first, divided by this.
    pub end_divisor: f64,
}

impl Schedule for OneCycle {
    fn rate(&self, step: u64, base: f64) -> f64 {
        let last = self.steps.saturating_sub(1) as f64;
        let (step, top) = ((step as f64).min(last), self.up * self.steps as f64 - 1.0);
        let start = base / self.start_divisor;
        let between = |from: f64, to: f64, done: f64| to + (from - to) * 0.5 * (1.0 + (PI * done).cos());
        if step <= top {
            between(start, base, step / top.max(1.0))
        } else {
            between(base, start / self.end_divisor, (step - top) / (last - top))
        }
    }
}

/// Straight from the optimizer's rate to `end` over `steps`, to a power.
#[derive(Clone, Copy, Debug)]
pub struct Polynomial {
    /// Length in steps.
    pub steps: u64,
    /// Rate at the end and after it.
    pub end: f64,
    /// 1 is a straight line.
    pub power: f64,
}

impl Schedule for Polynomial {
    fn rate(&self, step: u64, base: f64) -> f64 {
        let left = 1.0 - (step as f64 / self.steps.max(1) as f64).min(1.0);
        self.end + (base - self.end) * left.powf(self.power)
    }
}

/// Straight from 0 to the rate of `then` over the first `steps`.
#[derive(Clone, Copy, Debug)]
pub struct Warmup<S> {
    /// Length in steps.
    pub steps: u64,
    /// The schedule that follows, counted from its own step 0.
    pub then: S,
}

impl<S: Schedule> Schedule for Warmup<S> {
    fn rate(&self, step: u64, base: f64) -> f64 {
        match step.checked_sub(self.steps) {
            Some(step) => self.then.rate(step, base),
            None => self.then.rate(0, base) * (step + 1) as f64 / self.steps as f64,
        }
    }
}

/// One rate up to each boundary.
#[derive(Clone, Debug)]
pub struct Piecewise {
    /// First step of each further piece, ascending, and the factor on the optimizer's rate from there on.
    pub pieces: Vec<(u64, f64)>,
}

impl Schedule for Piecewise {
    fn rate(&self, step: u64, base: f64) -> f64 {
        let factor = self.pieces.iter().take_while(|(from, _)| *from <= step).last();
        base * factor.map_or(1.0, |(_, factor)| *factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After as many steps as there are numbers, without walking through them.
    #[test]
    fn restarts_may_be_as_many_as_there_are_steps() {
        for (factor, step, place, steps) in [
            (1, u64::MAX, 3, 4),
            (0, u64::MAX, 3, 4),
            (1, 9, 1, 4),
            (2, 13, 1, 16),
        ] {
            let restarts = CosineRestarts {
                steps: 4,
                factor,
                end: 0.1,
            };
            let once = Cosine { steps, end: 0.1 };
            assert_eq!(
                restarts.rate(step, 1.0),
                once.rate(place, 1.0),
                "{factor}, {step}"
            );
        }
        let growing = CosineRestarts {
            steps: 3,
            factor: 7,
            end: 0.1,
        };
        assert!(growing.rate(u64::MAX, 1.0).is_finite());
    }

    #[test]
    fn rates_follow_their_formulas() {
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        close(Constant.rate(9, 0.1), 0.1);
        close(
            StepDecay {
                every: 3,
                factor: 0.5,
            }
            .rate(7, 0.8),
            0.2,
        );
        close(Exponential { factor: 0.9 }.rate(2, 1.0), 0.81);
        let cosine = Cosine { steps: 10, end: 0.1 };
        close(cosine.rate(0, 1.0), 1.0);
        close(cosine.rate(5, 1.0), 0.55);
        close(cosine.rate(99, 1.0), 0.1);
        close(
            Polynomial {
                steps: 4,
                end: 0.0,
                power: 2.0,
            }
            .rate(2, 1.0),
            0.25,
        );
        let warm = Warmup {
            steps: 4,
            then: cosine,
        };
        close(warm.rate(0, 1.0), 0.25);
        close(warm.rate(3, 1.0), 1.0);
        close(warm.rate(9, 1.0), 0.55);
        close(
            Piecewise {
                pieces: vec![(2, 0.1), (5, 0.01)],
            }
            .rate(4, 1.0),
            0.1,
        );
        close((|step: u64, base: f64| base * step as f64).rate(3, 2.0), 6.0);
    }
}
