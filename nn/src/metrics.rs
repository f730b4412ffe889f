//! Metrics: figures over many batches.

mod classes;
mod numbers;

pub use classes::{Average, ClassScores, ConfusionMatrix};
pub use numbers::{Deviation, RocAuc, RocPoint};

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
    /// There were batches, but none that the figure can be told from.
    #[error("{name}: {message}")]
    Undefined {
        /// The metric.
        name: String,
        /// What is missing.
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

    /// All figures with their names, as an evaluation of a model lists them: the one of `eval`, unless a metric has more.
    ///
    /// # Errors
    /// As of [`Metric::eval`].
    fn figures(&self) -> Result<Vec<(String, f64)>, MetricError> {
        Ok(vec![(self.name().to_owned(), self.eval()?)])
    }
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

/// Number of classes, rows of scores, and class numbers on the host, of scores `[n, classes, ..]` and class numbers `[n, ..]`.
fn scores(name: &str, output: &Tensor, target: &Tensor) -> Result<(usize, Vec<f64>, Vec<i64>), MetricError> {
    let (shape, targets) = (output.shape()?, target.shape()?);
    let fits = shape.len() >= 2 && targets.first() == shape.first() && targets.get(1..) == shape.get(2..);
    if !fits {
        return misfit(name, output, target);
    }
    let scores = output.movedim(1, -1).cast(DType::F64).to_vec::<f64>()?;
    Ok((shape[1], scores, target.cast(DType::I64).to_vec::<i64>()?))
}

/// Place of the first greatest score; none where a score is NaN.
fn greatest(row: &[f64]) -> Option<usize> {
    let mut best = 0;
    for (at, value) in row.iter().enumerate() {
        if value.is_nan() {
            return None;
        }
        if *value > row[best] {
            best = at;
        }
    }
    Some(best)
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

/// Share of targets `[n, ..]` that are among the `k` greatest of the scores `[n, classes, ..]`; with `k` 1 the accuracy.
///
/// Targets that are no class, such as -100 for padding, are left out. A NaN is ahead of every number, and a target whose score is
/// NaN is missed.
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
            let before = row.iter().enumerate().filter(|&(at, other)| {
                other.is_nan() || other > score || (other == score && (at as i64) < target)
            });
            self.right += u64::from(!score.is_nan() && before.count() < self.k);
            self.total += 1;
        }
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
