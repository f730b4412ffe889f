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

/// Stops when a metric of the evaluation after each epoch has not improved for some epochs. The best figure and the epochs since are
/// noted in the model, so training that goes on from a file, with the same metric and least improvement, stops where it would have
/// without a break. An epoch that was broken off is not counted: the run that goes on ends it. One whose last step was saved before its
/// evaluation counts as one without improvement.
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

    /// The best figure so far.
    pub fn best(&self) -> Option<f64> {
        self.best
    }

    /// The name of the note.
    fn key(&self) -> String {
        let EarlyStopping {
            metric,
            better,
            least,
            ..
        } = self;
        format!("early stopping/{metric}/{better:?}/{least}")
    }

    /// The best figure and the epochs since, as they are noted with the step after which that was.
    fn noted(text: &str, run: &RunContext<'_>) -> Option<(Option<f64>, u64)> {
        let mut words = text.split(' ');
        let best: f64 = words.next()?.parse().ok()?;
        let since: u64 = words.next()?.parse().ok()?;
        let step: u64 = words.next()?.parse().ok()?;
        let ended = run.cur_step_num > step && run.cur_step_in_epoch == 0;
        Some(((!best.is_nan()).then_some(best), since + u64::from(ended)))
    }

    fn stop_if_due(&self, run: &mut RunContext<'_>) {
        if self.since > 0 && self.since >= self.patience {
            run.request_stop();
        }
    }
}

impl Callback for EarlyStopping {
    fn begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        if run.resumed || run.cur_step_num == 0 {
            let text = run.model.notes().get(&self.key()).filter(|_| run.resumed);
            (self.best, self.since) = text
                .and_then(|text| EarlyStopping::noted(text, run))
                .unwrap_or_default();
            self.stop_if_due(run);
        }
        Ok(())
    }

    fn evaluated(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let now = figure(run, &self.metric)?;
        if run.cur_step_in_epoch < run.batch_num {
            return Ok(());
        }
        if self.better.beats(now, self.best, self.least) {
            (self.best, self.since) = (Some(now), 0);
        } else {
            self.since += 1;
        }
        let best = self.best.unwrap_or(f64::NAN);
        run.model
            .note(self.key(), format!("{best} {} {}", self.since, run.cur_step_num));
        self.stop_if_due(run);
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
