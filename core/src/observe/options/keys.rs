//! The keys, a row each.

use super::{ProfileOptions, ProfilingOptions};
use crate::observe::{Metric, Schedule};
use crate::options::by_name::{Key, WrongOption, option_keys, parsed, set_all, store};
use serde_json::Value;

type Result<T> = std::result::Result<T, WrongOption>;

const BOOL: &str = "true or false";
const SWITCH: &str = "\"on\" or \"off\"";
const STEP: &str = "a whole number from 1";

pub(super) const KEYS: &[Key<ProfileOptions>] = option_keys! {
    "profile", "false", BOOL, "Records what runs.": |to, value| flag(&mut to.profile, value);
    "output_path", "output/profile/rank_{r}/profiler", "a path; `{r}` is the rank",
        "Where the recording lies.": |to, value| text(&mut to.output_path, value);
    "profile_start_step", "1", STEP, "The first step that is recorded. Without effect while init_start_profile is true.":
        |to, value| step(&mut to.profile_start_step, value);
    "profile_stop_step", "10", "a whole number from profile_start_step", "The last step that is recorded.":
        |to, value| step(&mut to.profile_stop_step, value);
    "init_start_profile", "true", BOOL, "Records from the first call on, with what happens before the first step.":
        |to, value| flag(&mut to.init_start_profile, value);
    "profile_communication", "false", BOOL, "Records collectives. A process that is the only rank has none.":
        |to, value| flag(&mut to.profile_communication, value);
    "profile_memory", "false", BOOL, "Records memory that is taken and given back.":
        |to, value| flag(&mut to.profile_memory, value);
    "schedule", "none", "an object with wait, warmup, active (from 1), repeat (0 for ever) and skip_first",
        "Cycles of steps: not recorded, thrown away, kept.": |to, value| schedule(&mut to.schedule, value);
    "enable_profiling", "false", BOOL, "The other form of profile.": |to, value| flag(&mut to.enable_profiling, value);
    "profiling_options", "none", "an object, or its text in JSON", "What the other form records.":
        |to, value| profiling(&mut to.profiling_options, value);
};

pub(super) const PROFILING: &[Key<ProfilingOptions>] = option_keys! {
    "profiling_options.result_path", "that of output_path", "a folder that exists", "Where the recording lies.":
        |to, value| text(&mut to.result_path, value);
    "profiling_options.training_trace", "off", SWITCH, "Steps and their phases.":
        |to, value| switch(&mut to.training_trace, value);
    "profiling_options.task_trace", "off", SWITCH, "Kernels; training_trace too.":
        |to, value| switch(&mut to.task_trace, value);
    "profiling_options.aicpu_trace", "off", SWITCH, "Ops on the host, and waits for data.":
        |to, value| switch(&mut to.aicpu_trace, value);
    "profiling_options.op_trace", "off", SWITCH, "Single ops, on the host and as kernels; goes alone.":
        |to, value| switch(&mut to.op_trace, value);
    "profiling_options.fp_point", "the first", "a part of the network; needs training_trace",
        "Forward begins with it.": |to, value| name(&mut to.fp_point, value);
    "profiling_options.bp_point", "the last", "a part of the network; needs training_trace",
        "Backward ends with its gradient.": |to, value| name(&mut to.bp_point, value);
    "profiling_options.ai_core_metrics", "none",
        "PipeUtilization, ArithmeticUtilization, Memory, MemoryL0 or ResourceConflictRatio; needs task_trace",
        "What is measured of the hardware. What cannot be is said to be `unavailable`, and why.":
        |to, value| metric(&mut to.ai_core_metrics, value);
};

fn flag(to: &mut bool, value: &Value) -> Result<Option<()>> {
    store(to, value.as_bool())
}

fn switch(to: &mut bool, value: &Value) -> Result<Option<()>> {
    let known = [("on", true), ("off", false)];
    let found = known.iter().find(|(word, _)| value.as_str() == Some(word));
    store(to, found.map(|(_, on)| *on))
}

fn text(to: &mut String, value: &Value) -> Result<Option<()>> {
    store(
        to,
        value.as_str().filter(|text| !text.is_empty()).map(str::to_owned),
    )
}

/// A text that may be empty.
fn name(to: &mut String, value: &Value) -> Result<Option<()>> {
    store(to, value.as_str().map(str::to_owned))
}

fn metric(to: &mut Option<Metric>, value: &Value) -> Result<Option<()>> {
    store(to, value.as_str().and_then(Metric::of_name).map(Some))
}

fn step(to: &mut u64, value: &Value) -> Result<Option<()>> {
    store(to, value.as_u64().filter(|step| *step > 0))
}

fn count(to: &mut u64, value: &Value) -> Result<Option<()>> {
    store(to, value.as_u64())
}

const SCHEDULE: &[Key<Schedule>] = option_keys! {
    "wait", "0", "a whole number from 0", "": |to, value| count(&mut to.wait, value);
    "warmup", "0", "a whole number from 0", "": |to, value| count(&mut to.warmup, value);
    "active", "1", STEP, "": |to, value| step(&mut to.active, value);
    "repeat", "0", "a whole number from 0", "": |to, value| count(&mut to.repeat, value);
    "skip_first", "0", "a whole number from 0", "": |to, value| count(&mut to.skip_first, value);
};

fn schedule(to: &mut Option<Schedule>, value: &Value) -> Result<Option<()>> {
    let mut schedule = Schedule::default();
    set_all(SCHEDULE, &mut schedule, value)?;
    store(to, Some(Some(schedule)))
}

fn profiling(to: &mut Option<ProfilingOptions>, value: &Value) -> Result<Option<()>> {
    store(to, Some(Some(profiling_of(value)?)))
}

/// The options of an object, or of its text.
pub(super) fn profiling_of(value: &Value) -> Result<ProfilingOptions> {
    let inside = match value {
        Value::String(text) => parsed("profiling_options", text)?,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.clone(),
    };
    let mut options = ProfilingOptions::default();
    set_all(PROFILING, &mut options, &inside)?;
    Ok(options)
}
