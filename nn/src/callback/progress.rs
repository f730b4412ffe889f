//! Callbacks that tell how training goes.

use super::{Callback, RunContext};
use crate::error::{Error, Result};
use indicatif::{ProgressBar as Bar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Stops with an error when the loss is NaN or infinite, and logs it now and then. It reads the loss after every `every`th
/// step, which waits for the device.
#[derive(Clone, Copy, Debug)]
pub struct LossMonitor {
    every: u64,
}

impl LossMonitor {
    /// Looks at every `every`th step and at the last one of an epoch.
    pub fn every(every: u64) -> LossMonitor {
        LossMonitor { every: every.max(1) }
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
            return Err(Error::Loss { loss, epoch, step });
        }
        tracing::info!(epoch, step, loss, "loss");
        Ok(())
    }
}

/// Logs how long epochs and steps take. An epoch's time is divided by the steps that ran.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeMonitor {
    begun: Option<Instant>,
    steps: u64,
    last: Option<(Duration, u64)>,
}

impl TimeMonitor {
    /// A monitor.
    pub fn new() -> TimeMonitor {
        TimeMonitor::default()
    }

    /// Time of the last epoch, and the steps that ran in it.
    pub fn last_epoch(&self) -> Option<(Duration, u64)> {
        self.last
    }
}

impl Callback for TimeMonitor {
    fn epoch_begin(&mut self, _: &mut RunContext<'_>) -> Result<()> {
        self.begun = Some(Instant::now());
        self.steps = 0;
        Ok(())
    }

    fn step_end(&mut self, _: &mut RunContext<'_>) -> Result<()> {
        self.steps += 1;
        Ok(())
    }

    fn epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        // Steps are submitted ahead of the device; the epoch ends when the last is done.
        run.model.synchronize()?;
        if let Some(begun) = self.begun {
            let time = begun.elapsed();
            self.last = Some((time, self.steps));
            let per_step = time.as_secs_f64() * 1e3 / self.steps.max(1) as f64;
            tracing::info!(
                epoch = run.cur_epoch_num,
                seconds = time.as_secs_f64(),
                per_step_ms = per_step,
                "time"
            );
        }
        Ok(())
    }
}

/// Logs the learning rate when it changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct LearningRateMonitor {
    last: Option<f64>,
}

impl LearningRateMonitor {
    /// A monitor.
    pub fn new() -> LearningRateMonitor {
        LearningRateMonitor::default()
    }
}

impl Callback for LearningRateMonitor {
    fn step_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        if self.last != Some(run.learning_rate) {
            self.last = Some(run.learning_rate);
            tracing::info!(
                step = run.cur_step_num,
                learning_rate = run.learning_rate,
                "learning rate"
            );
        }
        Ok(())
    }
}

/// A bar for each epoch on standard error; nothing when that is no terminal.
#[derive(Debug, Default)]
pub struct ProgressBar {
    bar: Option<Bar>,
}

impl ProgressBar {
    /// A bar.
    pub fn new() -> ProgressBar {
        ProgressBar::default()
    }
}

impl Callback for ProgressBar {
    fn epoch_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        if !std::io::stderr().is_terminal() {
            return Ok(());
        }
        let bar = Bar::new(run.batch_num);
        let template = "epoch {prefix} {bar:32} {pos}/{len} {per_sec} {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(format!("{}/{}", run.cur_epoch_num, run.epoch_num));
        self.bar = Some(bar);
        Ok(())
    }

    fn step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        if let Some(bar) = &self.bar {
            bar.set_position(run.cur_step_in_epoch);
            // Reading the loss waits for the device, so it is shown now and then.
            if run.cur_step_in_epoch.is_multiple_of(20)
                && let Some(loss) = run.loss_value()?
            {
                bar.set_message(format!("loss {loss:.4}"));
            }
        }
        Ok(())
    }

    fn epoch_end(&mut self, _: &mut RunContext<'_>) -> Result<()> {
        if let Some(bar) = self.bar.take() {
            bar.finish();
        }
        Ok(())
    }
}
