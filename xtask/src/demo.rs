//! What the project can do today, in one command.

use crate::process::{cargo, command, run as execute};
use crate::{Result, plugins};
use std::path::Path;

/// Builds the command and the plugins in release mode, lists the devices and runs the energy example.
pub(crate) fn run(root: &Path) -> Result<()> {
    execute(&mut cargo(
        root,
        &["build", "--release", "--package", "thalweg-cli"],
    ))?;
    plugins::place(root, true)?;
    let thalweg = plugins::profile(root, true).join("thalweg");
    execute(&mut command(root, thalweg, &["devices"]))?;
    execute(&mut cargo(
        root,
        &["run", "--release", "--package", "thalweg", "--example", "energy"],
    ))
}
