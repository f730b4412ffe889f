//! `thalweg reduce`.
//!
//! Of a capture:
//! A candidate is a smaller capture for which the command still ends with 0. Runs of programs become packets first, and fresh memory
//! gets stand-in values. So any packet can go: what it wrote is then a value like any other, and a packet that is wrong stands alone
//! after a few candidates.

mod clean;
mod extents;
mod graph;
mod kernels;
mod search;
mod shrink;
mod trial;
mod units;

use crate::Outcome;
use crate::args::Reduce;
use crate::replay::{Opened, open};
use crate::text::{count, line};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;
use thalweg_layers::captured::{self, Call, File};
use thalweg_layers::replay::flatten;
use trial::Trial;

/// Seed of what fresh memory holds.
const FRESH: u64 = 1;

pub(crate) fn run(args: &Reduce, out: &mut dyn Write) -> Outcome {
    let begun = Instant::now();
    let opened = open(&args.file)?;
    let path = args.out.clone().unwrap_or_else(|| beside(args));
    let mut trial = Trial::new(&args.command, &path, args.seconds);
    trial.begins_with(&args.file)?;
    let (before, after) = match opened {
        Opened::Capture(file) => capture(*file, &path, &mut trial)?,
        Opened::Graph(graph) => graph::reduce(graph, &path, &mut trial)?,
    };
    writeln!(
        out,
        "{before} reduced to {after} in {:.1} s by {}; wrote {}",
        begun.elapsed().as_secs_f64(),
        count(trial.runs(), "run"),
        line(&path.display().to_string())
    )?;
    Ok(true)
}

/// How many packets there were, and how many are left.
fn capture(
    file: File,
    path: &Path,
    trial: &mut Trial<'_>,
) -> Result<(String, usize), Box<dyn std::error::Error>> {
    let before = nodes(&file)?;
    let mut best = start(file, trial)?;
    best = units::fewest(best, trial)?;
    best = shrink::order(best, trial)?;
    best = shrink::contents(best, trial)?;
    best = shrink::extents(best, trial)?;
    best = kernels::simpler(best, trial)?;
    best = units::fewest(best, trial)?;
    captured::write_file(&best, path)?;
    Ok((count(before, "packet"), nodes(&best)?))
}

fn beside(args: &Reduce) -> PathBuf {
    let mut path = OsString::from(&args.file);
    path.push(".reduced");
    path.into()
}

/// Packets that the devices are given.
fn nodes(file: &File) -> Result<usize, Box<dyn std::error::Error>> {
    let flat = flatten(file)?;
    Ok(flat
        .records
        .iter()
        .filter(|record| matches!(record.call, Call::Submit(_)))
        .count())
}

/// Without programs if that still is wrong, and without what was read back, which other work does not bring.
fn start(mut file: File, trial: &mut Trial) -> Result<File, Box<dyn std::error::Error>> {
    file.records
        .retain(|record| !matches!(record.call, Call::Result(_)));
    file.cut = None;
    file.start.fresh = FRESH;
    let flat = flatten(&file)?;
    if trial.holds(&flat)? {
        return Ok(flat);
    }
    if trial.holds(&file)? {
        return Ok(file);
    }
    // Without stand-in values the file is the one that was given.
    file.start.fresh = 0;
    Ok(file)
}
