//! Figures of numbers.

use super::{Metric, MetricError, missing, pairs};
use thalweg::{Result, Tensor};

/// Which error [`Deviation`] gathers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    One,
    Two,
}

/// Mean absolute or mean squared difference of outputs and targets.
#[derive(Clone, Debug)]
pub struct Deviation {
    power: Power,
    sum: f64,
    count: u64,
}

impl Deviation {
    /// Mean absolute error.
    pub fn mae() -> Deviation {
        Deviation {
            power: Power::One,
            sum: 0.0,
            count: 0,
        }
    }

    /// Mean squared error.
    pub fn mse() -> Deviation {
        Deviation {
            power: Power::Two,
            ..Deviation::mae()
        }
    }
}

impl Metric for Deviation {
    fn name(&self) -> &str {
        match self.power {
            Power::One => "mae",
            Power::Two => "mse",
        }
    }

    fn clear(&mut self) {
        (self.sum, self.count) = (0.0, 0);
    }

    fn update(&mut self, output: &Tensor, target: &Tensor, _: Option<f64>) -> Result<(), MetricError> {
        let (outputs, targets) = pairs(self.name(), output, target)?;
        for (a, b) in outputs.iter().zip(&targets) {
            let difference = (a - b).abs();
            self.sum += if self.power == Power::One {
                difference
            } else {
                difference * difference
            };
        }
        self.count += outputs.len() as u64;
        Ok(())
    }

    fn eval(&self) -> Result<f64, MetricError> {
        if self.count == 0 {
            return Err(missing(self.name()));
        }
        Ok(self.sum / self.count as f64)
    }
}

/// Area under the receiver operating characteristic of scores `[n]` for targets 0 and 1, ties counted half (Mann and Whitney 1947).
#[derive(Clone, Debug, Default)]
pub struct RocAuc {
    scored: Vec<(f64, bool)>,
}

impl Metric for RocAuc {
    fn name(&self) -> &str {
        "auc"
    }

    fn clear(&mut self) {
        self.scored.clear();
    }

    fn update(&mut self, output: &Tensor, target: &Tensor, _: Option<f64>) -> Result<(), MetricError> {
        let (outputs, targets) = pairs("auc", output, target)?;
        self.scored.extend(
            outputs
                .into_iter()
                .zip(targets.into_iter().map(|target| target != 0.0)),
        );
        Ok(())
    }

    fn eval(&self) -> Result<f64, MetricError> {
        let positives = self.scored.iter().filter(|(_, positive)| *positive).count() as f64;
        let negatives = self.scored.len() as f64 - positives;
        if positives == 0.0 || negatives == 0.0 {
            return Err(missing("auc"));
        }
        let mut sorted = self.scored.clone();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut ranks = 0.0;
        let mut from = 0;
        while from < sorted.len() {
            let mut to = from;
            while to < sorted.len() && sorted[to].0 == sorted[from].0 {
                to += 1;
            }
            let rank = (from + to + 1) as f64 / 2.0;
            ranks += rank * sorted[from..to].iter().filter(|(_, positive)| *positive).count() as f64;
            from = to.max(from + 1);
        }
        Ok((ranks - positives * (positives + 1.0) / 2.0) / (positives * negatives))
    }
}
