//! `thalweg devices`.

mod json;

use crate::Outcome;
use crate::args::Devices;
use crate::found::{Found, Survey, Unusable};
use crate::text::{self, columns, first_line, line};
use std::io::Write;
use thalweg::hal::Kind;
use thalweg::loader::{Candidate, Registry};

pub(crate) fn run(args: &Devices, out: &mut dyn Write) -> Outcome {
    let registry = Registry::new(args.search.options()?);
    let survey = Survey::of(registry.examine());
    if args.json {
        json::write(&survey, out)?;
    } else {
        write(&survey, out)?;
    }
    Ok(!survey.devices.is_empty())
}

fn write(survey: &Survey, out: &mut dyn Write) -> std::io::Result<()> {
    let mut rows = vec![["target", "device", "memory", "backend"].map(String::from)];
    rows.extend(survey.devices.iter().map(row));
    let targets = rows
        .iter()
        .map(|row| &row[0])
        .chain(survey.unusable.iter().map(|row| &row.target));
    let width = targets
        .map(|target| line(shown(target)).chars().count())
        .max()
        .unwrap_or(0);
    // The rows about what cannot be used share the first column only.
    for row in &mut rows {
        row[0] = format!("{:width$}", row[0]);
    }
    if survey.devices.is_empty() {
        rows.clear();
    }
    for row in columns(&rows) {
        writeln!(out, "{row}")?;
    }
    for Unusable {
        target,
        path,
        outcome,
    } in &survey.unusable
    {
        writeln!(
            out,
            "{:width$}  {}",
            line(shown(target)),
            first_line(&outcome.to_string())
        )?;
        let place = path.as_ref().map(|path| line(&path.display().to_string()));
        // The reason for refusing a folder names it.
        if let Some(place) = place.filter(|_| target != Candidate::FOLDER) {
            writeln!(out, "{:width$}  {place}", "")?;
        }
    }
    let broken = survey.unusable.iter().any(Unusable::is_broken);
    match (survey.devices.is_empty(), broken) {
        (true, _) => writeln!(
            out,
            "no device can be used; `thalweg doctor` says where was looked and what is missing"
        ),
        (false, true) => writeln!(out, "`thalweg doctor` says more about what cannot be used"),
        (false, false) => Ok(()),
    }
}

fn row(found: &Found) -> [String; 4] {
    [
        found.target.clone(),
        line(&description(found)),
        memory(found),
        line(&chain(found)),
    ]
}

/// The layers, the one nearest to the program first, and the backend with its version: `validate > embedded 1.0.0`.
fn chain(found: &Found) -> String {
    let own = format!("{} {}", place(found), found.backend.version());
    let layers = found.backend.layers().iter().map(String::as_str);
    layers.chain([own.as_str()]).collect::<Vec<_>>().join(" > ")
}

/// `embedded`, or the plugin's file name.
pub(crate) fn place(found: &Found) -> String {
    let path = found.backend.path();
    let name = path.and_then(|path| path.file_name());
    name.map_or_else(|| "embedded".into(), |name| name.to_string_lossy().into_owned())
}

/// What the device is: `AMD EPYC, 2 cores, avx512`.
pub(crate) fn description(found: &Found) -> String {
    let properties = &found.properties;
    let mut parts = vec![properties.name.clone()];
    let unit = match properties.kind {
        Kind::Cpu => "core",
        Kind::Gpu | Kind::Accelerator => "compute unit",
    };
    match properties.compute_units {
        0 => {}
        units => parts.push(text::count(units as usize, unit)),
    }
    parts.extend(Some(properties.arch.clone()).filter(|arch| !arch.is_empty()));
    parts.join(", ")
}

/// `24.0 GiB, 23.1 free`; less where less is known.
pub(crate) fn memory(found: &Found) -> String {
    match (found.memory, found.properties.total_memory) {
        (Some(memory), _) => {
            let (total, free) = (text::bytes(memory.total), text::part(memory.free, memory.total));
            format!("{total}, {free} free")
        }
        (None, 0) => "unknown".into(),
        (None, total) => text::bytes(total),
    }
}

/// How a target is shown: a folder is not one.
pub(crate) fn shown(target: &str) -> &str {
    if target == Candidate::FOLDER {
        "folder"
    } else {
        target
    }
}
