//! Metrics: figures over many batches.

use std::fmt;
use thalweg::{DType, Result, Tensor};

/// Why a metric has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: there is nothing to evaluate; call `update` first")]
pub struct NoValue {
    /// The metric.
    pub name: String,
}

/// What evaluating a metric fails with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetricError {
    /// `eval` before `update`.
    #[error(transparent)]
    NoValue(#[from] NoValue),
    /// Outputs and targets that do not fit.
    #[error("{name}: {message}")]
    Shapes {
        /// The metric.
        name: String,
        /// What does not fit.
        message: String,
    },
    /// Reading a tensor failed.
    #[error(transparent)]
    Tensor(#[from] thalweg::Error),
}

/// A figure that is gathered batch by batch.
pub trait Metric: Send {
    /// The name in tables.
    fn name(&self) -> &str;

    /// Forgets all batches.
    fn clear(&mut self);

    /// Takes a batch in: the network's outputs, the targets, and the batch's loss where there is one.
    ///
    /// # Errors
    /// Shapes that do not fit; what reading the tensors fails with.
    fn update(&mut self, output: &Tensor, target: &Tensor, loss: Option<f64>) -> Result<(), MetricError>;

    /// The figure.
    ///
    /// # Errors
    /// [`NoValue`] before the first batch.
    fn eval(&self) -> Result<f64, MetricError>;
}

fn missing(name: &str) -> MetricError {
    NoValue {
        name: name.to_owned(),
    }
    .into()
}

fn misfit<T>(name: &str, output: &Tensor, target: &Tensor) -> Result<T, MetricError> {
    let message = format!("outputs {} and targets {}", output.shape()?, target.shape()?);
    Err(MetricError::Shapes {
        name: name.to_owned(),
        message,
    })
}

/// Scores `[n, classes]` and class numbers `[n]`, on the host.
fn scores(name: &str, output: &Tensor, target: &Tensor) -> Result<(usize, Vec<f64>, Vec<i64>), MetricError> {
    let (shape, targets) = (output.shape()?, target.shape()?);
    if shape.len() != 2 || *targets != shape[..1] {
        return misfit(name, output, target);
    }
    let scores = output.cast(DType::F64).to_vec::<f64>()?;
    Ok((shape[1], scores, target.cast(DType::I64).to_vec::<i64>()?))
}

/// Place of the first greatest score.
fn greatest(row: &[f64]) -> i64 {
    let mut best = 0;
    for (at, value) in row.iter().enumerate() {
        if *value > row[best] {
            best = at;
        }
    }
    best as i64
}

/// Numbers of outputs and targets of one shape, on the host.
fn pairs(name: &str, output: &Tensor, target: &Tensor) -> Result<(Vec<f64>, Vec<f64>), MetricError> {
    if output.shape()? != target.shape()? {
        return misfit(name, output, target);
    }
    Ok((
        output.cast(DType::F64).to_vec()?,
        target.cast(DType::F64).to_vec()?,
    ))
}

/// Share of samples whose target is among the `k` greatest scores; with `k` 1 the accuracy.
///
/// ```
/// use thalweg::{Context, Tensor};
/// use thalweg_nn::metrics::{Accuracy, Metric};
/// let cx = Context::new("cpu")?;
/// let output = Tensor::from_slice(&[0.2_f32, 0.5, 0.3, 0.1, 0.9, 0.6], [3, 2], &cx);
/// let target = Tensor::from_slice(&[1_i64, 0, 1], 3, &cx);
/// let mut accuracy = Accuracy::new();
/// assert!(accuracy.eval().is_err());
/// accuracy.update(&output, &target, None)?;
/// assert_eq!(accuracy.eval()?, 2.0 / 3.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Accuracy {
    name: String,
    k: usize,
    right: u64,
    total: u64,
}

impl Default for Accuracy {
    fn default() -> Accuracy {
        Accuracy::new()
    }
}

impl Accuracy {
    /// Share of samples with the greatest score at the target.
    pub fn new() -> Accuracy {
        Accuracy {
            name: "accuracy".into(),
            k: 1,
            right: 0,
            total: 0,
        }
    }

    /// Share of samples with the target among the `k` greatest scores.
    pub fn top(k: usize) -> Accuracy {
        Accuracy {
            name: format!("top_{k}"),
            k: k.max(1),
            ..Accuracy::new()
        }
    }
}

impl Metric for Accuracy {
    fn name(&self) -> &str {
        &self.name
    }

    fn clear(&mut self) {
        (self.right, self.total) = (0, 0);
    }

    fn update(&mut self, output: &Tensor, target: &Tensor, _: Option<f64>) -> Result<(), MetricError> {
        let (classes, scores, targets) = scores(&self.name, output, target)?;
        for (row, &target) in scores.chunks(classes.max(1)).zip(&targets) {
            let Some(score) = usize::try_from(target).ok().and_then(|target| row.get(target)) else {
                continue;
            };
            // Ties go to the earlier class.
            let before = row
                .iter()
                .enumerate()
                .filter(|&(at, other)| other > score || (other == score && (at as i64) < target));
            self.right += u64::from(before.count() < self.k);
        }
        self.total += targets.len() as u64;
        Ok(())
    }

    fn eval(&self) -> Result<f64, MetricError> {
        if self.total == 0 {
            return Err(missing(&self.name));
        }
        Ok(self.right as f64 / self.total as f64)
    }
}

