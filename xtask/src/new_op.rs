//! The recipe for a scalar op, carried out on a copy of the workspace.

use crate::process::{cargo, command, run as execute};
use crate::{Result, files, header, plugins, target};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const RECIPE: &str = "docs/adding-an-op.md";
/// The op that the recipe adds; the library has none of this name.
const OP: &str = "exp10";
/// What adding an op may cost at most.
const LINES: usize = 12;
const FILES: usize = 9;

/// Lines of a file that come after others.
#[derive(Debug, Default, PartialEq)]
struct Change {
    file: String,
    after: Vec<String>,
    added: Vec<String>,
}

/// The changes in the `diff` blocks of a text: `--- FILE`, lines that are there, and after them lines to add.
fn changes(text: &str) -> Result<Vec<Change>> {
    let mut all = Vec::new();
    let mut open: Option<Change> = None;
    for line in text.lines() {
        match (&mut open, line) {
            (None, "```diff") => open = Some(Change::default()),
            (None, _) => {}
            (Some(change), "```") => {
                if change.file.is_empty() || change.after.is_empty() || change.added.is_empty() {
                    return Err(format!(
                        "{RECIPE}: a diff needs a file, a line that is there and one to add"
                    )
                    .into());
                }
                all.extend(open.take());
            }
            (Some(change), line) => match (line.split_at_checked(1), line.strip_prefix("--- ")) {
                (_, Some(file)) => change.file = file.into(),
                (Some((" ", there)), _) if change.added.is_empty() => change.after.push(there.into()),
                (Some(("+", new)), _) => change.added.push(new.into()),
                _ => return Err(format!("{RECIPE}: `{line}` is no line of a change").into()),
            },
        }
    }
    Ok(all)
}

impl Change {
    /// The text of the file with the change.
    fn applied(&self, text: &str) -> Result<String> {
        let lines: Vec<&str> = text.lines().collect();
        let found: Vec<usize> = (lines.windows(self.after.len()).enumerate())
            .filter(|(_, window)| *window == self.after)
            .map(|(at, _)| at + self.after.len())
            .collect();
        let &[at] = &found[..] else {
            let shown = self.after.join("\n");
            return Err(format!(
                "{RECIPE}: {} has these lines {} times, not once:\n{shown}",
                self.file,
                found.len()
            )
            .into());
        };
        let (before, behind) = lines.split_at(at);
        let added = self.added.iter().map(String::as_str);
        let all: Vec<&str> = before
            .iter()
            .copied()
            .chain(added)
            .chain(behind.iter().copied())
            .collect();
        Ok(all.join("\n") + "\n")
    }
}

/// Adds the op of the recipe to a copy, by the recipe's own changes, and tests it there: its definition, loops, sources,
/// gradient, documentation, and the conformance kit's cases for it on the CPU.
pub(crate) fn check(root: &Path) -> Result<()> {
    let changes = changes(&fs::read_to_string(root.join(RECIPE))?)?;
    let lines: usize = changes.iter().map(|change| change.added.len()).sum();
    let touched: BTreeSet<&str> = changes.iter().map(|change| &*change.file).collect();
    println!("an op takes {lines} lines in {} files by hand", touched.len());
    if lines > LINES || touched.len() > FILES {
        return Err(format!("at most {LINES} lines in {FILES} files were meant").into());
    }
    let copy = target(root).join("new-op-check");
    if copy.exists() {
        fs::remove_dir_all(&copy)?;
    }
    for file in files(root)? {
        let to = copy.join(&file);
        fs::create_dir_all(to.parent().unwrap_or(&copy))?;
        fs::copy(root.join(&file), to)?;
    }
    for change in &changes {
        let path = copy.join(&change.file);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", change.file))?;
        fs::write(path, change.applied(&text)?)?;
    }
    // Dependencies that are built already serve the copy too. Cargo tells the copy's own packages from the project's by their version
    // alone.
    let manifest = copy.join("Cargo.toml");
    let own = fs::read_to_string(&manifest)?.replacen("\nversion = \"1.0.0\"", "\nversion = \"1.0.99\"", 1);
    if !own.contains("1.0.99") {
        return Err("the workspace is not at 1.0.0".into());
    }
    fs::write(&manifest, own)?;
    header::run(&copy, false)?;
    let build = target(root);
    let (method, cases) = (format!("::{OP} "), format!("kernels/scalar.{OP}.*"));
    // The same packages in each step: others would enable other features of what they share, which is then built again.
    let packages = ["thalweg-hal", "thalweg-cstyle", "thalweg", "thalweg-cli"];
    let packages = packages.iter().flat_map(|package| ["--package", package]);
    let packages: Vec<&str> = packages.chain(["--all-features"]).collect();
    let tests = ["--", "interpreter", "every_op", "every_scalar_op"];
    let steps: [(&[&str], &[&str]); 3] = [
        (&["test", "--lib"], &tests),
        (&["test", "--doc"], &["--", &method]),
        (&["build", "--bin", "thalweg"], &[]),
    ];
    // These few cases compute little, and what is optimised otherwise takes long to compile.
    let plain = ["thalweg-hal", "thalweg-backend-cpu", "thalweg-observe"];
    let plain = plain.map(|package| format!("--config=profile.dev.package.{package}.opt-level=0"));
    let plain = plain.each_ref().map(String::as_str);
    for (first, last) in steps {
        let step = [&plain, first, &packages, last].concat();
        execute(cargo(&copy, &step).env("CARGO_TARGET_DIR", &build))?;
    }
    let thalweg = plugins::profile(root, false).join("thalweg");
    execute(&mut command(
        &copy,
        thalweg,
        &["conform", "cpu", "--filter", &cases],
    ))?;
    fs::remove_dir_all(&copy)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Title\n\n```diff\n--- a.rs\n one\n two\n+three\n```\n\ntext\n";

    #[test]
    fn a_change_stands_behind_its_lines() {
        let changes = changes(TEXT).unwrap();
        let [change] = &changes[..] else {
            panic!("{changes:?}")
        };
        assert_eq!(change.file, "a.rs");
        assert_eq!(
            change.applied("zero\none\ntwo\nfour\n").unwrap(),
            "zero\none\ntwo\nthree\nfour\n"
        );
    }

    #[test]
    fn a_recipe_that_does_not_fit_is_refused() {
        let changes = changes(TEXT).unwrap();
        for text in ["one\nthree\n", "one\ntwo\none\ntwo\n"] {
            let error = changes[0].applied(text).unwrap_err().to_string();
            assert!(error.contains("a.rs") && error.contains("not once"), "{error}");
        }
        for text in [
            "```diff\n--- a.rs\n+x\n```\n",
            "```diff\n--- a.rs\n one\n+x\n two\n```\n",
        ] {
            assert!(super::changes(text).is_err(), "{text}");
        }
    }
}
