//! Errors of this crate.

use crate::metrics::MetricError;
use std::path::PathBuf;

/// What went wrong: one line first.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An op or a device failed.
    #[error(transparent)]
    Tensor(#[from] thalweg::Error),
    /// A metric has no value, or does not fit the outputs.
    #[error(transparent)]
    Metric(#[from] MetricError),
    /// The loss is no number any more.
    #[error(
        "the loss is {loss} in epoch {epoch}, step {step}; lower the learning rate, clip gradients, or look at the data"
    )]
    Loss {
        /// NaN or infinite.
        loss: f64,
        /// Counted from 1.
        epoch: u64,
        /// Counted from 1 over all epochs.
        step: u64,
    },
    /// A callback asked for a figure that the evaluation does not give.
    #[error("there is no metric {asked:?} in the evaluation after the epoch; found: {found}")]
    NoMetric {
        /// What was asked for.
        asked: String,
        /// What there is.
        found: String,
    },
    /// A file does not hold what this network needs.
    #[error("{path}: {message}", path = .path.display())]
    Checkpoint {
        /// Which.
        path: PathBuf,
        /// What does not fit.
        message: String,
    },
    /// The training data has no batch.
    #[error("the training data has no batch: {samples} samples")]
    NoData {
        /// How many samples there are.
        samples: usize,
    },
}

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
