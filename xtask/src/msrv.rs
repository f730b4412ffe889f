//! The oldest Rust that the project builds with.

use crate::Result;
use crate::process::{capture, cargo, command, exists, run as execute};
use crate::suite::Skip;
use serde_json::Value;
use std::path::Path;

/// Checks that every package names the same version of Rust, and that the toolchain in use is that one, so that all other checks
/// are checks of it. With a newer toolchain the workspace is checked by the named one, where rustup has it.
pub(crate) fn run(root: &Path) -> Result<Vec<Skip>> {
    let output = cargo(root, &["metadata", "--no-deps", "--format-version", "1"]).output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
    let version = one(packages.iter().map(|package| {
        (
            package["name"].as_str().unwrap_or_default(),
            package["rust_version"].as_str(),
        )
    }))?;
    let used = capture(&mut command(root, "rustc", &["--version"]))?;
    if is(&used, &version) {
        return Ok(Vec::new());
    }
    let toolchain = format!("+{version}");
    let there = exists("rustup")
        && command(root, "rustup", &["run", &version, "rustc", "--version"])
            .output()?
            .status
            .success();
    if !there {
        let used = used.trim();
        return Ok(vec![Skip {
            needs: "machine".into(),
            what: format!("a build with Rust {version}"),
            why: format!("the toolchain is {used}; `rustup toolchain install {version}`"),
        }]);
    }
    // Not `cargo`, which is the one of the toolchain in use; it takes no `+`.
    execute(&mut command(
        root,
        "cargo",
        &[&toolchain, "check", "--workspace", "--all-features"],
    ))?;
    Ok(Vec::new())
}

/// The version that all packages name.
fn one<'a>(packages: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> Result<String> {
    let mut first: Option<&str> = None;
    for (name, version) in packages {
        let version = version.ok_or_else(|| format!("{name} has no rust-version"))?;
        let wanted = *first.get_or_insert(version);
        if version != wanted {
            return Err(format!("{name} has the rust-version {version}, others have {wanted}").into());
        }
    }
    Ok(first.ok_or("there is no package")?.to_owned())
}

/// Whether `rustc --version` said this version: `1.95` is every `1.95.x`.
fn is(said: &str, version: &str) -> bool {
    let used = said.split_whitespace().nth(1).unwrap_or_default();
    used == version
        || used
            .strip_prefix(version)
            .is_some_and(|rest| rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert!(is("rustc 1.95.0 (abc 2026-01-01)", "1.95"));
        assert!(is("rustc 1.95.1", "1.95.1"));
        assert!(!is("rustc 1.950.0", "1.95"));
        assert!(!is("rustc 1.96.0", "1.95"));
        assert_eq!(
            one([("a", Some("1.95")), ("b", Some("1.95"))].into_iter()).unwrap(),
            "1.95"
        );
        let error = one([("a", Some("1.95")), ("b", Some("1.94"))].into_iter()).unwrap_err();
        assert_eq!(error.to_string(), "b has the rust-version 1.94, others have 1.95");
        assert!(one([("a", None)].into_iter()).is_err());
    }
}
