//! Callbacks that tell how training goes.

use super::{Callback, RunContext};
use crate::error::{Error, Result};
use indicatif::{ProgressBar as Bar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Stops with an error when the loss is NaN or infinite, logs it, and keeps what it saw. It reads the loss after every `every`th
/// step, which waits for the device.
#[derive(Clone, Debug)]
pub struct LossMonitor {
    every: u64,
    losses: Vec<(u64, f64)>,
}

impl LossMonitor {
    /// Looks at every `every`th step and at the last one of an epoch.
    pub fn every(every: u64) -> LossMonitor {
        LossMonitor {
            every: every.max(1),
            losses: Vec::new(),
        }
    }

    /// Steps that were looked at, counted from 1, and their losses.
    pub fn losses(&self) -> &[(u64, f64)] {
        &self.losses
    }
}

impl Callback for LossMonitor {
    fn step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let due = run.cur_step_num.is_multiple_of(self.every) || run.cur_step_in_epoch == run.batch_num;
        let Some(loss) = (if due { run.loss_value()? } else { None }) else {
            return Ok(());
        };
        let (epoch, step) = (run.cur_epoch_num, run.cur_step_num);
        if !loss.is_finite() {
            return Err(Error::Loss {
                loss,
                epoch,
                step_in_epoch: run.cur_step_in_epoch,
                batch_num: run.batch_num,
                step,
            });
        }
        tracing::info!(epoch, step, loss, "loss");
        self.losses.push((step, loss));
        Ok(())
    }
}

/// Logs how long the steps of each epoch take, without evaluation. An epoch's time is divided by the steps that ran.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeMonitor {
    steps: u64,
    last: Option<(Duration, u64)>,
}

impl TimeMonitor {
    /// A monitor.
    pub fn new() -> TimeMonitor {
        TimeMonitor::default()
    }

    /// Time of the last epoch's steps, and how many ran in it.
    pub fn last_epoch(&self) -> Option<(Duration, u64)> {
        self.last
    }

    /// Mean time of a step of the last epoch.
    pub fn per_step(&self) -> Option<Duration> {
        let (time, steps) = self.last?;
        Some(time.div_f64(steps.max(1) as f64))
    }
}

impl Callback for TimeMonitor {
    fn epoch_begin(&mut self, _: &mut RunContext<'_>) -> Result<()> {
        self.steps = 0;
        Ok(())
    }

    fn step_end(&mut self, _: &mut RunContext<'_>) -> Result<()> {
        self.steps += 1;
        Ok(())
    }

    fn epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.last = Some((run.epoch_time, self.steps));
        let per_step_ms = self.per_step().unwrap_or_default().as_secs_f64() * 1e3;
        let (epoch, seconds) = (run.cur_epoch_num, run.epoch_time.as_secs_f64());
        tracing::info!(epoch, seconds, steps = self.steps, per_step_ms, "time");
        Ok(())
    }
}

/// Logs the learning rate when it changes, and keeps it.
#[derive(Clone, Debug, Default)]
pub struct LearningRateMonitor {
    rates: Vec<(u64, f64)>,
}

impl LearningRateMonitor {
    /// A monitor.
    pub fn new() -> LearningRateMonitor {
        LearningRateMonitor::default()
    }

    /// Steps with another rate than the one before, counted from 1, and their rates.
    pub fn rates(&self) -> &[(u64, f64)] {
        &self.rates
    }
}

impl Callback for LearningRateMonitor {
    fn step_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let (step, learning_rate) = (run.cur_step_num, run.learning_rate);
        if self.rates.last().is_none_or(|(_, last)| *last != learning_rate) {
            self.rates.push((step, learning_rate));
            tracing::info!(step, learning_rate, "learning rate");
        }
        Ok(())
    }
}

/// A bar for each epoch on standard error, with samples a second, at its end with the figures of the evaluation; nothing when that is no terminal.
#[derive(Debug, Default)]
pub struct ProgressBar {
    bar: Option<Bar>,
    begun: Option<Instant>,
    loss: String,
    transient: bool,
}

impl ProgressBar {
    /// A bar.
    pub fn new() -> ProgressBar {
        ProgressBar::default()
    }

    /// Takes the bar away at the end of its epoch.
    #[must_use]
    pub fn transient(mut self) -> ProgressBar {
        self.transient = true;
        self
    }
}

impl Callback for ProgressBar {
    fn epoch_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        if !std::io::stderr().is_terminal() {
            return Ok(());
        }
        let bar = Bar::new(run.batch_num);
        let template = "epoch {prefix} {bar:32} {pos}/{len} {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(format!("{}/{}", run.cur_epoch_num, run.epoch_num));
        self.bar = Some(bar);
        (self.begun, self.loss) = (Some(Instant::now()), String::new());
        Ok(())
    }

    fn step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        if let Some(bar) = &self.bar {
            bar.set_position(run.cur_step_in_epoch);
            // Reading the loss waits for the device, so it is shown now and then.
            if run.cur_step_in_epoch.is_multiple_of(20)
                && let Some(loss) = run.loss_value()?
            {
                self.loss = format!(" loss {loss:.4}");
            }
            bar.set_message(format!("{}{}", rate(run.times.samples, self.begun), self.loss));
        }
        Ok(())
    }

    fn epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let Some(bar) = self.bar.take() else {
            return Ok(());
        };
        if self.transient {
            bar.finish_and_clear();
            return Ok(());
        }
        let mut figures: Vec<String> = run
            .metrics
            .iter()
            .map(|(name, value)| format!("{name} {value:.4}"))
            .collect();
        figures.sort_unstable();
        let seconds = run.epoch_time.as_secs_f64().max(1e-9);
        figures.insert(0, format!("{:.0} samples/s", run.times.samples as f64 / seconds));
        bar.finish_with_message(figures.join(" "));
        Ok(())
    }
}

/// `12345 samples/s` since the epoch began.
fn rate(samples: u64, begun: Option<Instant>) -> String {
    let seconds = begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64());
    format!("{:.0} samples/s", samples as f64 / seconds.max(1e-9))
}
