//! Figures of classes.

use super::{Metric, MetricError, greatest, misfit, missing, scores};
use std::fmt;
use thalweg::{Result, Tensor};

/// Counts of predicted classes by target: not one figure, but a table.
///
/// ```
/// use thalweg::{Context, Tensor};
/// use thalweg_nn::metrics::ConfusionMatrix;
/// let cx = Context::new("cpu")?;
/// let output = Tensor::from_slice(&[0.2_f32, 0.5, 0.3, 0.1, 0.9, 0.6], [3, 2], &cx);
/// let target = Tensor::from_slice(&[1_i64, 0, 1], 3, &cx);
/// let mut matrix = ConfusionMatrix::new(2);
/// assert!(matrix.eval().is_err());
/// matrix.update(&output, &target)?;
/// assert_eq!(matrix.eval()?, [[1, 0], [1, 1]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ConfusionMatrix {
    classes: usize,
    // Row: target; column: prediction.
    counts: Vec<u64>,
    // By target: samples without a prediction.
    undecided: Vec<u64>,
}

impl ConfusionMatrix {
    /// For class numbers below `classes`.
    pub fn new(classes: usize) -> ConfusionMatrix {
        ConfusionMatrix {
            classes,
            counts: vec![0; classes * classes],
            undecided: vec![0; classes],
        }
    }

    /// Forgets all batches.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.undecided.fill(0);
    }

    /// Takes a batch in: scores `[n, classes, ..]` and class numbers `[n, ..]`; numbers of no class are left out. A
    /// sample with a score that is NaN has no prediction and stands in no column; [`ClassScores`] count it as missed.
    ///
    /// # Errors
    /// Shapes that do not fit; what reading the tensors fails with.
    pub fn update(&mut self, output: &Tensor, target: &Tensor) -> Result<(), MetricError> {
        self.take("confusion matrix", output, target)
    }

    /// The counts: a row for each target, a column for each prediction.
    ///
    /// # Errors
    /// [`NoValue`](super::NoValue) before the first batch.
    pub fn eval(&self) -> Result<Vec<Vec<u64>>, MetricError> {
        if self.is_empty() {
            return Err(missing("confusion matrix"));
        }
        Ok(self
            .counts
            .chunks(self.classes.max(1))
            .map(<[u64]>::to_vec)
            .collect())
    }

    /// Samples of class `target` that were predicted as `predicted`; 0 for a class that there is not.
    pub fn count(&self, target: usize, predicted: usize) -> u64 {
        let inside = target < self.classes && predicted < self.classes;
        if inside {
            self.counts[target * self.classes + predicted]
        } else {
            0
        }
    }

    /// Right predictions, all predictions and all targets of a class.
    fn of(&self, class: usize) -> (f64, f64, f64) {
        let predicted: u64 = (0..self.classes).map(|target| self.count(target, class)).sum();
        let targets: u64 = (0..self.classes)
            .map(|predicted| self.count(class, predicted))
            .sum();
        let targets = targets + self.undecided[class];
        (self.count(class, class) as f64, predicted as f64, targets as f64)
    }

    fn take(&mut self, name: &str, output: &Tensor, target: &Tensor) -> Result<(), MetricError> {
        let (classes, scores, targets) = scores(name, output, target)?;
        if classes != self.classes {
            return misfit(name, output, target);
        }
        for (row, &target) in scores.chunks(classes.max(1)).zip(&targets) {
            if let Ok(target) = usize::try_from(target)
                && target < classes
            {
                match greatest(row) {
                    Some(predicted) => self.counts[target * classes + predicted] += 1,
                    None => self.undecided[target] += 1,
                }
            }
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.counts.iter().chain(&self.undecided).all(|&count| count == 0)
    }
}

impl fmt::Display for ConfusionMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.counts.iter().max().map_or(1, |most| most.to_string().len()) + 1;
        for target in 0..self.classes {
            for predicted in 0..self.classes {
                write!(f, "{:>width$}", self.count(target, predicted))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Which figure of [`ClassScores`].
#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    Precision,
    Recall,
    F(f64),
}

/// Precision, recall or F-beta: the mean over classes that occur.
#[derive(Clone, Debug)]
pub struct ClassScores {
    name: String,
    figure: Figure,
    matrix: ConfusionMatrix,
}

impl ClassScores {
    fn new(name: impl Into<String>, figure: Figure, classes: usize) -> ClassScores {
        ClassScores {
            name: name.into(),
            figure,
            matrix: ConfusionMatrix::new(classes),
        }
    }

    /// Right predictions of a class among all of it.
    pub fn precision(classes: usize) -> ClassScores {
        ClassScores::new("precision", Figure::Precision, classes)
    }

    /// Right predictions of a class among its samples.
    pub fn recall(classes: usize) -> ClassScores {
        ClassScores::new("recall", Figure::Recall, classes)
    }

    /// Harmonic mean of both.
    pub fn f1(classes: usize) -> ClassScores {
        ClassScores::new("f1", Figure::F(1.0), classes)
    }

    /// Harmonic mean with recall weighted `beta` times.
    pub fn f_beta(classes: usize, beta: f64) -> ClassScores {
        ClassScores::new(format!("f_{beta}"), Figure::F(beta), classes)
    }

    /// The counts behind it.
    pub fn matrix(&self) -> &ConfusionMatrix {
        &self.matrix
    }
}

impl Metric for ClassScores {
    fn name(&self) -> &str {
        &self.name
    }

    fn clear(&mut self) {
        self.matrix.clear();
    }

    fn update(&mut self, output: &Tensor, target: &Tensor, _: Option<f64>) -> Result<(), MetricError> {
        self.matrix.take(&self.name, output, target)
    }

    fn eval(&self) -> Result<f64, MetricError> {
        if self.matrix.is_empty() {
            return Err(missing(&self.name));
        }
        let share = |part: f64, whole: f64| if whole == 0.0 { 0.0 } else { part / whole };
        let (mut sum, mut classes) = (0.0, 0);
        for class in 0..self.matrix.classes {
            let (right, predicted, targets) = self.matrix.of(class);
            if predicted + targets == 0.0 {
                continue;
            }
            let (precision, recall) = (share(right, predicted), share(right, targets));
            sum += match self.figure {
                Figure::Precision => precision,
                Figure::Recall => recall,
                Figure::F(beta) => {
                    let square = beta * beta;
                    share((1.0 + square) * precision * recall, square * precision + recall)
                }
            };
            classes += 1;
        }
        Ok(sum / f64::from(classes))
    }
}
