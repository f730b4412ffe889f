//! Every test that does harm on purpose, as a table: what was tried, and what survived.

use crate::process::exists;
use crate::{Result, plugins, suite};
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
        tests: &[("layers", &["faults::", "later::"]), ("training", &["faults::"])],
    },
];

/// Runs them all.
///
/// # Errors
/// Something did not survive; the tests cannot be built; there is no cargo-nextest, which gives each test a process of its own.
pub(crate) fn run(root: &Path) -> Result<()> {
    if !exists("cargo-nextest") {
        return Err("there is no `cargo-nextest`; cargo install cargo-nextest".into());
    }
    plugins::build(root)?;
    let (report, notes) = suite::reported(root, &["--filterset", &filter()])?;
    judge(&report, &notes)
}

/// Prints the table of a run of tests, from its report and from what the tests noted of themselves.
///
/// # Errors
/// Something did not survive, or a group did not run.
pub(crate) fn judge(report: &str, notes: &str) -> Result<()> {
    let tests = tests_of(report);
    let mut rows = Vec::new();
    for group in &GROUPS {
        let mut cases = Cases::default();
        let meant = |test: &&Test| group.tests.iter().any(|(of, names)| test.is_one(of, names));
        for test in tests.iter().filter(meant) {
            let noted = notes.lines().filter_map(|line| test.noted(line)).max();
            let count = noted.unwrap_or(1);
            cases.tried += count;
            cases.survived += if test.passed { count } else { 0 };
        }
        if cases.tried == 0 {
            return Err(format!("{}: no test ran", group.name).into());
        }
        rows.push((group.name, cases));
    }
    println!("\n{}", table(&rows));
    match rows.iter().all(|(_, cases)| cases.tried == cases.survived) {
        true => Ok(()),
        false => Err("not everything survived".into()),
    }
}

/// What nextest selects the tests of all groups by.
fn filter() -> String {
    let tests = GROUPS.iter().flat_map(|group| group.tests);
    let one = |(of, names): &(&str, &[&str])| {
        let of = match *of {
            "lib" => "kind(lib)".to_owned(),
            test => format!("binary({test})"),
        };
        let names: Vec<_> = names.iter().map(|name| format!("test(/^{name}/)")).collect();
        match names.is_empty() {
            true => format!("({of})"),
            false => format!("({of} & ({}))", names.join(" | ")),
        }
    };
    tests.map(one).collect::<Vec<_>>().join(" | ")
}

/// A test that ran.
#[derive(Debug, PartialEq, Eq)]
struct Test<'a> {
    /// Its binary: a package, and behind `::` a target that is not the library.
    binary: &'a str,
    name: &'a str,
    passed: bool,
}

impl Test<'_> {
    fn is_one(&self, of: &str, names: &[&str]) -> bool {
        let target = self.binary.split_once("::").map_or("lib", |(_, target)| target);
        target == of && (names.is_empty() || names.iter().any(|name| self.name.starts_with(name)))
    }

    /// The number of cases in a line that this test has noted: its target, its name and the number.
    fn noted(&self, line: &str) -> Option<u64> {
        let mut words = line.split('\t');
        let (target, name, count) = (words.next()?, words.next()?, words.next()?);
        let own = self.binary.rsplit("::").next()?.replace('-', "_");
        (own == target && self.name == name).then(|| count.parse().ok())?
    }
}

/// The tests of a report in the form of JUnit.
fn tests_of(report: &str) -> Vec<Test<'_>> {
    let attribute = |text: &'_ str, name: &str| -> Option<(usize, usize)> {
        let start = text.find(&format!(" {name}=\""))? + name.len() + 3;
        Some((start, start + text[start..].find('"')?))
    };
    let one = |text| {
        let text: &str = text;
        let head = &text[..text.find('>')?];
        let (binary, name) = (attribute(head, "classname")?, attribute(head, "name")?);
        Some(Test {
            binary: &head[binary.0..binary.1],
            name: &head[name.0..name.1],
            passed: !text.contains("<failure") && !text.contains("<error"),
        })
    };
    report.split("<testcase").skip(1).filter_map(one).collect()
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cases {
    tried: u64,
    survived: u64,
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
    fn tests_count_with_what_they_noted() {
        let report = r#"<testsuites name="nextest-run"><testsuite name="thalweg::limits" tests="2">
            <testcase name="windows_past_the_end" classname="thalweg::limits" time="0.1">
            </testcase>
            <testcase name="counts_at_the_limit" classname="thalweg::limits" time="0.2">
                <failure message="a panic" type="test failure">text</failure>
            </testcase></testsuite><testsuite name="thalweg-hal" tests="1">
            <testcase name="kit::file::modes" classname="thalweg-hal" time="0.1"/></testsuite></testsuites>"#;
        let tests = tests_of(report);
        let test = |binary, name, passed| Test { binary, name, passed };
        assert_eq!(
            tests,
            [
                test("thalweg::limits", "windows_past_the_end", true),
                test("thalweg::limits", "counts_at_the_limit", false),
                test("thalweg-hal", "kit::file::modes", true),
            ]
        );
        assert!(tests[0].is_one("limits", &["counts_", "windows_"]));
        assert!(!tests[0].is_one("limits", &["counts_"]) && !tests[0].is_one("depth", &[]));
        assert!(tests[2].is_one("lib", &["kit::file::"]) && !tests[0].is_one("lib", &[]));
        assert_eq!(tests[0].noted("limits\twindows_past_the_end\t320"), Some(320));
        assert_eq!(tests[0].noted("depth\twindows_past_the_end\t320"), None);
        assert_eq!(tests[2].noted("thalweg_hal\tkit::file::modes\t12"), Some(12));
        let error = judge(report, "").unwrap_err().to_string();
        assert_eq!(error, format!("{}: no test ran", GROUPS[0].name));
    }

    #[test]
    fn the_table_ends_with_all() {
        let cases = |tried, survived| Cases { tried, survived };
        let text = table(&[("a", cases(3, 3)), ("b", cases(2, 1))]);
        assert!(text.ends_with("| a | 3 | 3 |\n| b | 2 | 1 |\n| all | 5 | 4 |\n"));
    }
}
