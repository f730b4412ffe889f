//! Known flaws of dependencies.

use super::version::fits;
use super::{Package, Result};
use crate::suite::Skip;
use std::fs;
use std::path::Path;

/// The day of the database that [`KNOWN`] was compared with.
const COMPARED: &str = "2026-08-21";

/// RustSec's advisories for crates of `Cargo.lock`, with the versions that are free of the flaw.
const KNOWN: [(&str, &str, &str); 25] = [
    ("RUSTSEC-2024-0404", "anstream", ">= 0.6.8"),
    ("RUSTSEC-2020-0006", "bumpalo", ">= 3.2.1"),
    ("RUSTSEC-2022-0078", "bumpalo", ">= 3.11.1"),
    ("RUSTSEC-2019-0029", "chacha20", ">= 0.2.3"),
    ("RUSTSEC-2024-0014", "generational-arena", ""),
    ("RUSTSEC-2024-0402", "hashbrown", ">= 0.15.1"),
    ("RUSTSEC-2020-0070", "lock_api", ">= 0.4.2"),
    ("RUSTSEC-2026-0186", "memmap2", ">= 0.9.11"),
    ("RUSTSEC-2021-0119", "nix", ">= 0.23.0"),
    ("RUSTSEC-2019-0017", "once_cell", ">= 1.0.1"),
    ("RUSTSEC-2024-0436", "paste", ""),
    ("RUSTSEC-2026-0097", "rand", ">= 0.10.1"),
    ("RUSTSEC-2019-0035", "rand_core", ">= 0.4.2"),
    ("RUSTSEC-2021-0023", "rand_core", ">= 0.6.2"),
    ("RUSTSEC-2022-0013", "regex", ">= 1.5.5"),
    ("RUSTSEC-2021-0100", "sha2", ">= 0.9.8"),
    ("RUSTSEC-2024-0006", "shlex", ">= 1.3.0"),
    ("RUSTSEC-2018-0018", "smallvec", ">= 0.6.13"),
    ("RUSTSEC-2019-0009", "smallvec", ">= 0.6.10"),
    ("RUSTSEC-2019-0012", "smallvec", ">= 0.6.10"),
    ("RUSTSEC-2021-0003", "smallvec", ">= 1.6.1"),
    ("RUSTSEC-2022-0006", "thread_local", ">= 1.1.4"),
    ("RUSTSEC-2023-0078", "tracing", ">= 0.1.40"),
    ("RUSTSEC-2023-0074", "zerocopy", ">= 0.7.31"),
    ("RUSTSEC-2025-0168", "zip", ">= 2.3.0"),
];

/// Advisories that are lived with, and why. The list may only shrink.
const ACCEPTED: [(&str, &str); 0] = [];

struct Advisory {
    id: String,
    package: String,
    /// Requirements, one of which a version without the flaw fits.
    free: Vec<String>,
}

/// What is wrong with the versions in use, and what was not looked at.
pub(super) fn check(packages: &[Package], database: Option<&Path>) -> Result<(Vec<String>, Vec<Skip>)> {
    let (advisories, left_out) = match database {
        Some(folder) => (read(folder, packages)?, Vec::new()),
        None => (
            known(),
            vec![Skip {
                needs: "machine".into(),
                what: format!("advisories after {COMPARED}"),
                why: "the list is older; `cargo xtask audit --database DIR` takes a newer one".into(),
            }],
        ),
    };
    println!("{} advisories of dependencies looked at", advisories.len());
    Ok((judge(packages, &advisories, &ACCEPTED), left_out))
}

fn known() -> Vec<Advisory> {
    let advisory = |(id, package, free): &(&str, &str, &str)| Advisory {
        id: (*id).into(),
        package: (*package).into(),
        free: if free.is_empty() {
            Vec::new()
        } else {
            vec![(*free).into()]
        },
    };
    KNOWN.iter().map(advisory).collect()
}

