//! `thalweg doctor`: everything that decides which devices there are.

mod chain;
mod known;
mod machine;

use crate::Outcome;
use crate::args::Search;
use crate::found::Survey;
use crate::text::{columns, count, line};
use std::io::Write;
use std::path::Path;
use thalweg::loader::discover::{Fate, Origin, PATH_VARIABLE, Place, target_of};
use thalweg::loader::{ABI, LoaderOptions, Registry};

pub(crate) fn run(args: &Search, out: &mut dyn Write) -> Outcome {
    let options = LoaderOptions {
        retry: true,
        ..args.options()?
    };
    let (version, system) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS);
    writeln!(
        out,
        "thalweg {version} (thalweg-hal {ABI}, {system} on {})",
        std::env::consts::ARCH
    )?;
    section(out, "machine", &machine::machine())?;
    section(
        out,
        "environment",
        &machine::environment(options.cache.as_deref()),
    )?;

    let registry = Registry::new(options);
    writeln!(out, "\nbackend folders, in the order of the search")?;
    folders(registry.places(), out)?;
    writeln!(out, "\ncandidates, in the order of precedence")?;
    // What is written so far helps even where a backend takes the process down.
    out.flush()?;
    let mut survey = Survey::default();
    let mut absent = Vec::new();
    for examined in registry.examine() {
        let candidate = &examined.candidate;
        if examined.steps.is_empty() {
            // Refused folders are listed above.
            if candidate.path.is_none() {
                absent.push([candidate.target.clone(), candidate.outcome.to_string()]);
                survey.add(&examined);
            }
            continue;
        }
        chain::write(&examined, &mut survey, out)?;
        out.flush()?;
    }
    if !absent.is_empty() {
        section(out, "absent", &absent)?;
        writeln!(
            out,
            "  hint: `thalweg plugins install FILE` installs a backend; a folder of backends can be named in {PATH_VARIABLE}"
        )?;
    }
    summary(&survey, out)?;
    Ok(!survey.devices.is_empty())
}

fn section(out: &mut dyn Write, title: &str, rows: &[[String; 2]]) -> std::io::Result<()> {
    writeln!(out, "\n{title}")?;
    let rows: Vec<_> = rows
        .iter()
        .map(|row| row.each_ref().map(|cell| line(cell)))
        .collect();
    for row in columns(&rows) {
        writeln!(out, "  {row}")?;
    }
    Ok(())
}

/// A row for each place where backends are looked for.
pub(crate) fn folders(places: &[Place], out: &mut dyn Write) -> std::io::Result<()> {
    let rows: Vec<_> = places.iter().map(row).collect();
    for (row, place) in columns(&rows).iter().zip(places) {
        writeln!(out, "  {row}")?;
        let hint = match &place.fate {
            Fate::Refused { .. } if !place.path.is_absolute() => continue,
            Fate::Refused { .. } if !place.path.exists() => "make it, or take it out of the list",
            Fate::Refused { .. } => "only you and root may be able to write there and in the folders above",
            Fate::Searched | Fate::Again | Fate::Missing => continue,
        };
        writeln!(out, "    hint: {hint}")?;
    }
    Ok(())
}

fn row(place: &Place) -> [String; 3] {
    let origin = match place.origin {
        Origin::Option => "--backend-path",
        Origin::Environment => PATH_VARIABLE,
        Origin::BesideExecutable => "beside the program",
        Origin::Library => "installation",
        Origin::Development => "build folder",
        Origin::User => "this user's",
    };
    let fate = match &place.fate {
        Fate::Searched => count(plugins_in(&place.path), "backend file"),
        Fate::Again => "named before".into(),
        Fate::Missing => "missing".into(),
        Fate::Refused { reason } => format!("refused: {reason}"),
    };
    [
        line(&place.path.display().to_string()),
        origin.into(),
        line(&fate),
    ]
}

fn plugins_in(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    names
        .filter(|entry| {
            entry
                .file_name()
                .to_str()
                .is_some_and(|name| target_of(name).is_some())
        })
        .count()
}

fn summary(survey: &Survey, out: &mut dyn Write) -> std::io::Result<()> {
    let devices: Vec<&str> = survey.devices.iter().map(|found| found.target.as_str()).collect();
    let broken: Vec<&str> = survey
        .unusable
        .iter()
        .filter(|row| row.is_broken())
        .map(|row| row.target.as_str())
        .collect();
    match devices.len() {
        0 => writeln!(out, "\nno device can be used")?,
        number => writeln!(
            out,
            "\n{} can be used: {}",
            count(number, "device"),
            line(&devices.join(", "))
        )?,
    }
    match broken.len() {
        0 => Ok(()),
        number => writeln!(
            out,
            "{} cannot: {}",
            count(number, "candidate"),
            line(&broken.join(", "))
        ),
    }
}
