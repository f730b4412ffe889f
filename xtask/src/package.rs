//! The packages that users get: what each holds, and that it builds from what it holds.

use crate::process::{cargo, command, run as execute};
use crate::{Result, target};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

/// Where packages that nobody gets lie.
const UNPUBLISHED: [&str; 4] = ["xtask", "benches", "docs", "tests/plugins"];
/// Most bytes of a package, compressed.
const CEILING: u64 = 640 << 10;
/// The package of data, which may have more and may hold data.
const DATA: &str = "thalweg-digits";
const DATA_CEILING: u64 = 2 << 20;
/// What a package holds in its folder, besides manifests.
const PLACES: [&str; 7] = [
    "src/",
    "include/",
    "examples/",
    "ignores/",
    "data/",
    "README.md",
    "LICENSE-",
];
/// Files that are text or code of one of these kinds.
const KINDS: [&str; 12] = [
    "rs", "md", "toml", "h", "c", "cl", "cu", "lock", "json", "html", "css", "js",
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    manifest_path: PathBuf,
    description: Option<String>,
    documentation: Option<String>,
    readme: Option<String>,
    license: Option<String>,
    rust_version: Option<String>,
    keywords: Vec<String>,
    categories: Vec<String>,
    publish: Option<Vec<String>>,
}

/// Packs every crate that users get, looks into the packages, and builds them from their content alone.
pub(crate) fn run(root: &Path) -> Result<()> {
    let output = cargo(root, &["metadata", "--no-deps", "--format-version", "1"]).output()?;
    let metadata: Metadata = serde_json::from_slice(&output.stdout)?;
    let (published, kept): (Vec<_>, Vec<_>) = (metadata.packages.iter()).partition(|p| p.publish.is_none());
    let mut wrong: Vec<String> = published.iter().flat_map(|package| lacks(package)).collect();
    for package in &kept {
        let folder = package.manifest_path.strip_prefix(root).unwrap_or(root);
        if !UNPUBLISHED.iter().any(|place| folder.starts_with(place)) {
            wrong.push(format!("{} says `publish = false`; users get it", package.name));
        }
    }
    refuse(&wrong)?;

    let mut pack = cargo(
        root,
        &[
            "package",
            "--workspace",
            "--no-verify",
            "--allow-dirty",
            "--quiet",
        ],
    );
    for package in &kept {
        pack.args(["--exclude", &package.name]);
    }
    execute(&mut pack)?;
    let folder = target(root).join("package");
    let check = folder.join("check");
    if check.exists() {
        fs::remove_dir_all(&check)?;
    }
    fs::create_dir_all(&check)?;
    let mut members = Vec::new();
    for package in &published {
        let name = format!("{}-{}", package.name, package.version);
        let archive = folder.join(format!("{name}.crate"));
        let shown = archive.display().to_string();
        let list = command(root, "tar", &["-tzf", &shown]).output()?.stdout;
        let bytes = fs::metadata(&archive)?.len();
        wrong.extend(judge(
            &package.name,
            &name,
            &String::from_utf8_lossy(&list),
            bytes,
        ));
        // With the time of now: cargo takes files that are no newer than its last check for those that it knows.
        execute(&mut command(&check, "tar", &["-xzmf", &shown]))?;
        members.push((package.name.clone(), name));
    }
    refuse(&wrong)?;
    // One check of all packages, with the dependencies of this build: each would build them anew.
    fs::write(
        check.join("Cargo.toml"),
        workspace(&members, &fs::read_to_string(root.join("Cargo.toml"))?),
    )?;
    fs::copy(root.join("Cargo.lock"), check.join("Cargo.lock"))?;
    let args = ["check", "--workspace", "--quiet", "--offline"];
    execute(cargo(&check, &args).env("CARGO_TARGET_DIR", target(root)))?;
    fs::remove_dir_all(&check)?;
    println!("{} packages hold what they need", members.len());
    Ok(())
}

fn refuse(wrong: &[String]) -> Result<()> {
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n").into())
    }
}

