//! `thalweg trace`.

use crate::Outcome;
use crate::args::Trace;
use crate::text::line;
use std::io::Write;
use std::path::{Path, PathBuf};
use thalweg_observe::repair::{self, Repair};
use thalweg_observe::{Error, Report, derive, find};

pub(crate) fn run(args: &Trace, out: &mut dyn Write) -> Outcome {
    if args.repair {
        for path in &args.from {
            for repair in repair::repair(path)? {
                writeln!(out, "{}", line(&said(&repair)))?;
            }
        }
    }
    let mut recordings: Vec<PathBuf> = Vec::new();
    for path in &args.from {
        match find::recordings(path) {
            Ok(found) => recordings.extend(found.into_iter().filter(|_| !is_timeline(path))),
            // A timeline alone was repaired.
            Err(Error::NoRecording { .. }) if args.repair => {}
            Err(error) => return Err(error.into()),
        }
    }
    recordings.dedup();
    if recordings.is_empty() && args.repair {
        return Ok(true);
    }
    let first = args
        .from
        .first()
        .map_or(Path::new("."), |path| find::folder(path));
    let folder = args.out.as_deref().unwrap_or(first);
    let summary = derive(&recordings, Some(folder))?;
    write!(out, "{}", Report::new(&summary, args.sort(), args.top))?;
    let trace = folder.join("trace.json");
    writeln!(
        out,
        "wrote {} for ui.perfetto.dev, and tables beside it",
        line(&trace.display().to_string())
    )?;
    Ok(true)
}

fn is_timeline(path: &Path) -> bool {
    path.is_file() && path.extension().is_some_and(|kind| kind == "json")
}

fn said(repair: &Repair) -> String {
    match repair {
        Repair::Whole { path } => format!("{} is whole", path.display()),
        Repair::Cut { path, kept, lost } => {
            format!(
                "{}: {kept} bytes are whole, {lost} behind them are cut off",
                path.display()
            )
        }
    }
}
