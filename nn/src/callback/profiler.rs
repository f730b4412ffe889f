//! Callbacks that tell where time goes.

use super::{Callback, RunContext, Times};
use crate::error::Result;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use thalweg::observe::{self, Profile, ProfileOptions, Schedule};

/// What hears of a recording that is whole.
type Ready = Box<dyn FnMut(&Path) + Send>;

/// Records what runs in some steps of training. `thalweg trace DIR` shows it.
///
/// Steps are counted from 1 in each call of [`train`](crate::Model::train). Recording changes no bit of what is computed. A disk that
/// is full costs the recording, not the training; the log says so.
///
/// ```no_run
/// use thalweg_nn::callback::Profiler;
/// # fn train(callbacks: impl thalweg_nn::callback::Callback) {}
/// train(Profiler::to("out").steps(5..=7).memory(true));
/// // $ thalweg trace out
/// ```
pub struct Profiler {
    options: ProfileOptions,
    ready: Option<Ready>,
    profile: Option<Profile>,
}

impl Profiler {
    /// The first ten steps, and what is before them, into `output/profile/rank_0/profiler`.
    pub fn new() -> Profiler {
        let mut options = ProfileOptions::default();
        options.profile = true;
        Profiler::with(options)
    }

    /// As [`Profiler::new`], into this folder; `{r}` in it is the rank, and otherwise a folder of the rank is made in it.
    pub fn to(folder: impl Into<PathBuf>) -> Profiler {
        let mut profiler = Profiler::new();
        profiler.options.output_path = folder.into().to_string_lossy().into_owned();
        profiler
    }

    /// What these options say; nothing where they are off.
    pub fn with(options: ProfileOptions) -> Profiler {
        Profiler {
            options,
            ready: None,
            profile: None,
        }
    }

    /// Records these steps alone, from 1.
    #[must_use]
    pub fn steps(mut self, steps: RangeInclusive<u64>) -> Profiler {
        (self.options.profile_start_step, self.options.profile_stop_step) = (*steps.start(), *steps.end());
        self.options.init_start_profile = false;
        self
    }

    /// Records in cycles.
    #[must_use]
    pub fn schedule(mut self, schedule: Schedule) -> Profiler {
        self.options.schedule = Some(schedule);
        self
    }

    /// Whether memory that is taken and given back is recorded too.
    #[must_use]
    pub fn memory(mut self, on: bool) -> Profiler {
        self.options.profile_memory = on;
        self
    }

    /// What is called with the folder of each recording that is whole.
    #[must_use]
    pub fn on_trace_ready(mut self, ready: impl FnMut(&Path) + Send + 'static) -> Profiler {
        self.ready = Some(Box::new(ready));
        self
    }

    /// Points that the network lacks are refused.
    fn check_points(&self, run: &RunContext<'_>) -> Result<()> {
        let named = run.model.named();
        let parts: Vec<&str> = (named.iter().filter_map(|(path, _)| path.rsplit_once('.')))
            .map(|(part, _)| part)
            .collect();
        self.options.check_points(&parts)?;
        Ok(())
    }
}

impl Default for Profiler {
    fn default() -> Profiler {
        Profiler::new()
    }
}

impl Callback for Profiler {
    fn begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let Some(mut builder) = self.options.builder()? else {
            return Ok(());
        };
        self.check_points(run)?;
        if let Some(ready) = self.ready.take() {
            builder = builder.on_trace_ready(ready);
        }
        // One that an earlier call left is ended first.
        self.profile = None;
        self.profile = Some(builder.start(run.model.context())?);
        if let Some(options) = &self.options.profiling_options {
            for (key, point) in [("fp_point", &options.fp_point), ("bp_point", &options.bp_point)] {
                if !point.is_empty() {
                    observe::mark(&format!("{key} {point}"));
                }
            }
        }
        Ok(())
    }

    fn step_done(&mut self, _: &mut RunContext<'_>) -> Result<()> {
        let Some(profile) = &mut self.profile else {
            return Ok(());
        };
        if let Err(error) = profile.step() {
            tracing::warn!("{error}");
            self.profile = None;
        }
        Ok(())
    }

    fn end(&mut self, _: &mut RunContext<'_>) -> Result<()> {
        if let Some(Err(error)) = self.profile.take().map(Profile::finish) {
            tracing::warn!("{error}");
        }
        Ok(())
    }
}

/// Logs where the time of each epoch's steps went, as one line, and keeps it. Times are those of the host: where the device is behind,
/// its work shows as the wait at the epoch's end.
#[derive(Clone, Debug, Default)]
pub struct StepTimes {
    epochs: Vec<Times>,
}

impl StepTimes {
    /// A monitor.
    pub fn new() -> StepTimes {
        StepTimes::default()
    }

    /// The times of each epoch.
    pub fn epochs(&self) -> &[Times] {
        &self.epochs
    }
}

impl Callback for StepTimes {
    fn epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let times = run.times;
        let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3 / times.steps.max(1) as f64;
        tracing::info!(
            epoch = run.cur_epoch_num,
            "a step of {} took {:.3} ms: data {:.3}, compute {:.3}, callbacks {:.3}, waiting for the device {:.3}",
            times.steps,
            ms(run.epoch_time),
            ms(times.data),
            ms(times.compute),
            ms(times.callbacks),
            ms(times.wait)
        );
        self.epochs.push(times);
        Ok(())
    }
}
