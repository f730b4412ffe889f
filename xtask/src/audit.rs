//! What the project depends on: licences, advisories, crates that come in several versions, and their number.

mod advisories;
mod licence;
mod version;

use crate::Result;
use crate::process::cargo;
use crate::suite::Skip;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Licences that every dependency may have.
const ALLOWED: [&str; 11] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];
/// Licences that one crate may have, and why. The list may only shrink.
const EXCEPTIONS: [(&str, &str, &str); 1] = [(
    "thalweg-digits",
    "CC-BY-SA-3.0",
    "data, in programs that enable the feature `digits` alone",
)];
/// Crates that come in more than one version. The list may only shrink.
const TWICE: [&str; 2] = ["hashbrown", "syn"];
/// Most crates of a program that only says `thalweg`, itself included. It may only shrink.
const MOST_CRATES: usize = 53;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

/// Checks the dependencies of the workspace; with `database`, a clone of RustSec's advisory-db, against all of its advisories.
/// Returns what was left out.
pub(crate) fn run(root: &Path, database: Option<&Path>) -> Result<Vec<Skip>> {
    let output = cargo(root, &["metadata", "--format-version", "1"]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout)?;
    let packages = &metadata.packages;
    let mut wrong = licences(packages, &EXCEPTIONS);
    wrong.extend(twice(packages, &TWICE));
    wrong.extend(number(crates_of(root, "thalweg")?));
    let (found, left_out) = advisories::check(packages, database)?;
    wrong.extend(found);
    if wrong.is_empty() {
        println!("{} packages are as they should be", packages.len());
        return Ok(left_out);
    }
    Err(wrong.join("\n").into())
}

fn licences(packages: &[Package], exceptions: &[(&str, &str, &str)]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut used = BTreeSet::new();
    for package in packages {
        let Some(expression) = &package.license else {
            wrong.push(format!("{} has no licence expression", package.name));
            continue;
        };
        if licence::allows(expression, &|name| ALLOWED.contains(&name)) {
            continue;
        }
        let exception = exceptions.iter().find(|(name, ..)| *name == package.name);
        used.extend(exception.map(|(name, ..)| *name));
        let allowed = |name: &str| ALLOWED.contains(&name) || exception.is_some_and(|row| row.1 == name);
        if !licence::allows(expression, &allowed) {
            wrong.push(format!(
                "{} is under {expression}, which the project does not take",
                package.name
            ));
        }
    }
    for (name, ..) in exceptions.iter().filter(|(name, ..)| !used.contains(name)) {
        wrong.push(format!(
            "no dependency needs the exception for {name}; take it off the list in xtask/src/audit.rs"
        ));
    }
    wrong
}

fn twice(packages: &[Package], known: &[&str]) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages.iter().filter(|package| package.source.is_some()) {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    let mut wrong = Vec::new();
    for (name, versions) in &versions {
        if !known.contains(name) {
            wrong.push(format!(
                "{name} comes in the versions {}; use one",
                versions.join(", ")
            ));
        }
    }
    for name in known.iter().filter(|name| !versions.contains_key(*name)) {
        wrong.push(format!(
            "{name} comes in one version now; take it off the list in xtask/src/audit.rs"
        ));
    }
    wrong
}

/// The number of crates that a program is built of that depends on `package` with default features.
fn crates_of(root: &Path, package: &str) -> Result<usize> {
    let args = [
        "tree",
        "--package",
        package,
        "--edges",
        "normal,build",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ];
    let output = cargo(root, &args).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // A repeated one has a mark.
    let rows = text.lines().map(|line| line.trim_end_matches(" (*)").trim());
    Ok(rows.filter(|row| !row.is_empty()).collect::<BTreeSet<_>>().len())
}

fn number(crates: usize) -> Option<String> {
    println!("a program that only says `thalweg` is built of {crates} crates; at most {MOST_CRATES}");
    (crates > MOST_CRATES)
        .then(|| format!("thalweg is built of {crates} crates; at most {MOST_CRATES} are allowed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, license: &str) -> Package {
        Package {
            name: name.into(),
            version: version.into(),
            license: Some(license.into()),
            source: Some("registry".into()),
        }
    }

    #[test]
    fn licences_are_allowed_or_excepted_by_name() {
        let exceptions = [("arena", "MPL-2.0", "why")];
        let judge = |name: &str, license: &str| licences(&[package(name, "1.0.0", license)], &exceptions);
        assert!(judge("arena", "MPL-2.0").is_empty());
        assert!(judge("other", "MPL-2.0")[0].contains("other is under MPL-2.0"));
        assert_eq!(
            judge("arena", "MIT"),
            ["no dependency needs the exception for arena; take it off the list in xtask/src/audit.rs"]
        );
        let bare = Package {
            license: None,
            ..package("bare", "1.0.0", "")
        };
        assert_eq!(licences(&[bare], &[]), ["bare has no licence expression"]);
    }

    #[test]
    fn versions_of_one_crate_are_known_or_wrong() {
        let both = [package("a", "1.0.0", "MIT"), package("a", "2.0.0", "MIT")];
        assert_eq!(
            twice(&both, &[]),
            ["a comes in the versions 1.0.0, 2.0.0; use one"]
        );
        assert!(twice(&both, &["a"]).is_empty());
        assert_eq!(twice(&both[..1], &["a"]).len(), 1);
        assert!(number(MOST_CRATES).is_none() && number(MOST_CRATES + 1).is_some());
    }
}
