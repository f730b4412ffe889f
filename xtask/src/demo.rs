//! What the project can do today, in one command.

use crate::process::{cargo, command, run as execute};
use crate::{Result, plugins};
use std::path::Path;

/// Builds the command and the plugins in release mode, lists the devices and runs the energy example.
pub(crate) fn run(root: &Path) -> Result<()> {
    let packages = ["--package", "thalweg-cli", "--package", "thalweg"];
    let mut build = cargo(root, &["build", "--release"]);
    execute(build.args(packages).args(["--bins", "--example", "energy"]))?;
    plugins::place(root, true)?;
    let folder = plugins::profile(root, true);
    execute(&mut command(root, folder.join("thalweg"), &["devices"]))?;
    execute(&mut command(root, folder.join("examples/energy"), &[]))
}
