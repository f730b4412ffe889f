//! `thalweg conform`: the conformance kit, run so that a backend that takes its process down costs one case.

mod crew;
mod worker;

use crate::Outcome;
use crate::args::{Conform, is_path};
use serde::Serialize;
use std::error::Error;
use std::io::{IsTerminal, Write};
use std::path::Path;
use thalweg::hal::Target;
use thalweg::loader::{Backend, Registry};
use thalweg_conformance::kit::matches;
use thalweg_conformance::{Case, Ignores, Report, Row, cases};

/// The JSON form: the kit's report and its verdict.
#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    conformant: bool,
    #[serde(flatten)]
    report: &'a Report,
}

pub(crate) fn run(args: &Conform, out: &mut dyn Write) -> Outcome {
    let cases = chosen(args)?;
    if args.list {
        return list(&cases, args.json, out);
    }
    if args.work {
        return worker::run(args, cases, out);
    }
    let mut progress = Progress::new(cases.len());
    let report =
        crew::run(args, &cases, |row| progress.show(row)).map_err(|error| error as Box<dyn Error>)?;
    progress.end();
    if args.json {
        let document = Document {
            schema: 1,
            conformant: report.is_conformant(),
            report: &report,
        };
        serde_json::to_writer_pretty(&mut *out, &document)?;
        writeln!(out)?;
    } else {
        for line in report.to_string().lines() {
            writeln!(out, "{}", crate::text::line(line))?;
        }
    }
    Ok(report.is_conformant())
}

/// The cases that the filter leaves.
fn chosen(args: &Conform) -> Result<Vec<Case>, Box<dyn Error>> {
    let mut cases = cases();
    if let Some(pattern) = &args.filter {
        cases.retain(|case| matches(pattern, &case.path()));
        if cases.is_empty() {
            return Err(format!(
                "no case fits {pattern:?}; `thalweg conform --list` lists all, and `*` stands for any text"
            )
            .into());
        }
    }
    Ok(cases)
}

fn list(cases: &[Case], json: bool, out: &mut dyn Write) -> Outcome {
    let paths: Vec<String> = cases.iter().map(Case::path).collect();
    if json {
        serde_json::to_writer_pretty(&mut *out, &paths)?;
        writeln!(out)?;
    } else {
        for path in paths {
            writeln!(out, "{path}")?;
        }
    }
    Ok(true)
}

/// The exceptions of the file that is named, then those of this project's own backends.
fn ignores(args: &Conform, backend: &str) -> Result<Ignores, Box<dyn Error>> {
    let known = Ignores::known(backend);
    let Some(path) = &args.ignore else {
        return Ok(known);
    };
    let place = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {place}: {error}"))?;
    let mut ignores: Ignores = text.parse().map_err(|error| format!("{place}: {error}"))?;
    ignores.list.extend(known.list);
    Ok(ignores)
}

/// Loads what is to be judged.
fn load(args: &Conform) -> Result<&'static Backend, Box<dyn Error>> {
    let subject = args.subject.as_deref().unwrap_or_default();
    let options = args.search.options()?;
    if is_path(subject) {
        return Registry::load_file(Path::new(subject), &options)
            .map_err(|error| format!("{subject} cannot be used: {error}").into());
    }
    target(&Registry::new(options), subject)
}

fn target(registry: &Registry, text: &str) -> Result<&'static Backend, Box<dyn Error>> {
    let Target::Device { backend, id } = Target::parse(text)? else {
        return Err("`auto` names no backend to judge; name one, such as `cpu`, or a plugin's file".into());
    };
    let found = registry.get(&backend)?;
    match (id, found.device_count()?) {
        (None | Some(0), _) => Ok(found),
        (Some(id), count) if (0..i64::from(count)).contains(&id) => {
            Err(format!("cases run on device 0 of a backend; ask for {backend} instead of {text}").into())
        }
        (Some(id), count) => Err(thalweg::Error::NoSuchDevice {
            target: backend,
            id,
            count,
            found: registry.targets(),
        }
        .into()),
    }
}

/// A line that counts on a terminal, and nothing elsewhere.
struct Progress {
    done: usize,
    failed: usize,
    all: usize,
    visible: bool,
}

impl Progress {
    fn new(all: usize) -> Progress {
        Progress {
            done: 0,
            failed: 0,
            all,
            visible: std::io::stderr().is_terminal(),
        }
    }

    fn show(&mut self, row: &Row) {
        self.done += 1;
        self.failed += usize::from(matches!(row.outcome, thalweg_conformance::Outcome::Failed(_)));
        if self.visible {
            let Progress {
                done, failed, all, ..
            } = self;
            eprint!("\r\x1b[K{done} of {all} cases, {failed} failed: {}", row.group);
        }
    }

    fn end(&self) {
        if self.visible {
            eprint!("\r\x1b[K");
        }
    }
}
