//! Every test that does harm on purpose, as a table: what was tried, and what survived.

use crate::Result;
use crate::process::{cargo, passed_on};
use std::path::Path;

/// A group of attacks: what, and the tests of it as arguments of `cargo test`.
const GROUPS: [(&str, &[&str]); 9] = [
    (
        "damaged plugins",
        &["-p", "thalweg-runtime", "--test", "bad_plugins", "files::"],
    ),
    (
        "folders and lock files",
        &["-p", "thalweg-runtime", "--test", "bad_plugins", "folders::"],
    ),
    (
        "plugins and places that do harm",
        &["-p", "thalweg-runtime", "--test", "bad_plugins", "attacks::"],
    ),
    (
        "trials in a child process",
        &["-p", "thalweg-runtime", "--lib", "loader::"],
    ),
    (
        "what a backend says",
        &["-p", "thalweg-runtime", "--lib", "said::"],
    ),
    (
        "forks, ends of threads and of the process",
        &["-p", "thalweg", "--test", "process"],
    ),
    (
        "long, deep and doubling graphs",
        &["-p", "thalweg", "--test", "depth"],
    ),
    (
        "numbers that are too large, memory that is too small",
        &["-p", "thalweg", "--test", "limits"],
    ),
    (
        "files that are written over",
        &["-p", "thalweg-hal", "--lib", "kit::file"],
    ),
];

/// Runs them all.
///
/// # Errors
/// Something did not survive; the tests cannot be built.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut rows = Vec::new();
    for (group, tests) in GROUPS {
        let (options, filter) = match tests.split_last() {
            Some((filter, options)) if filter.contains("::") => (options, Some(*filter)),
            _ => (tests, None),
        };
        let mut command = cargo(root, &["test", "--quiet"]);
        command.args(options).arg("--").args(filter);
        let (text, _) = passed_on(&mut command)?;
        let (passed, failed) = counts(&text).ok_or_else(|| format!("{group}: the tests were not run"))?;
        rows.push((group, passed + failed, passed));
    }
    println!("\n{}", table(&rows));
    match rows.iter().all(|(_, tried, survived)| tried == survived) {
        true => Ok(()),
        false => Err("not everything survived".into()),
    }
}

/// How many tests passed and failed, from what the test harness prints.
fn counts(text: &str) -> Option<(u64, u64)> {
    let line = text
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("test result: "))?;
    let number = |of: &str| {
        let part = line
            .split(['.', ';'])
            .find_map(|part| part.trim().strip_suffix(of))?;
        part.trim().parse::<u64>().ok()
    };
    Some((number("passed")?, number("failed")?))
}

fn table(rows: &[(&str, u64, u64)]) -> String {
    let mut text = "| group | tried | survived |\n|---|---|---|\n".to_owned();
    let sum = |of: fn(&(&str, u64, u64)) -> u64| rows.iter().map(of).sum();
    let all = ("all", sum(|row| row.1), sum(|row| row.2));
    for (group, tried, survived) in rows.iter().chain([&all]) {
        text += &format!("| {group} | {tried} | {survived} |\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_result_counts() {
        let text = "running 2 tests\n\ntest result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out\n";
        assert_eq!(counts(text), Some((12, 0)));
        let failed = "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s\n";
        assert_eq!(counts(failed), Some((3, 2)));
        assert_eq!(counts("error: could not compile"), None);
    }

    #[test]
    fn the_table_ends_with_all() {
        let text = table(&[("a", 3, 3), ("b", 2, 1)]);
        assert!(text.ends_with("| a | 3 | 3 |\n| b | 2 | 1 |\n| all | 5 | 4 |\n"));
    }
}
