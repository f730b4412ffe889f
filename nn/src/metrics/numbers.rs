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

/// The receiver operating characteristic of scores for targets 0 and 1 of the same shape, and as a figure the area under it, ties
/// counted half (Mann and Whitney 1947). The area is NaN where a score is.
#[derive(Clone, Debug, Default)]
pub struct RocAuc {
    scored: Vec<(f64, bool)>,
}

/// A point of the receiver operating characteristic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RocPoint {
    /// What scores this and more is taken for a 1.
    pub threshold: f64,
    /// Share of the 0 that are taken for a 1.
    pub false_positives: f64,
    /// Share of the 1 that are taken for a 1.
    pub true_positives: f64,
}

impl RocAuc {
    /// The points of the characteristic, one for each score that occurs, from the greatest on, behind the point (0, 0).
    ///
    /// # Errors
    /// [`NoValue`](super::NoValue) before the first batch; targets of one kind only; scores that are NaN.
    pub fn curve(&self) -> Result<Vec<RocPoint>, MetricError> {
        if self.scored.is_empty() {
            return Err(missing("auc"));
        }
        let unordered = self.unordered();
        if unordered > 0 {
            return Err(MetricError::Undefined {
                name: "auc".into(),
                message: format!("{unordered} scores are NaN; they have no place among the others"),
            });
        }
        let positives = self.scored.iter().filter(|(_, positive)| *positive).count();
        let negatives = self.scored.len() - positives;
        if positives == 0 || negatives == 0 {
            return Err(MetricError::Undefined {
                name: "auc".into(),
                message: format!("{positives} targets are 1 and {negatives} are 0; it takes both"),
            });
        }
        let mut sorted = self.scored.clone();
        sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut points = vec![RocPoint {
            threshold: f64::INFINITY,
            false_positives: 0.0,
            true_positives: 0.0,
        }];
        let (mut right, mut wrong) = (0, 0);
        for tie in sorted.chunk_by(|a, b| a.0 == b.0) {
            let ones = tie.iter().filter(|(_, positive)| *positive).count();
            (right, wrong) = (right + ones, wrong + tie.len() - ones);
            points.push(RocPoint {
                threshold: tie[0].0,
                false_positives: wrong as f64 / negatives as f64,
                true_positives: right as f64 / positives as f64,
            });
        }
        Ok(points)
    }

    /// Number of scores that are NaN.
    fn unordered(&self) -> usize {
        self.scored.iter().filter(|(score, _)| score.is_nan()).count()
    }
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
        let targets = targets.into_iter().map(|target| target != 0.0);
        self.scored.extend(outputs.into_iter().zip(targets));
        Ok(())
    }

    fn eval(&self) -> Result<f64, MetricError> {
        if self.unordered() > 0 {
            return Ok(f64::NAN);
        }
        // The trapezoids between neighbouring points.
        let area = |pair: &[RocPoint]| {
            (pair[1].false_positives - pair[0].false_positives)
                * (pair[0].true_positives + pair[1].true_positives)
                / 2.0
        };
        Ok(self.curve()?.windows(2).map(area).sum())
    }
}
