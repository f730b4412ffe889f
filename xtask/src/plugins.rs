//! The project's plugins as files.

use crate::process::{cargo, command, run};
use crate::{Result, files, target};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Packages that are plugins.
pub(crate) const PACKAGES: [&str; 4] = [
    "thalweg-reference",
    "thalweg-cpu",
    "thalweg-opencl",
    "thalweg-cuda",
];

/// Builds everything that tests need, the plugins and the command among it, and returns the plugins' files in the build
/// folder, where programs of the same build find them.
///
/// One call of cargo for all of it: calls that name different packages or kinds of targets enable different features of
/// shared dependencies, which are then built again.
pub(crate) fn build(root: &Path) -> Result<Vec<PathBuf>> {
    let kinds = [
        "build",
        "--workspace",
        "--all-features",
        "--lib",
        "--bins",
        "--tests",
    ];
    run(&mut cargo(root, &kinds))?;
    Ok(files_of(&profile(root, false), &PACKAGES))
}

/// Builds an example as the tests do, and returns its program.
pub(crate) fn example(root: &Path, name: &str) -> Result<PathBuf> {
    let build = ["build", "--workspace", "--all-features", "--example", name];
    run(&mut cargo(root, &build))?;
    Ok(profile(root, false).join("examples").join(name))
}

/// The files of plugins in the folder of a build.
pub(crate) fn files_of(folder: &Path, packages: &[&str]) -> Vec<PathBuf> {
    let file = |package: &&str| folder.join(format!("lib{}.so", package.replace('-', "_")));
    packages.iter().map(file).collect()
}

/// A plugin's file name.
pub(crate) fn name(file: &Path) -> String {
    file.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// The target of a plugin's file.
pub(crate) fn target_of(file: &Path) -> String {
    let name = name(file);
    let inner = name
        .strip_prefix("libthalweg_")
        .and_then(|name| name.strip_suffix(".so"));
    inner.unwrap_or(&name).to_owned()
}

/// Why no device of a plugin can be used on this machine, if none can: there is no driver for it.
pub(crate) fn missing_device(root: &Path, file: &Path) -> Result<Option<String>> {
    let thalweg = profile(root, false).join("thalweg");
    let folder = file.parent().unwrap_or(root);
    let output = command(root, thalweg, &["devices", "--json", "--backend-path"])
        .arg(folder)
        .output()?;
    let survey: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let rows = |key: &str| survey[key].as_array().cloned().unwrap_or_default();
    let file = file.display().to_string();
    let row = rows("unusable")
        .into_iter()
        .find(|row| row["path"] == file.as_str());
    // What is broken or not found is for the conformance kit to say.
    let unavailable = row.filter(|row| row["outcome"] == "not_available");
    Ok(unavailable.map(|row| row["reason"].as_str().unwrap_or("no device").to_owned()))
}

/// Builds the plugins and copies them into `backends/` beside the executables, the place that an installation has.
pub(crate) fn place(root: &Path, release: bool) -> Result<PathBuf> {
    let mut command = cargo(root, &["build"]);
    for package in PACKAGES {
        command.args(["--package", package]);
    }
    if release {
        command.arg("--release");
    }
    run(&mut command)?;
    copy(root, release)
}

/// Copies plugins that are built into `backends/`, as [`place`].
pub(crate) fn copy(root: &Path, release: bool) -> Result<PathBuf> {
    let folder = profile(root, release).join("backends");
    fs::create_dir_all(&folder)?;
    // Plugins are not loaded from places that others may write.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
    for file in files_of(&profile(root, release), &PACKAGES) {
        let name = file.file_name().unwrap_or_default();
        let draft = folder.join("draft");
        fs::copy(&file, &draft)?;
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o755))?;
        // A program that runs now keeps the file it has loaded.
        fs::rename(&draft, folder.join(name))?;
    }
    Ok(folder)
}

/// The folder of a build.
pub(crate) fn profile(root: &Path, release: bool) -> PathBuf {
    target(root).join(if release { "release" } else { "debug" })
}

/// Compiles the example in plain C into the build folder.
pub(crate) fn plain_c(root: &Path) -> Result<PathBuf> {
    let folder = target(root).join("plain_c");
    fs::create_dir_all(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
    let library = folder.join("libthalweg_plainc.so");
    let mut command = command(root, "cc", &["-std=c11", "-O2", "-shared", "-fPIC"]);
    command
        .args(["-fvisibility=hidden", "-pthread", "-Ihal-api/include", "-o"])
        .arg(&library);
    let folder = "tests/plugins/plain_c";
    let sources = files(root)?.into_iter().filter(|file| file.starts_with(folder));
    command.args(sources.filter(|file| file.extension().is_some_and(|kind| kind == "c")));
    run(&mut command)?;
    Ok(library)
}
