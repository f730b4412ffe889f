//! The log, in processes of their own: lines, levels, files, and what is wrong.
#![allow(clippy::unwrap_used, reason = "a test")]

mod files;
mod form;
mod options;

use std::process::{Command, Output};

const CHILD: &str = "THALWEG_TEST_LOG";

const VARIABLES: [&str; 12] = [
    "THALWEG_LOG_LEVEL",
    "THALWEG_LOG_MODULES",
    "THALWEG_LOG_TO_STDERR",
    "THALWEG_LOG_DIR",
    "THALWEG_LOG_MAX_SIZE",
    "THALWEG_LOG_FILES",
    "GLOG_v",
    "MS_SUBMODULE_LOG_v",
    "GLOG_logtostderr",
    "GLOG_log_dir",
    "THALWEG_RANK",
    "RANK_ID",
];

/// Runs the rest of a test in a process with these variables; `None` there.
fn apart(test: &str, variables: &[(&str, &str)]) -> Option<Output> {
    if std::env::var_os(CHILD).is_some() {
        return None;
    }
    let mut run = Command::new(std::env::current_exe().unwrap());
    run.args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1");
    for name in VARIABLES {
        run.env_remove(name);
    }
    let output = run
        .env("USER", "ann")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let (out, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}: {out}{said}", output.status);
    Some(output)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The parts of a line.
#[derive(Debug, PartialEq)]
struct Line {
    level: String,
    module: String,
    thread: u64,
    place: String,
    text: String,
}

/// Takes a line apart; each part must have its exact form.
fn parse(line: &str) -> Line {
    let parts = || {
        let (level, rest) = line.strip_prefix('[')?.split_once("] ")?;
        let (module, rest) = rest.split_once('(')?;
        let (ids, rest) = rest.split_once("):")?;
        let [process, thread, program] = ids.split(',').collect::<Vec<_>>()[..] else {
            return None;
        };
        let (time, rest) = rest.split_once(" [")?;
        let (place, text) = rest.split_once("] ")?;
        let form: String = time
            .chars()
            .map(|c| if c.is_ascii_digit() { '0' } else { c })
            .collect();
        let (file, number) = place.rsplit_once(':')?;
        let good = form == "0000-00-00-00:00:00.000.000"
            && process.parse::<u32>().is_ok()
            && program.starts_with("logs-")
            && !file.is_empty()
            && number.parse::<u32>().is_ok();
        good.then(|| Line {
            level: level.into(),
            module: module.into(),
            thread: thread.parse().unwrap(),
            place: place.into(),
            text: text.into(),
        })
    };
    parts().unwrap_or_else(|| panic!("no line of the log: {line:?}"))
}

fn lines(text: &str) -> Vec<Line> {
    text.lines().map(parse).collect()
}

/// A line of each level of this program.
fn one_of_each() {
    tracing::trace!("a trace");
    tracing::debug!("a debug");
    tracing::info!("an info");
    tracing::warn!("a warning");
    tracing::error!("an error");
    tracing::error!(critical = false, "another error");
    tracing::error!(critical = true, "the end");
}