fn judge(packages: &[Package], advisories: &[Advisory], accepted: &[(&str, &str)]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut met = Vec::new();
    for advisory in advisories {
        let named = |package: &&Package| package.name == advisory.package && package.source.is_some();
        for package in packages.iter().filter(named) {
            // What cannot be read is not free of the flaw.
            let free = |requirement: &String| fits(requirement, &package.version) == Some(true);
            if advisory.free.iter().any(free) {
                continue;
            }
            met.push(advisory.id.as_str());
            if accepted.iter().all(|(id, _)| *id != advisory.id) {
                let Package { name, version, .. } = package;
                let id = &advisory.id;
                wrong.push(format!(
                    "{name} {version} has {id}: https://rustsec.org/advisories/{id}.html"
                ));
            }
        }
    }
    for (id, _) in accepted.iter().filter(|(id, _)| !met.contains(id)) {
        wrong.push(format!(
            "{id} is met no more; take it off the list in xtask/src/audit/advisories.rs"
        ));
    }
    wrong
}

/// The advisories for the crates in use from a clone of RustSec's advisory-db.
fn read(database: &Path, packages: &[Package]) -> Result<Vec<Advisory>> {
    let crates = database.join("crates");
    if !crates.is_dir() {
        return Err(format!(
            "{} is no clone of RustSec's advisory-db: it has no crates/",
            database.display()
        )
        .into());
    }
    let mut names: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    names.dedup();
    let mut advisories = Vec::new();
    for name in names {
        let Ok(files) = fs::read_dir(crates.join(name)) else {
            continue;
        };
        for file in files {
            let path = file?.path();
            let id = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let text = fs::read_to_string(&path)?;
            let head = text.split("```").nth(1).unwrap_or_default();
            if head.lines().any(|line| line.starts_with("withdrawn")) {
                continue;
            }
            let mut free = list(head, "patched");
            free.extend(list(head, "unaffected"));
            advisories.push(Advisory {
                id,
                package: name.into(),
                free,
            });
        }
    }
    Ok(advisories)
}

/// The texts of the list `key = [...]`.
fn list(head: &str, key: &str) -> Vec<String> {
    let start = head.match_indices(key).find(|(at, _)| {
        let line = head[..*at].rsplit('\n').next().unwrap_or_default();
        line.trim().is_empty() && head[at + key.len()..].trim_start().starts_with('=')
    });
    let rest = start.map_or("", |(at, _)| &head[at + key.len()..]);
    let inner = rest.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let quoted = inner.map_or("", |(inner, _)| inner).split('"').skip(1).step_by(2);
    quoted.map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(version: &str) -> Package {
        Package {
            name: "a".into(),
            version: version.into(),
            license: None,
            source: Some("registry".into()),
        }
    }

    #[test]
    fn versions_with_a_flaw_are_named_unless_accepted() {
        let flaw = [Advisory {
            id: "RUSTSEC-1".into(),
            package: "a".into(),
            free: vec!["^1.2.4".into(), ">= 2.0.1".into()],
        }];
        assert!(judge(&[package("1.3.0")], &flaw, &[]).is_empty());
        assert!(judge(&[package("2.0.0")], &flaw, &[])[0].starts_with("a 2.0.0 has RUSTSEC-1: "));
        assert!(judge(&[package("2.0.0")], &flaw, &[("RUSTSEC-1", "why")]).is_empty());
        assert_eq!(
            judge(&[package("2.0.1")], &flaw, &[("RUSTSEC-1", "why")]),
            ["RUSTSEC-1 is met no more; take it off the list in xtask/src/audit/advisories.rs"]
        );
    }

    #[test]
    fn a_clone_of_the_database_is_read() {
        let folder = std::env::temp_dir().join(format!("thalweg-advisories-{}", std::process::id()));
        fs::create_dir_all(folder.join("crates/a")).unwrap();
        let text = "```toml\n[advisory]\nid = \"RUSTSEC-1\"\n[versions]\npatched = [\n  \">= 1.2\",\n  \"^1.0.5\",\n]\n\
                    unaffected = [\"< 1\"]\n```\n# patched = [\"*\"]\n";
        fs::write(folder.join("crates/a/RUSTSEC-1.md"), text).unwrap();
        let gone = text.replace("[versions]", "withdrawn = \"2026-01-01\"");
        fs::write(folder.join("crates/a/RUSTSEC-2.md"), gone).unwrap();
        let read = read(&folder, &[package("1.0.0"), package("1.1.0")]);
        fs::remove_dir_all(&folder).unwrap();
        let advisories = read.unwrap();
        assert_eq!(advisories.len(), 1);
        assert_eq!(
            (advisories[0].id.as_str(), advisories[0].free.join("|")),
            ("RUSTSEC-1", ">= 1.2|^1.0.5|< 1".into())
        );
        assert!(super::read(Path::new("/none"), &[]).is_err());
    }
}
