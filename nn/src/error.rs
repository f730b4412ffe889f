//! Errors of this crate.

use crate::metrics::MetricError;
use crate::summary::SummaryError;
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
    /// A summary cannot be written, or what was noted for it cannot be shown.
    #[error(transparent)]
    Summary(#[from] SummaryError),
    /// The loss is no number any more.
    #[error(
        "the loss is {loss} in epoch {epoch}, step {step_in_epoch} of {batch_num} (step {step}); \
         lower the learning rate, clip gradients, or look at the data"
    )]
    Loss {
        /// NaN or infinite.
        loss: f64,
        /// Counted from 1.
        epoch: u64,
        /// Counted from 1 in the epoch.
        step_in_epoch: u64,
        /// Steps of an epoch.
        batch_num: u64,
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
    /// The number of training samples changed while they were read.
    #[error(
        "the training data has {found} batches an epoch in epoch {epoch}, and had {expected} when training began; \
         its length must stay the same while it is read"
    )]
    DataChanged {
        /// The epoch in which it was seen, counted from 1.
        epoch: u64,
        /// Batches of an epoch when training began.
        expected: usize,
        /// Batches now.
        found: usize,
    },
    /// A dataset returned another number of samples than it was asked for.
    #[error(
        "the dataset was asked for {asked} samples and returned {inputs} inputs and {targets} targets; \
         `collect` must return one of each for every number that it is given"
    )]
    SampleCount {
        /// Samples of the batch.
        asked: usize,
        /// Extent of the first axis of the inputs.
        inputs: usize,
        /// Extent of the first axis of the targets.
        targets: usize,
    },
}

/// What converts to the core's error converts to this crate's.
macro_rules! through_core {
    ($($error:ty),*) => { $(
        impl From<$error> for Error {
            fn from(error: $error) -> Error {
                Error::Tensor(error.into())
            }
        }
    )* };
}

through_core!(
    thalweg::hal::Error,
    thalweg::hal::ir::ParseError,
    thalweg::hal::ir::VerifyError,
    thalweg::loader::LoadError,
    thalweg::loader::LockError
);

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
