//! Options of a profile by their names in configurations.

mod keys;
#[cfg(test)]
mod tests;

use super::{Metric, Profile, ProfileBuilder, Schedule};
use crate::error::Result;
use crate::options::by_name::{self, OptionKey, WrongOption, near, parsed, set_all};
use crate::record::error::ProfileError;
use crate::record::switch;
use keys::{KEYS, PROFILING};
use std::path::Path;

/// What is profiled, as configurations of trainings say it. [`ProfileOptions::keys`] lists every key.
///
/// ```
/// use thalweg::observe::ProfileOptions;
/// let options = ProfileOptions::from_json(r#"{"profile": true, "profile_stop_step": 20, "profile_memory": true}"#)?;
/// assert_eq!((options.profile_start_step, options.profile_stop_step), (1, 20));
/// let wrong = ProfileOptions::from_json(r#"{"profile_step": 20}"#).unwrap_err();
/// assert!(wrong.to_string().contains("profile_stop_step"));
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ProfileOptions {
    /// Whether anything is recorded.
    pub profile: bool,
    /// The folder; `{r}` is the rank.
    pub output_path: String,
    /// The first step that is recorded, from 1; without effect where `init_start_profile` is on.
    pub profile_start_step: u64,
    /// The last step that is recorded.
    pub profile_stop_step: u64,
    /// Whether the recording begins with the first call, before the first step.
    pub init_start_profile: bool,
    /// Whether collectives are recorded. A process that is the only rank has none.
    pub profile_communication: bool,
    /// Whether memory that is taken and given back is recorded.
    pub profile_memory: bool,
    /// Cycles of steps, in place of the first and the last.
    pub schedule: Option<Schedule>,
    /// The other form of `profile`, which `profiling_options` belong to.
    pub enable_profiling: bool,
    /// What the other form says; `None` for nothing.
    pub profiling_options: Option<ProfilingOptions>,
}

/// The keys of `profiling_options`.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ProfilingOptions {
    /// A folder that exists; empty for `output_path`.
    pub result_path: String,
    /// Steps and their phases.
    pub training_trace: bool,
    /// Kernels.
    pub task_trace: bool,
    /// Ops on the host and waits for data.
    pub aicpu_trace: bool,
    /// Single ops: on the host and as kernels; alone.
    pub op_trace: bool,
    /// The part of the network with which forward begins; empty for the first.
    pub fp_point: String,
    /// The part of the network whose gradient ends backward; empty for the last.
    pub bp_point: String,
    /// What is measured of the hardware.
    pub ai_core_metrics: Option<Metric>,
}

impl Default for ProfileOptions {
    fn default() -> ProfileOptions {
        ProfileOptions {
            profile: false,
            output_path: "output/profile/rank_{r}/profiler".to_owned(),
            profile_start_step: 1,
            profile_stop_step: 10,
            init_start_profile: true,
            profile_communication: false,
            profile_memory: false,
            schedule: None,
            enable_profiling: false,
            profiling_options: None,
        }
    }
}

impl ProfileOptions {
    /// The options of an object in JSON; keys that it lacks have their defaults.
    ///
    /// # Errors
    /// Text that is no object, a key that does not exist, a value or combination that is not allowed: one line with key, value and
    /// what is allowed.
    pub fn from_json(text: &str) -> Result<ProfileOptions> {
        let mut options = ProfileOptions::default();
        let object = parsed("the options", text).map_err(refused)?;
        set_all(KEYS, &mut options, &object).map_err(refused)?;
        options.check()?;
        Ok(options)
    }

    /// Every key, in the order of the documentation.
    pub fn keys() -> impl Iterator<Item = OptionKey> {
        KEYS.iter()
            .map(|key| key.facts)
            .chain(PROFILING.iter().map(|key| key.facts))
    }

    /// Whether the values are allowed.
    ///
    /// # Errors
    /// Values that are not, by themselves or together.
    pub fn check(&self) -> Result<()> {
        let steps = (self.profile_start_step, self.profile_stop_step);
        if let Some(schedule) = self.schedule {
            schedule.check()?;
            if steps != (1, 10) {
                return Err(wrong(
                    "schedule",
                    "given",
                    "profile_start_step and profile_stop_step go without it",
                ));
            }
        }
        Schedule::of_steps(steps.0, steps.1)?;
        if self.profile && self.enable_profiling {
            return Err(wrong(
                "enable_profiling",
                "true",
                "it is the other form of profile; give one of them",
            ));
        }
        match (&self.profiling_options, self.enable_profiling) {
            (None, _) => Ok(()),
            (Some(_), false) => Err(wrong("profiling_options", "given", "they need enable_profiling")),
            (Some(inner), true) => inner.check(),
        }
    }