/// Mean of the batches' losses, weighted by their samples.
#[derive(Clone, Debug, Default)]
pub struct MeanLoss {
    sum: f64,
    samples: u64,
}

impl Metric for MeanLoss {
    fn name(&self) -> &str {
        "loss"
    }

    fn clear(&mut self) {
        *self = MeanLoss::default();
    }

    fn update(&mut self, output: &Tensor, _: &Tensor, loss: Option<f64>) -> Result<(), MetricError> {
        let samples = output.shape()?.first().copied().unwrap_or(1) as u64;
        if let Some(loss) = loss {
            self.sum += loss * samples as f64;
            self.samples += samples;
        }
        Ok(())
    }

    fn eval(&self) -> Result<f64, MetricError> {
        if self.samples == 0 {
            return Err(missing("loss"));
        }
        Ok(self.sum / self.samples as f64)
    }
}

/// Counts of predicted classes by target.
#[derive(Clone, Debug)]
pub struct ConfusionMatrix {
    classes: usize,
    // Row: target; column: prediction.
    counts: Vec<u64>,
}

impl ConfusionMatrix {
    /// For class numbers below `classes`.
    pub fn new(classes: usize) -> ConfusionMatrix {
        ConfusionMatrix {
            classes,
            counts: vec![0; classes * classes],
        }
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
                self.counts[target * classes + greatest(row) as usize] += 1;
            }
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.counts.iter().all(|&count| count == 0)
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
        self.matrix = ConfusionMatrix::new(self.matrix.classes);
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

/// e to the mean loss, of a loss that is a mean of negative logarithms.
#[derive(Clone, Debug, Default)]
pub struct Perplexity(MeanLoss);

impl Metric for Perplexity {
    fn name(&self) -> &str {
        "perplexity"
    }

    fn clear(&mut self) {
        self.0.clear();
    }

    fn update(&mut self, output: &Tensor, target: &Tensor, loss: Option<f64>) -> Result<(), MetricError> {
        self.0.update(output, target, loss)
    }

    fn eval(&self) -> Result<f64, MetricError> {
        self.0.eval().map(f64::exp).map_err(|_| missing("perplexity"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg::Context;

    /// Values of scikit-learn 1.5 for the same predictions.
    #[test]
    fn figures_of_a_small_batch() {
        let cx = Context::new("cpu").unwrap();
        let predicted = [0, 2, 1, 0, 0, 1, 2, 2];
        let target = [0_i64, 1, 2, 0, 1, 1, 2, 2];
        let mut rows = vec![0.0_f32; 24];
        predicted
            .iter()
            .enumerate()
            .for_each(|(at, &class)| rows[at * 3 + class] = 1.0);
        let output = Tensor::from_slice(&rows, [8, 3], &cx);
        let target = Tensor::from_slice(&target, 8, &cx);
        let check = |mut metric: Box<dyn Metric>, wanted: f64| {
            assert!(
                matches!(metric.eval(), Err(MetricError::NoValue(_))),
                "{}",
                metric.name()
            );
            metric.update(&output, &target, Some(0.5)).unwrap();
            let got = metric.eval().unwrap();
            assert!((got - wanted).abs() < 1e-12, "{} {got}", metric.name());
            metric.clear();
            assert!(metric.eval().is_err());
        };
        check(Box::new(Accuracy::new()), 0.625);
        // Equal scores rank by class: of rows with one 1, class 0 comes second unless it is first.
        check(Box::new(Accuracy::top(2)), 0.75);
        check(Box::new(Accuracy::top(3)), 1.0);
        check(
            Box::new(ClassScores::precision(3)),
            (2.0 / 3.0 + 0.5 + 2.0 / 3.0) / 3.0,
        );
        check(
            Box::new(ClassScores::recall(3)),
            (1.0 + 1.0 / 3.0 + 2.0 / 3.0) / 3.0,
        );
        check(Box::new(ClassScores::f1(3)), (0.8 + 0.4 + 2.0 / 3.0) / 3.0);
        check(Box::new(MeanLoss::default()), 0.5);
        check(Box::new(Perplexity::default()), 0.5_f64.exp());
        let mut matrix = ClassScores::recall(3);
        matrix.update(&output, &target, None).unwrap();
        assert_eq!(matrix.matrix().to_string(), " 2 0 0\n 1 1 1\n 0 1 2\n");
    }

    #[test]
    fn errors_and_ranks_of_numbers() {
        let cx = Context::new("cpu").unwrap();
        let output = Tensor::from_slice(&[0.1_f32, 0.4, 0.35, 0.8], 4, &cx);
        let target = Tensor::from_slice(&[0.0_f32, 0.0, 1.0, 1.0], 4, &cx);
        let mut auc = RocAuc::default();
        auc.update(&output, &target, None).unwrap();
        assert_eq!(auc.eval().unwrap(), 0.75);
        for (mut metric, wanted) in [(Deviation::mae(), 0.3375), (Deviation::mse(), 0.158_125)] {
            metric.update(&output, &target, None).unwrap();
            assert!((metric.eval().unwrap() - wanted).abs() < 1e-6);
            let wide = Tensor::from_slice(&[0.0_f32; 4], [2, 2], &cx);
            assert!(matches!(
                metric.update(&wide, &target, None),
                Err(MetricError::Shapes { .. })
            ));
        }
    }
}