/// What a manifest does not say.
fn lacks(package: &Package) -> Vec<String> {
    let fields = [
        ("description", package.description.is_some()),
        ("documentation", package.documentation.is_some()),
        ("readme", package.readme.is_some()),
        ("license", package.license.is_some()),
        ("rust-version", package.rust_version.is_some()),
        ("keywords, 1 to 5", (1..=5).contains(&package.keywords.len())),
        ("categories, 1 to 5", (1..=5).contains(&package.categories.len())),
    ];
    let missing = fields.iter().filter(|(_, there)| !there);
    missing
        .map(|(field, _)| format!("{} has no {field}", package.name))
        .collect()
}

/// What is wrong with the files of a package, which `tar` lists with the folder `top` in front.
fn judge(package: &str, top: &str, list: &str, bytes: u64) -> Vec<String> {
    let mut wrong = Vec::new();
    let files: Vec<&str> = (list.lines())
        .filter_map(|line| line.strip_prefix(top)?.strip_prefix('/'))
        .collect();
    for needed in ["Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        if !files.contains(&needed) {
            wrong.push(format!("the package of {package} lacks {needed}"));
        }
    }
    for file in &files {
        let place = PLACES.iter().any(|place| file.starts_with(place));
        let manifest = [
            "Cargo.toml",
            "Cargo.toml.orig",
            "Cargo.lock",
            ".cargo_vcs_info.json",
        ]
        .contains(file);
        let kind = Path::new(file).extension().and_then(|kind| kind.to_str());
        let text = file.starts_with("LICENSE-") || kind.is_some_and(|kind| KINDS.contains(&kind));
        if !(manifest || place && (text || package == DATA)) {
            wrong.push(format!(
                "the package of {package} holds {file}, which is no source of it"
            ));
        }
    }
    let most = if package == DATA { DATA_CEILING } else { CEILING };
    if bytes > most {
        wrong.push(format!(
            "the package of {package} has {bytes} bytes; at most {most} are allowed"
        ));
    }
    wrong
}

/// A workspace of unpacked packages that find each other, with the profiles of this one.
fn workspace(members: &[(String, String)], own: &str) -> String {
    let folders: Vec<String> = members.iter().map(|(_, folder)| format!("{folder:?}")).collect();
    let mut text = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [{}]\n\n[patch.crates-io]\n",
        folders.join(", ")
    );
    for (name, folder) in members {
        text += &format!("{name} = {{ path = {folder:?} }}\n");
    }
    let mut inside = false;
    for line in own.lines() {
        if line.starts_with('[') {
            inside = line.starts_with("[profile.");
        }
        if inside {
            text += line;
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "a-1/Cargo.toml\na-1/README.md\na-1/LICENSE-MIT\na-1/LICENSE-APACHE\na-1/src/lib.rs\n";

    #[test]
    fn packages_hold_sources_and_licences() {
        assert!(judge("a", "a-1", LIST, 1000).is_empty());
        let wrong = |more: &str| judge("a", "a-1", &format!("{LIST}{more}\n"), 1000);
        assert_eq!(
            wrong("a-1/tests/data/x.npz"),
            ["the package of a holds tests/data/x.npz, which is no source of it"]
        );
        assert_eq!(wrong("a-1/src/weights.safetensors").len(), 1);
        assert_eq!(
            judge("a", "a-1", &LIST.replace("a-1/LICENSE-MIT\n", ""), 1000),
            ["the package of a lacks LICENSE-MIT"]
        );
        assert_eq!(judge("a", "a-1", LIST, 1 << 20).len(), 1);
        assert!(judge(DATA, "a-1", &format!("{LIST}a-1/data/x.gz\n"), 1 << 20).is_empty());
    }

    #[test]
    fn the_workspace_of_packages_has_our_profiles() {
        let own = "[workspace]\nx = 1\n[profile.dev]\nopt-level = 1\n[other]\ny = 2\n";
        assert_eq!(
            workspace(&[("a".into(), "a-1".into())], own),
            "[workspace]\nresolver = \"3\"\nmembers = [\"a-1\"]\n\n[patch.crates-io]\na = { path = \"a-1\" }\n\
             [profile.dev]\nopt-level = 1\n"
        );
    }
}
