//! Runs a command in a child process, so that a backend that takes it down is named.

use crate::{Outcome, ended, text};
use std::error::Error;
use std::process::{Command, Stdio};
use thalweg::loader::Stage;

/// The flag that tells the child that it is one.
pub(crate) const FLAG: &str = "--guarded";

/// Runs this very command again as a child.
///
/// # Errors
/// When a backend took the child down: which, and at what step.
pub(crate) fn run() -> Outcome {
    let status = again(&[])?.status()?;
    match ended::fault(status) {
        None => Ok(status.success()),
        Some(signal) => Err(culprit(signal)?.into()),
    }
}

fn again(more: &[&str]) -> Result<Command, Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1)).arg(FLAG).args(more);
    Ok(command)
}

/// Lets it happen once more: the last step that the loader began is the one that does it.
fn culprit(signal: &str) -> Result<String, Box<dyn Error>> {
    let output = again(&["--verbose"])?
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let step = said.lines().rev().find_map(|line| line.split_once(" stage="));
    let step = step.filter(|_| ended::fault(output.status).is_some());
    let Some((_, step)) = step else {
        return Ok(format!("this command died of {signal}, once; call it again"));
    };
    let (stage, path) = step
        .split_once(" path=")
        .unwrap_or((step, "the embedded backend"));
    let when = if stage == Stage::Devices.to_string() {
        "when it was asked for its devices".into()
    } else {
        format!("at the step `{stage}`")
    };
    Ok(format!(
        "{} takes the process down with {signal} {when}; remove it and tell its author",
        text::line(path)
    ))
}
