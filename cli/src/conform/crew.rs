//! Runs workers until every case has a row. A worker that dies costs the case that it was in; the next one goes on behind it.

use super::worker::{MARK, Message};
use crate::args::Conform;
use crate::{ended, text};
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};
use thalweg::loader::ABI;
use thalweg_conformance::{Outcome, Report, Row};

/// Deaths in a row after which the rest is not tried any more.
const MOST_DEATHS: usize = 20;

pub(super) fn run(
    args: &Conform,
    cases: &[String],
    mut seen: impl FnMut(&Row),
) -> Result<Report, Box<dyn Error>> {
    let subject = args.subject.clone().unwrap_or_default();
    let mut report = Report {
        subject,
        contract: ABI.to_string(),
        rows: Vec::new(),
        latency: None,
    };
    let mut deaths = 0;
    loop {
        let before = report.rows.len();
        let (complete, status) = shift(args, &mut report, &mut seen)?;
        if complete {
            return Ok(report);
        }
        deaths = if report.rows.len() > before { 1 } else { deaths + 1 };
        let Some(case) = cases.get(report.rows.len()) else {
            // It died while latencies were measured, when every case had its row.
            return Ok(report);
        };
        let row = failed(case, format!("the process {} in this case", ended::text(status)));
        seen(&row);
        report.rows.push(row);
        if deaths == MOST_DEATHS {
            let rest = cases.get(report.rows.len()..).unwrap_or_default();
            let reason = format!("not run: the process died in {MOST_DEATHS} cases in a row");
            report
                .rows
                .extend(rest.iter().map(|case| failed(case, reason.clone())));
            return Ok(report);
        }
    }
}

/// One worker's life. Whether it came to its end, and how it went.
fn shift(
    args: &Conform,
    report: &mut Report,
    seen: &mut impl FnMut(&Row),
) -> Result<(bool, ExitStatus), Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("conform")
        .arg(args.subject.as_deref().unwrap_or_default());
    command
        .arg("--work")
        .arg(report.rows.len().to_string())
        .args(args.search.to_args());
    for (flag, value) in [
        ("--filter", args.filter.as_ref().map(AsRef::as_ref)),
        ("--ignore", args.ignore.as_deref().map(AsRef::as_ref)),
    ] {
        let value: Option<&std::ffi::OsStr> = value;
        command.args(value.into_iter().flat_map(|value| [flag.as_ref(), value]));
    }
    if tracing::enabled!(tracing::Level::DEBUG) {
        command.arg("-v");
    }
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let (mut loaded, mut complete, mut error) = (false, false, None);
    let output = child.stdout.take().map(BufReader::new);
    for line in output.into_iter().flat_map(|output| output.split(b'\n')) {
        let line = String::from_utf8_lossy(&line?).into_owned();
        match line
            .strip_prefix(MARK)
            .and_then(|json| serde_json::from_str(json).ok())
        {
            Some(Message::Loaded { subject, contract }) => {
                loaded = true;
                (report.subject, report.contract) = (subject, contract);
            }
            Some(Message::Row(row)) => {
                seen(&row);
                report.rows.push(row);
            }
            Some(Message::Latency(latency)) => {
                complete = true;
                report.latency = latency;
            }
            Some(Message::Error(text)) => error = Some(text),
            None if line.is_empty() => {}
            None => eprintln!("{}", text::line(&line)),
        }
    }
    let status = child.wait()?;
    match error {
        Some(error) => Err(error.into()),
        None if !loaded => Err(format!(
            "the process {} while the backend was loaded; `thalweg -v conform` shows at which step",
            ended::text(status)
        )
        .into()),
        None => Ok((complete, status)),
    }
}

fn failed(case: &str, reason: String) -> Row {
    let (group, name) = case.split_once('/').unwrap_or(("", case));
    Row {
        group: group.into(),
        name: name.into(),
        outcome: Outcome::Failed(reason),
        milliseconds: 0,
    }
}