    /// The profile that they ask for; `None` for none. What has no effect here is told in the log.
    ///
    /// # Errors
    /// As of [`ProfileOptions::check`].
    pub fn builder(&self) -> Result<Option<ProfileBuilder>> {
        self.check()?;
        if !self.profile && !self.enable_profiling {
            return Ok(None);
        }
        let inner = self.profiling_options.clone().unwrap_or_default();
        let path = match inner.result_path.as_str() {
            "" => &self.output_path,
            path => path,
        };
        let (kernels, ops) = inner.bits();
        let mut builder = Profile::to(path)
            .kernels(kernels)
            .ops(ops)
            .memory(self.profile_memory);
        if let Some(metric) = inner.ai_core_metrics {
            builder = builder.metric(metric);
        }
        self.say();
        let (start, stop) = (self.profile_start_step, self.profile_stop_step);
        Ok(Some(match (self.schedule, self.init_start_profile) {
            (Some(schedule), _) => builder.schedule(schedule),
            (None, true) => builder.steps(1..=stop),
            (None, false) => builder.steps(start..=stop),
        }))
    }

    /// Tells what has no effect.
    fn say(&self) {
        if self.init_start_profile && self.profile_start_step != 1 {
            tracing::warn!(
                "profile: profile_start_step is {}; it has no effect while init_start_profile is true",
                self.profile_start_step
            );
        }
        if self.profile_communication {
            tracing::info!(
                "profile: profile_communication is true; a process that is the only rank has no collectives"
            );
        }
    }

    /// Whether the network has the parts that `fp_point` and `bp_point` name; `parts` are its paths: `layers.0`.
    ///
    /// # Errors
    /// A part that it lacks; near names are listed.
    pub fn check_points(&self, parts: &[&str]) -> Result<()> {
        let Some(options) = &self.profiling_options else {
            return Ok(());
        };
        for (key, point) in [("fp_point", &options.fp_point), ("bp_point", &options.bp_point)] {
            if !point.is_empty() && !parts.contains(&point.as_str()) {
                let near = near(point, parts.iter().copied());
                return Err(wrong(
                    key,
                    point,
                    &format!("the network has no such part; {near}"),
                ));
            }
        }
        Ok(())
    }
}

impl ProfilingOptions {
    pub(crate) fn check(&self) -> Result<()> {
        let path = &self.result_path;
        if !path.is_empty() && !Path::new(path).is_dir() {
            return Err(wrong("result_path", path, "it takes a folder that exists"));
        }
        let training = self.training_trace || self.task_trace;
        if self.op_trace && (training || self.aicpu_trace) {
            return Err(wrong(
                "op_trace",
                "on",
                "it goes alone; turn the other traces off",
            ));
        }
        for (key, value) in [("fp_point", &self.fp_point), ("bp_point", &self.bp_point)] {
            if !value.is_empty() && !training {
                return Err(wrong(key, value, "it needs training_trace"));
            }
        }
        if let Some(metric) = self.ai_core_metrics
            && !self.task_trace
        {
            return Err(wrong("ai_core_metrics", metric, "it needs task_trace"));
        }
        Ok(())
    }

    /// The options of an object in JSON, or of its text.
    pub(crate) fn of(value: &serde_json::Value) -> Result<ProfilingOptions, WrongOption> {
        keys::profiling_of(value)
    }

    /// What is recorded.
    pub(crate) fn recorded(&self) -> u32 {
        let (kernels, ops) = self.bits();
        let bit = |on: bool, bit: u32| if on { bit } else { 0 };
        bit(kernels, switch::RUNS) | bit(ops, switch::OPS) | switch::SPANS
    }

    /// Whether kernels and ops are recorded. Where no trace is asked for, both are.
    fn bits(&self) -> (bool, bool) {
        let any = self.training_trace || self.task_trace || self.aicpu_trace || self.op_trace;
        (
            !any || self.task_trace || self.op_trace,
            !any || self.aicpu_trace || self.op_trace,
        )
    }
}

fn wrong(key: &str, value: impl ToString, allowed: &str) -> crate::Error {
    refused(by_name::wrong(key, value, allowed))
}

fn refused(WrongOption { key, value, allowed }: WrongOption) -> crate::Error {
    ProfileError::Option { key, value, allowed }.into()
}
