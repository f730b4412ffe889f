//! The way of one candidate from its file to its devices.

use crate::devices::{description, memory};
use crate::found::Survey;
use crate::text::{self, line};
use std::io::{self, Write};
use std::path::Path;
use thalweg::loader::{Candidate, Examined, Outcome};

/// Writes the candidate's steps and adds what came of it to the survey.
pub(super) fn write(examined: &Examined, survey: &mut Survey, out: &mut dyn Write) -> io::Result<()> {
    let Candidate {
        target,
        path,
        outcome,
        detail,
    } = &examined.candidate;
    let place = path
        .as_ref()
        .map_or_else(|| "embedded".into(), |path| path.display().to_string());
    writeln!(out, "  {}  {}", line(target), line(&place))?;
    for step in &examined.steps {
        match &step.found {
            Some(found) => writeln!(out, "    {:<8}  ok      {}", step.stage, line(found))?,
            None => writeln!(out, "    {:<8}  FAILED  {}", step.stage, failure(examined))?,
        }
    }
    for more in detail {
        writeln!(out, "{INDENT}{}", line(more))?;
    }
    let (devices, unusable) = (survey.devices.len(), survey.unusable.len());
    survey.add(examined);
    let found = &survey.devices[devices..];
    // A device that cannot be used, of a backend that is sound itself.
    let others: Vec<_> = survey.unusable[unusable..]
        .iter()
        .filter(|row| row.target != *target)
        .collect();
    let names = found
        .iter()
        .map(|found| &found.target)
        .chain(others.iter().map(|row| &row.target));
    let width = names
        .map(|name| line(name).chars().count())
        .max()
        .unwrap_or(0)
        .max(8);
    for found in found {
        let target = line(&found.target);
        writeln!(
            out,
            "    {target:width$}  usable  {}, {}",
            line(&description(found)),
            memory(found)
        )?;
    }
    for row in others {
        writeln!(
            out,
            "    {:width$}  FAILED  {}",
            line(&row.target),
            reason(&row.outcome)
        )?;
    }
    if let Outcome::Shadowed { .. } = outcome {
        writeln!(out, "    {}", line(&outcome.to_string()))?;
    }
    match (&examined.error, outcome) {
        (Some(error), _) => {
            for cause in text::causes(error) {
                writeln!(out, "    cause: {}", line(&cause))?;
            }
            writeln!(
                out,
                "    hint: {}",
                line(&error.hint(path.as_deref().unwrap_or(Path::new(""))))
            )
        }
        (None, Outcome::NotAvailable { .. }) => {
            writeln!(
                out,
                "    hint: the backend itself is sound; `thalweg -v devices` prints what its driver says"
            )
        }
        (None, _) => Ok(()),
    }
}

/// Why the last step failed.
fn failure(examined: &Examined) -> String {
    match &examined.error {
        Some(error) => text::lines(&error.to_string(), INDENT),
        None => reason(&examined.candidate.outcome),
    }
}

/// Where the texts of the steps begin.
const INDENT: &str = "                      ";

fn reason(outcome: &Outcome) -> String {
    match outcome {
        Outcome::NotAvailable { reason } | Outcome::Refused { reason } => text::lines(reason, INDENT),
        other => line(&other.to_string()),
    }
}
