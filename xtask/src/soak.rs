//! Work of all kinds for a long time: the program `soak` of the benches.

use crate::process::{cargo, command, run as execute};
use crate::{Result, plugins};
use std::path::Path;

/// Builds the program and the reference in release mode, and lets it work.
///
/// # Errors
/// The build failed; a result or a figure was wrong; memory grew.
pub(crate) fn run(root: &Path, minutes: u64, seed: u32) -> Result<()> {
    let packages = ["--package", "thalweg-benches", "--package", "thalweg-reference"];
    let mut build = cargo(root, &["build", "--release"]);
    execute(build.args(packages).args(["--bin", "soak", "--lib"]))?;
    work(root, true, ("--minutes", minutes), seed)
}

/// Some seconds with what the tests have built.
///
/// # Errors
/// As of [`run`].
pub(crate) fn short(root: &Path) -> Result<()> {
    plugins::build(root)?;
    work(root, false, ("--seconds", 20), 1)
}

fn work(root: &Path, release: bool, (unit, time): (&str, u64), seed: u32) -> Result<()> {
    let program = plugins::profile(root, release).join("soak");
    let (time, seed) = (time.to_string(), seed.to_string());
    execute(&mut command(root, program, &[unit, &time, "--seed", &seed]))
}
