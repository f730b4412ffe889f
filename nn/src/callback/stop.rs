//! Callbacks that end training.

use super::{Callback, RunContext};
use crate::error::{Error, Result};
use std::time::{Duration, Instant};

/// Whether more or less of a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More, as of an accuracy.
    Higher,
    /// Less, as of a loss.
    Lower,
}

impl Better {
    /// Whether `new` beats `best` by more than `least`.
    pub(super) fn beats(self, new: f64, best: Option<f64>, least: f64) -> bool {
        match (self, best) {
            (_, None) => !new.is_nan(),
            (Better::Higher, Some(best)) => new > best + least,
            (Better::Lower, Some(best)) => new < best - least,
        }
    }
}

/// A figure of the last evaluation.
pub(super) fn figure(run: &RunContext<'_>, name: &str) -> Result<f64> {
    run.metrics.get(name).copied().ok_or_else(|| {
        let mut known: Vec<&str> = run.metrics.keys().map(String::as_str).collect();
        known.sort_unstable();
        Error::NoMetric {
            asked: name.to_owned(),
            found: known.join(", "),
        }
    })
}

/// Stops when a metric of the evaluation after each epoch has not improved for some epochs.
#[derive(Clone, Debug)]
pub struct EarlyStopping {
    metric: String,
    better: Better,
    patience: u64,
    least: f64,
    best: Option<f64>,
    since: u64,
}

impl EarlyStopping {
    /// Watches `metric`; stops after `patience` epochs without improvement.
    pub fn new(metric: impl Into<String>, better: Better, patience: u64) -> EarlyStopping {
        EarlyStopping {
            metric: metric.into(),
            better,
            patience,
            least: 0.0,
            best: None,
            since: 0,
        }
    }

    /// Improvements must be greater than this.
    #[must_use]
    pub fn min_delta(mut self, least: f64) -> EarlyStopping {
        self.least = least;
        self
    }
}

impl Callback for EarlyStopping {
    fn epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let now = figure(run, &self.metric)?;
        if self.better.beats(now, self.best, self.least) {
            (self.best, self.since) = (Some(now), 0);
            return Ok(());
        }
        self.since += 1;
        if self.since >= self.patience {
            run.request_stop();
        }
        Ok(())
    }
}

/// Stops after the step during which a time has passed.
#[derive(Clone, Copy, Debug)]
pub struct StopAtTime {
    limit: Duration,
    begun: Option<Instant>,
}

impl StopAtTime {
    /// Stops `limit` after training began.
    pub fn new(limit: Duration) -> StopAtTime {
        StopAtTime { limit, begun: None }
    }
}

impl Callback for StopAtTime {
    fn begin(&mut self, _: &mut RunContext<'_>) -> Result<()> {
        self.begun = Some(Instant::now());
        Ok(())
    }

    fn step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        if self.begun.is_some_and(|begun| begun.elapsed() >= self.limit) {
            run.request_stop();
        }
        Ok(())
    }
}
