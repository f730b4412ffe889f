//! The kit that checks a machine: programs, plugins and data, prebuilt, so that it needs no toolchain and no registry.

use crate::process::{cargo, command, exists, run as execute, shown};
use crate::{Result, plugins, target};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Most bytes of the kit, packed.
const CEILING: u64 = 64 << 20;
/// Programs by the names of their targets.
const PROGRAMS: [&str; 6] = ["thalweg", "check", "device", "digits", "ops", "acceptance"];
const PACKAGES: [&str; 8] = [
    "thalweg-cli",
    "thalweg-benches",
    "thalweg-nn",
    "thalweg-conformance",
    "thalweg-reference",
    "thalweg-cpu",
    "thalweg-opencl",
    "thalweg-cuda",
];

/// What is no program, beside the script.
const FILES: [&str; 3] = [
    "xtask/gpu-kit/run.sh",
    "xtask/gpu-kit/compare.py",
    "benches/peers/networks.py",
];

/// Builds the kit into `gpu-kit/` of the build folder and packs it beside.
pub(crate) fn run(root: &Path) -> Result<()> {
    if !exists("strip") {
        return Err("`strip` is missing; on Debian: apt-get install binutils".into());
    }
    let programs = build(root)?;
    let folder = target(root).join("gpu-kit");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let backends = folder.join("bin/backends");
    fs::create_dir_all(&backends)?;
    for (name, file) in &programs {
        strip(root, file, &folder.join("bin").join(name))?;
    }
    for file in plugins::files_of(&plugins::profile(root, true), &plugins::PACKAGES) {
        strip(root, &file, &backends.join(plugins::name(&file)))?;
    }
    let data = folder.join("data/ops/cases");
    fs::create_dir_all(&data)?;
    for entry in fs::read_dir(root.join("tests/data/ops/cases"))? {
        let entry = entry?;
        fs::copy(entry.path(), data.join(entry.file_name()))?;
    }
    for file in FILES {
        let from = root.join(file);
        fs::copy(&from, folder.join(from.file_name().unwrap_or_default()))?;
    }
    for inner in ["", "bin", "bin/backends"] {
        // Plugins are not loaded from places that others may write.
        fs::set_permissions(folder.join(inner), fs::Permissions::from_mode(0o755))?;
    }
    let archive = folder.with_extension("tar.gz");
    let (shown, parent) = (archive.display().to_string(), target(root).display().to_string());
    execute(&mut command(
        root,
        "tar",
        &["-czf", &shown, "-C", &parent, "gpu-kit"],
    ))?;
    let packed = within(fs::metadata(&archive)?.len())?;
    println!(
        "{} ({packed:.1} MiB); on the machine: tar xzf gpu-kit.tar.gz && gpu-kit/run.sh",
        archive.display()
    );
    Ok(())
}

/// Builds everything in one call and returns the programs with their files.
fn build(root: &Path) -> Result<Vec<(&'static str, PathBuf)>> {
    let mut build = cargo(
        root,
        &["build", "--release", "--message-format=json-render-diagnostics"],
    );
    for package in PACKAGES {
        build.args(["--package", package]);
    }
    build.args([
        "--lib",
        "--bins",
        "--example",
        "digits",
        "--test",
        "ops",
        "--test",
        "acceptance",
    ]);
    println!("$ {}", shown(&build));
    let output = build.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err("the kit's programs do not build".into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let artifacts: Vec<Value> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let file = |name: &'static str| {
        let made = artifacts
            .iter()
            .find(|row| row["target"]["name"] == name && row["executable"].is_string());
        let file = made.and_then(|row| row["executable"].as_str()).map(PathBuf::from);
        file.map(|file| (name, file))
            .ok_or_else(|| format!("cargo built no program `{name}`").into())
    };
    PROGRAMS.into_iter().map(file).collect()
}

fn strip(root: &Path, from: &Path, to: &Path) -> Result<()> {
    let (from, shown) = (from.display().to_string(), to.display().to_string());
    execute(&mut command(
        root,
        "strip",
        &["--strip-unneeded", "-o", &shown, &from],
    ))?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// A kit's size in MiB, unless it is too large.
fn within(bytes: u64) -> Result<f64> {
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    if bytes > CEILING {
        let most = CEILING >> 20;
        return Err(format!("the kit has {mebibytes:.1} MiB; at most {most} are allowed").into());
    }
    Ok(mebibytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_kit_that_is_too_large_is_refused() {
        assert_eq!(within(CEILING).unwrap(), 64.0);
        let error = within(CEILING + 1).unwrap_err().to_string();
        assert_eq!(error, "the kit has 64.0 MiB; at most 64 are allowed");
    }
}
