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

impl Figure {
    /// The figure of right predictions, all predictions and all targets; 0 where it is 0 divided by 0.
    fn of(self, right: f64, predicted: f64, targets: f64) -> f64 {
        let share = |part: f64, whole: f64| if whole == 0.0 { 0.0 } else { part / whole };
        match self {
            Figure::Precision => share(right, predicted),
            Figure::Recall => share(right, targets),
            Figure::F(beta) => share((1.0 + beta * beta) * right, beta * beta * targets + predicted),
        }
    }
}

/// How the figures of classes become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Average {
    /// The mean over classes that occur as target or prediction.
    #[default]
    Macro,
    /// The mean weighted by each class's number of targets.
    Weighted,
    /// The figure of all samples together, whatever their class.
    Micro,
}

/// Precision, recall or F-beta, of all classes or of each.
///
/// ```
/// use thalweg::{Context, Tensor};
/// use thalweg_nn::metrics::{Average, ClassScores, Metric};
/// let cx = Context::new("cpu")?;
/// let output = Tensor::from_slice(&[0.2_f32, 0.5, 0.3, 0.1, 0.9, 0.6], [3, 2], &cx);
/// let target = Tensor::from_slice(&[1_i64, 0, 1], 3, &cx);
/// let mut precision = ClassScores::precision(2);
/// precision.update(&output, &target, None)?;
/// assert_eq!(precision.per_class()?, [0.5, 1.0]);
/// assert_eq!(precision.eval()?, 0.75);
/// assert_eq!(precision.average(Average::Micro).eval()?, 2.0 / 3.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClassScores {
    name: String,
    figure: Figure,
    average: Average,
    each: bool,
    matrix: ConfusionMatrix,
}

impl ClassScores {
    fn new(name: impl Into<String>, figure: Figure, classes: usize) -> ClassScores {
        ClassScores {
            name: name.into(),
            figure,
            average: Average::Macro,
            each: false,
            matrix: ConfusionMatrix::new(classes),
        }
    }

    /// Right predictions of a class among all predictions of it.
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

    /// Another mean than [`Average::Macro`]. Its name stands behind the metric's, as in `f1_micro`.
    #[must_use]
    pub fn average(mut self, average: Average) -> ClassScores {
        let base = ["_weighted", "_micro"]
            .iter()
            .find_map(|end| self.name.strip_suffix(end));
        let base = base.unwrap_or(&self.name);
        self.name = match average {
            Average::Macro => base.to_owned(),
            Average::Weighted => format!("{base}_weighted"),
            Average::Micro => format!("{base}_micro"),
        };
        self.average = average;
        self
    }

    /// Lists each class's figure in the evaluation of a model too: beside `f1` there are `f1_0`, `f1_1` and so on.
    #[must_use]
    pub fn each_class(mut self) -> ClassScores {
        self.each = true;
        self
    }

    /// The figure of each class, in the order of their numbers; 0 for a class without samples to tell it from.
    ///
    /// # Errors
    /// [`NoValue`](super::NoValue) before the first batch.
    pub fn per_class(&self) -> Result<Vec<f64>, MetricError> {
        if self.matrix.is_empty() {
            return Err(missing(&self.name));
        }
        let figure = |class| {
            let (right, predicted, targets) = self.matrix.of(class);
            self.figure.of(right, predicted, targets)
        };
        Ok((0..self.matrix.classes).map(figure).collect())
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
        let figures = self.per_class()?;
        let (mut sum, mut weights, mut whole) = (0.0, 0.0, (0.0, 0.0, 0.0));
        for (class, figure) in figures.into_iter().enumerate() {
            let (right, predicted, targets) = self.matrix.of(class);
            let weight = match self.average {
                Average::Weighted => targets,
                _ => f64::from(predicted + targets > 0.0),
            };
            (sum, weights) = (sum + figure * weight, weights + weight);
            whole = (whole.0 + right, whole.1 + predicted, whole.2 + targets);
        }
        Ok(match self.average {
            Average::Micro => self.figure.of(whole.0, whole.1, whole.2),
            Average::Macro | Average::Weighted => sum / weights,
        })
    }

    fn figures(&self) -> Result<Vec<(String, f64)>, MetricError> {
        let mut figures = vec![(self.name.clone(), self.eval()?)];
        if self.each {
            let base = ClassScores::average(self.clone(), Average::Macro).name;
            let each = self.per_class()?.into_iter().enumerate();
            figures.extend(each.map(|(class, figure)| (format!("{base}_{class}"), figure)));
        }
        Ok(figures)
    }
}
