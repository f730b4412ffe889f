//! Every test that does harm on purpose, as a table: what was tried, and what survived.

use crate::process::{cargo, passed_on};
use crate::{Result, plugins, target};
use std::fs;
use std::path::Path;

/// A kind of attack.
struct Group {
    name: &'static str,
    /// Tests by their target, `lib` for those in the sources, and the beginnings of their names.
    tests: &'static [(&'static str, &'static [&'static str])],
}

const GROUPS: [Group; 9] = [
    Group {
        name: "constructors and entries of plugins",
        tests: &[(
            "bad_plugins",
            &[
                "files::constructor_",
                "files::entry_fails",
                "attacks::what_a_constructor_",
                "attacks::words_",
                "attacks::harm_",
            ],
        )],
    },
    Group {
        name: "liars: manifests, tables, numbers, answers",
        tests: &[
            (
                "bad_plugins",
                &[
                    "files::manifests_",
                    "files::other_name_",
                    "files::a_function_that_is_null",
                    "files::tables_",
                    "attacks::numbers_",
                ],
            ),
            ("lib", &["said::"]),
            ("validate", &["cpu::lies", "reference::lies", "plain_c::lies"]),
            ("faults", &[]),
        ],
    },
    Group {
        name: "flips: damaged and cut plugins",
        tests: &[(
            "bad_plugins",
            &[
                "files::empty_",
                "files::text_",
                "files::truncated_",
                "files::zeroed_",
                "files::random_",
                "files::one_wrong_",
                "attacks::a_flipped_bit",
                "files::wrong_machine",
            ],
        )],
    },
    Group {
        name: "limits of the process and of memory",
        tests: &[
            (
                "bad_plugins",
                &[
                    "attacks::a_trial_",
                    "attacks::children_",
                    "attacks::a_file_larger_",
                ],
            ),
            ("limits", &["memory_", "the_half_", "threads_", "many_tensors_"]),
        ],
    },
    Group {
        name: "files, folders, links, locks",
        tests: &[
            (
                "bad_plugins",
                &[
                    "folders::",
                    "files::folder_",
                    "files::dead_link",
                    "attacks::what_is_no_file_",
                    "attacks::names_",
                    "attacks::a_plugin_is_loaded_from_",
                ],
            ),
            ("lib", &["kit::file::"]),
        ],
    },
    Group {
        name: "hostile calls: windows, counts, operands",
        tests: &[("limits", &["windows_", "counts_", "an_operand_"])],
    },
    Group {
        name: "long, deep and doubling graphs",
        tests: &[("depth", &[])],
    },
    Group {
        name: "forks, ends of threads and of the process",
        tests: &[("process", &[])],
    },
    Group {
        name: "faults at every call",
        tests: &[("layers", &["faults::"])],
    },
];

/// Runs them all.
///
/// # Errors
/// Something did not survive; the tests cannot be built.
pub(crate) fn run(root: &Path) -> Result<()> {
    plugins::build(root)?;
    let notes = target(root).join("tried.txt");
    let mut rows = Vec::new();
    for Group { name, tests } in GROUPS {
        fs::write(&notes, "")?;
        let mut counts = Counts::default();
        for (of, filters) in tests {
            // As the tests are built anyway: other features would build all of it again.
            let mut command = cargo(root, &["test", "--quiet", "--workspace", "--all-features"]);
            match *of {
                "lib" => command.arg("--lib"),
                test => command.args(["--test", test]),
            };
            // Faults are settings of the process, which tests side by side would share.
            command.args(["--", "--test-threads=1"]).args(*filters);
            command.env("THALWEG_TEST_TRIED", &notes);
            let (text, _) = passed_on(&mut command)?;
            let found = Counts::of(&text);
            if found.passed + found.failed == 0 {
                return Err(format!("{name}: no test of {of} ran").into());
            }
            counts.passed += found.passed;
            counts.failed += found.failed;
        }
        rows.push((name, counts.cases(&fs::read_to_string(&notes)?)));
    }
    println!("\n{}", table(&rows));
    match rows.iter().all(|(_, cases)| cases.tried == cases.survived) {
        true => Ok(()),
        false => Err("not everything survived".into()),
    }
}

/// Tests that passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cases {
    tried: u64,
    survived: u64,
}

impl Counts {
    /// From all that the test harness prints.
    fn of(text: &str) -> Counts {
        let mut counts = Counts::default();
        for line in text.lines().filter_map(|line| line.strip_prefix("test result: ")) {
            let number = |of: &str| {
                let mut parts = line.split(['.', ';']);
                let part = parts.find_map(|part| part.trim().strip_suffix(of));
                part.and_then(|part| part.trim().parse::<u64>().ok())
                    .unwrap_or_default()
            };
            counts.passed += number("passed");
            counts.failed += number("failed");
        }
        counts
    }

    /// With what tests have noted, a number a line: each such test stands for so many cases, every other for one.
    fn cases(self, notes: &str) -> Cases {
        let noted: Vec<u64> = notes.lines().filter_map(|line| line.parse().ok()).collect();
        let survived = self.passed.saturating_sub(noted.len() as u64) + noted.iter().sum::<u64>();
        Cases {
            tried: survived + self.failed,
            survived,
        }
    }
}

fn table(rows: &[(&str, Cases)]) -> String {
    let mut text = "| group | tried | survived |\n|---|---|---|\n".to_owned();
    let sum = |of: fn(&Cases) -> u64| rows.iter().map(|(_, cases)| of(cases)).sum();
    let all = Cases {
        tried: sum(|cases| cases.tried),
        survived: sum(|cases| cases.survived),
    };
    for (group, Cases { tried, survived }) in rows.iter().chain([&("all", all)]) {
        text += &format!("| {group} | {tried} | {survived} |\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_results_count() {
        let text = "running 2 tests\n\ntest result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out\n\
                    running 5 tests\ntest result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; finished in 1.20s\n";
        let counts = Counts::of(text);
        assert_eq!(
            counts,
            Counts {
                passed: 15,
                failed: 2
            }
        );
        assert_eq!(Counts::of("error: could not compile"), Counts::default());
        // Two of the fifteen stand for many.
        let cases = counts.cases("320\n12\n");
        assert_eq!(
            cases,
            Cases {
                tried: 13 + 332 + 2,
                survived: 13 + 332
            }
        );
    }

    #[test]
    fn the_table_ends_with_all() {
        let cases = |tried, survived| Cases { tried, survived };
        let text = table(&[("a", cases(3, 3)), ("b", cases(2, 1))]);
        assert!(text.ends_with("| a | 3 | 3 |\n| b | 2 | 1 |\n| all | 5 | 4 |\n"));
    }
}
