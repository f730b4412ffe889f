//! Who may know whom.

use crate::process::cargo;
use crate::{Result, floors, state};
use serde::Deserialize;
use std::path::Path;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Clone, Deserialize)]
struct Package {
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
    features: std::collections::BTreeMap<String, Vec<String>>,
}

#[derive(Clone, Deserialize)]
struct Dependency {
    name: String,
    path: Option<String>,
    optional: bool,
}

/// Checks every edge between packages of the workspace.
pub(crate) fn run(root: &Path) -> Result<()> {
    let output = cargo(root, &["metadata", "--no-deps", "--format-version", "1"]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout)?;
    let folder_of = |manifest: &str| {
        let folder = Path::new(manifest).parent().unwrap_or(root);
        folder.strip_prefix(root).unwrap_or(folder).display().to_string()
    };
    let (mut wrong, mut edges) = (Vec::new(), 0);
    for package in &metadata.packages {
        let from = folder_of(&package.manifest_path);
        for dependency in &package.dependencies {
            let Some(path) = &dependency.path else { continue };
            let to = folder_of(&format!("{path}/Cargo.toml"));
            // A package may know itself, as a dev-dependency that gives its tests more features.
            if from == to {
                continue;
            }
            edges += 1;
            if let Err(rule) = judge(&from, &to) {
                wrong.push(format!("{} knows {}: {rule}", package.name, dependency.name));
            }
            let embedded = package.features.get("embedded-cpu");
            if from == "runtime" && to.starts_with("backends") && !(dependency.optional && embedded.is_some())
            {
                wrong.push(format!(
                    "{} knows {} without the feature embedded-cpu",
                    package.name, dependency.name
                ));
            }
        }
    }
    if wrong.is_empty() {
        println!("{} packages, {edges} edges between them", metadata.packages.len());
    }
    let checks: [fn(&Path) -> Result<()>; 2] = [floors::run, state::run];
    wrong.extend(
        checks
            .iter()
            .filter_map(|check| check(root).err().map(|error| error.to_string())),
    );
    if wrong.is_empty() {
        return Ok(());
    }
    Err(wrong.join("\n").into())
}

/// Whether the package in folder `from` may know the one in folder `to`; the rule that forbids it otherwise.
fn judge(from: &str, to: &str) -> std::result::Result<(), &'static str> {
    let within = |allowed: &[&str], rule| if allowed.contains(&to) { Ok(()) } else { Err(rule) };
    match from.split('/').next().unwrap_or("") {
        "hal-api" => Err("hal-api knows nobody"),
        "backends" => {
            let own = from.split('/').nth(1) == to.split('/').nth(1) && to.starts_with("backends/");
            if own {
                return Ok(());
            }
            within(
                &["hal-api", "backends/cstyle"],
                "a backend knows hal-api and cstyle only",
            )
        }
        "layers" => within(&["hal-api"], "layers know hal-api only"),
        "runtime" => within(
            &["hal-api", "layers", "backends/cpu"],
            "runtime knows hal-api, the layers, and the CPU backend that it embeds",
        ),
        "core" => within(&["runtime", "hal-api"], "core knows runtime and hal-api only"),
        "summary" => Err("summary knows nobody"),
        "nn" => within(
            &["core", "summary", "nn/derive", "nn/digits"],
            "nn knows core, summaries, its derive macro and the digits only",
        ),
        "observe" => within(&["core", "summary"], "observe knows core and summaries only"),
        "cli" => within(
            &["core", "layers", "nn", "observe", "summary", "tests"],
            "the command knows core, layers, nn, observe, summaries and the conformance kit only",
        ),
        "tests" => within(
            &["core", "nn", "observe", "hal-api"],
            "tests reach a backend only through the loader",
        ),
        "benches" => within(
            &["core", "nn", "hal-api"],
            "benches reach a backend only through the loader",
        ),
        "docs" => within(
            &["core", "nn", "hal-api"],
            "the guide knows what users know: core, nn and hal-api",
        ),
        "xtask" => Err("xtask knows nobody"),
        _ => Err("its folder has no rule; give it one in xtask/src/layering.rs"),
    }
}

#[cfg(test)]
mod tests {
    use super::judge;

    #[test]
    fn edges() {
        for (from, to) in [
            ("core", "hal-api"),
            ("core", "runtime"),
            ("runtime", "hal-api"),
            ("runtime", "backends/cpu"),
            ("runtime", "layers"),
            ("layers", "hal-api"),
            ("backends/cpu/plugin", "backends/cpu"),
            ("backends/cuda", "backends/cstyle"),
            ("cli", "tests"),
            ("cli", "observe"),
            ("cli", "layers"),
            ("observe", "core"),
            ("nn", "summary"),
            ("docs", "nn"),
        ] {
            assert_eq!(judge(from, to), Ok(()), "{from} -> {to}");
        }
        for (from, to) in [
            ("hal-api", "core"),
            ("core", "backends/cpu"),
            ("runtime", "core"),
            ("runtime", "backends/reference"),
            ("backends/cuda", "backends/cpu"),
            ("backends/reference", "core"),
            ("tests", "backends/cpu"),
            ("nn", "hal-api"),
            ("layers", "runtime"),
            ("nn", "observe"),
            ("summary", "core"),
            ("observe", "nn"),
            ("elsewhere", "hal-api"),
        ] {
            assert!(judge(from, to).is_err(), "{from} -> {to}");
        }
    }
}
