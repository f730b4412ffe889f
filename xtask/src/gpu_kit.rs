//! The kit that checks a machine: programs, plugins and data, prebuilt, so that it needs no toolchain and no registry.

use crate::process::{cargo, command, exists, run as execute, shown};
use crate::{Result, plugins, target};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Most bytes of the kit, unpacked.
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
    for file in plugins::files_of(&plugins::profile(root, true)) {
        strip(root, &file, &backends.join(plugins::name(&file)))?;
    }
    let data = folder.join("data/ops/cases");
    fs::create_dir_all(&data)?;
    for entry in fs::read_dir(root.join("tests/data/ops/cases"))? {
        let entry = entry?;
        fs::copy(entry.path(), data.join(entry.file_name()))?;
    }
    for file in ["run.sh", "compare.py"] {
        fs::copy(root.join("xtask/gpu-kit").join(file), folder.join(file))?;
    }
    for inner in ["", "bin", "bin/backends"] {
        // Plugins are not loaded from places that others may write.
        fs::set_permissions(folder.join(inner), fs::Permissions::from_mode(0o755))?;
    }
    let bytes = size(&folder)?;
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    if bytes > CEILING {
        return Err(format!(
            "the kit has {mebibytes:.1} MiB; at most {} are allowed",
            CEILING >> 20
        )
        .into());
    }
    let archive = folder.with_extension("tar.gz");
    let (shown, parent) = (archive.display().to_string(), target(root).display().to_string());
    execute(&mut command(
        root,
        "tar",
        &["-czf", &shown, "-C", &parent, "gpu-kit"],
    ))?;
    let packed = fs::metadata(&archive)?.len() as f64 / f64::from(1 << 20);
    println!(
        "{} ({mebibytes:.1} MiB, packed {packed:.1} MiB); on the machine: tar xzf gpu-kit.tar.gz && gpu-kit/run.sh",
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

fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() {
            size(&entry.path())?
        } else {
            entry.metadata()?.len()
        };
    }
    Ok(bytes)
}
