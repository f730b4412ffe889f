//! What the project does, in one command.

use crate::process::{cargo, command, run as execute};
use crate::{Result, plugins};
use std::path::Path;

/// Builds the command and the plugins in release mode, lists the devices, and trains LeNet-5 on the device that `options` name.
pub(crate) fn run(root: &Path, options: &[String]) -> Result<()> {
    let packages = ["--package", "thalweg-cli", "--package", "thalweg-nn"];
    let mut build = cargo(root, &["build", "--release"]);
    execute(build.args(packages).args(["--bins", "--example", "digits"]))?;
    plugins::place(root, true)?;
    let folder = plugins::profile(root, true);
    execute(&mut command(root, folder.join("thalweg"), &["devices"]))?;
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    execute(&mut command(root, folder.join("examples/digits"), &options))
}
