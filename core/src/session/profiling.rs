//! The profile of a session.

use super::options::SessionOptions;
use crate::error::{Result, SessionError};
use crate::observe::{ProfileOptions, ProfilingOptions};
use crate::options::by_name::{WrongOption, wrong};
use crate::record::environment;
use serde_json::{Map, Value, json};
use std::path::Path;

/// The options that a value stands for: an object, its text, or traces with `:` between them.
pub(super) fn of(value: &Value) -> Result<ProfilingOptions, WrongOption> {
    let object = match value {
        Value::String(text) if !text.trim_start().starts_with('{') => traces(text)?,
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => value.clone(),
    };
    ProfilingOptions::of(&object)
}

/// `training_trace:task_trace` as an object.
fn traces(text: &str) -> Result<Value, WrongOption> {
    let mut object = Map::new();
    for name in text.split(':') {
        let known = ["training_trace", "task_trace", "aicpu_trace", "op_trace"];
        if !known.contains(&name) {
            let allowed =
                "it takes training_trace, task_trace, aicpu_trace and op_trace with `:` between them";
            return Err(wrong("profiling_options", text, allowed));
        }
        object.insert(name.to_owned(), json!("on"));
    }
    Ok(Value::Object(object))
}

/// Whether a session can have these options.
pub(super) fn check(options: &ProfilingOptions) -> Result<()> {
    let ProfilingOptions {
        fp_point,
        bp_point,
        ai_core_metrics,
        ..
    } = options;
    // A session knows no network, and opens no device.
    let metric = ai_core_metrics.map_or(String::new(), |metric| metric.to_string());
    for (key, value) in [
        ("fp_point", fp_point),
        ("bp_point", bp_point),
        ("ai_core_metrics", &metric),
    ] {
        if !value.is_empty() {
            let allowed = "a session does not take it; give it to the profiler of a training";
            return Err(SessionError::from(wrong(key, value, allowed)).into());
        }
    }
    options.check()
}

/// The options in one line.
pub(super) fn text(options: &ProfilingOptions) -> String {
    let word = |on: bool| if on { "on" } else { "off" };
    format!(
        "{{result_path: {:?}, training_trace: {}, task_trace: {}, aicpu_trace: {}, op_trace: {}}}",
        options.result_path,
        word(options.training_trace),
        word(options.task_trace),
        word(options.aicpu_trace),
        word(options.op_trace)
    )
}

/// Begins the profile that ends with the session, or with the process.
pub(super) fn begin(options: &SessionOptions) -> Result<()> {
    let inner = options.profiling_options.clone().unwrap_or_default();
    let bits = inner.recorded();
    let folder = match inner.result_path.as_str() {
        "" => ProfileOptions::default().output_path,
        path => path.to_owned(),
    };
    Ok(environment::begin_lasting(
        Path::new(&folder),
        bits,
        format!("profiling_options={}\n", text(&inner)),
    )?)
}
