//! `thalweg reduce`.
//!
//! A candidate is a smaller capture for which the command still ends with 0. Runs of programs become packets first, and fresh memory
//! gets stand-in values. So any packet can go: what it wrote is then a value like any other, and a packet that is wrong stands alone
//! after a few candidates.

mod clean;
mod kernels;
mod search;
mod shrink;
mod trial;
mod units;

use crate::Outcome;
use crate::args::Reduce;
use crate::replay::open;
use crate::text::{count, line};
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;
use thalweg_layers::captured::{self, Call, File};
use thalweg_layers::replay::flatten;
use trial::Trial;

/// Seed of what fresh memory holds.
const FRESH: u64 = 1;

pub(crate) fn run(args: &Reduce, out: &mut dyn Write) -> Outcome {
    let begun = Instant::now();
    let file = open(&args.file)?;
    let path = args.out.clone().unwrap_or_else(|| beside(args));
    let mut trial = Trial::new(&args.command, &path, args.seconds);
    let before = nodes(&file)?;
    if !trial.holds_for(&args.file)? {
        return Err(format!(
            "the command does not end with 0 for {} itself; write one that ends with 0 as long as something is wrong",
            args.file.display()
        )
        .into());
    }
    let mut best = start(file, &mut trial)?;
    best = search::packets(best, &mut trial)?;
    best = shrink::order(best, &mut trial)?;
    best = shrink::contents(best, &mut trial)?;
    best = shrink::extents(best, &mut trial)?;
    best = kernels::simpler(best, &mut trial)?;
    best = search::packets(best, &mut trial)?;
    captured::write_file(&best, &path)?;
    writeln!(
        out,
        "{} reduced to {} in {:.1} s by {}; wrote {}",
        count(before, "packet"),
        nodes(&best)?,
        begun.elapsed().as_secs_f64(),
        count(trial.runs(), "run"),
        line(&path.display().to_string())
    )?;
    Ok(true)
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
