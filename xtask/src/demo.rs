//! What the project does, in one command.

use crate::process::{capture, cargo, command, run as execute};
use crate::{Result, plugins};
use std::fs;
use std::path::Path;

/// Builds the command and the plugins in release mode, lists the devices, and trains LeNet-5 on the device that `options` name;
/// with `compare`, once on the embedded CPU backend and once on the same code as a plugin, whose checkpoints must be the same bytes.
pub(crate) fn run(root: &Path, compare: bool, options: &[String]) -> Result<()> {
    // One call for all of it: a second one would build shared crates again, with other features of their dependencies.
    let mut build = cargo(
        root,
        &["build", "--release", "--lib", "--bins", "--example", "digits"],
    );
    for package in ["thalweg-cli", "thalweg-nn"].iter().chain(&plugins::PACKAGES) {
        build.args(["--package", package]);
    }
    execute(&mut build)?;
    let plugins = plugins::copy(root, true)?;
    let folder = plugins::profile(root, true);
    execute(&mut command(root, folder.join("thalweg"), &["devices"]))?;
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let train = || command(root, folder.join("examples/digits"), &options);
    if !compare {
        return execute(&mut train());
    }
    // A backend that cannot be used is passed over, so what each run trained on is read from what it says.
    let train_on = |name: &str, backends: &Path, used: &str| -> Result<Vec<u8>> {
        let out = folder.join("demo").join(name);
        let mut train = train();
        train.args(["--device-target", "cpu", "--out"]).arg(&out);
        let text = capture(train.env("THALWEG_BACKEND_PATH", backends))?;
        if !text.contains(&format!("backend: {used}")) {
            return Err(format!("the run did not use the backend {used}").into());
        }
        Ok(fs::read(out.join("lenet5.safetensors"))?)
    };
    let plugin = plugins.join("libthalweg_cpu.so").display().to_string();
    let embedded = train_on("embedded", &folder.join("demo/none"), "embedded")?;
    if embedded != train_on("plugin", &plugins, &plugin)? {
        return Err("the embedded backend and the plugin trained to different bits".into());
    }
    println!(
        "\nthe embedded backend and the plugin trained to the same {} bytes",
        embedded.len()
    );
    Ok(())
}
