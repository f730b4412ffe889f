//! Runs every test, and counts what ran: a test that its machine cannot run has not passed.

use crate::process::{cargo, exists, passed_on, run as execute, shown};
use crate::{Result, attack, ci, plugins, target};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What was not done, and for want of what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Skip {
    /// What the machine lacks, as one word: `opencl`, `cuda`, `compiler`, `plugin`, `machine`; `ignored` for a test that is
    /// marked so.
    pub(crate) needs: String,
    /// What was left out.
    pub(crate) what: String,
    /// Why, and what to install.
    pub(crate) why: String,
}

/// Tests that passed, failed, and did not run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: usize,
    failed: usize,
    skipped: Vec<Skip>,
}

impl Counts {
    /// What the tests have noted: a line each, of what is lacking, the test and the reason. They ended without a fault, so the
    /// runner counts them as passed.
    fn without(mut self, notes: &str) -> Counts {
        let mut noted: Vec<Skip> = Vec::new();
        for line in notes.lines() {
            let mut words = line.splitn(3, '\t').map(str::to_owned);
            let (Some(needs), Some(what), Some(why)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            // Some start themselves again as a child.
            if noted.iter().all(|skip| skip.what != what) {
                noted.push(Skip { needs, what, why });
            }
        }
        self.passed = self.passed.saturating_sub(noted.len());
        self.skipped.extend(noted);
        self
    }

    fn and(mut self, other: Counts) -> Counts {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped.extend(other.skipped);
        self
    }

    /// What the run says at its end: each reason with its tests, and the counts.
    fn text(&self) -> String {
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for skip in &self.skipped {
            reasons.entry(&skip.why).or_default().push(&skip.what);
        }
        let mut text = String::new();
        for (why, tests) in reasons {
            text += &format!("SKIPPED {}: {why}\n", tests.len());
            for test in tests {
                text += &format!("    {test}\n");
            }
        }
        let Counts {
            passed,
            failed,
            skipped,
        } = self;
        text + &format!("{passed} passed, {failed} failed, {} skipped\n", skipped.len())
    }
}

/// Builds the plugins that tests load, then runs every test of the workspace and every example in the documentation.
pub(crate) fn run(root: &Path, required: &[String]) -> Result<Vec<Skip>> {
    plugins::build(root)?;
    let notes = notes(root);
    let counts = if exists("cargo-nextest") {
        let main = nextest(root, &notes)?;
        main.and(by_cargo(root, &["--doc"], &notes)?)
    } else {
        by_cargo(root, &[], &notes)?
    };
    print!("\n{}", counts.text());
    let missing = missing(&counts.skipped, required);
    if counts.failed > 0 {
        return Err(format!("{} tests failed", counts.failed).into());
    }
    if let Some(why) = missing {
        return Err(why.into());
    }
    Ok(counts.skipped)
}

/// Why skips are a failure: what is required was there, and tests went without. Plugins always are: they were built.
pub(crate) fn missing(skipped: &[Skip], required: &[String]) -> Option<String> {
    let wanted = |skip: &&Skip| skip.needs == "plugin" || required.contains(&skip.needs);
    let first = skipped.iter().find(wanted)?;
    let count = skipped.iter().filter(wanted).count();
    let needs = &first.needs;
    Some(format!(
        "{count} left out that must run, as {needs} is required: {} ({})",
        first.what, first.why
    ))
}

/// A command whose tests note what they leave out, and the notes, once it has ended.
fn noting<'a>(command: &'a mut Command, root: &Path, notes: &Path) -> Result<&'a mut Command> {
    fs::write(notes, "")?;
    Ok(ci::programs_kept(command, root).env("THALWEG_TEST_SKIPPED", notes))
}

/// Runs every test, and judges those that do harm on purpose.
fn nextest(root: &Path, notes: &Path) -> Result<Counts> {
    let (report, tried) = reported(root, &[])?;
    let counts = of_report(&report).ok_or("the report of cargo-nextest has no counts")?;
    let counts = counts.without(&fs::read_to_string(notes)?);
    match attack::judge(&report, &tried) {
        Err(error) if counts.failed == 0 => Err(error),
        _ => Ok(counts),
    }
}

/// Runs tests by cargo-nextest. Returns its report, and what tests noted of how many cases they tried.
///
/// # Errors
/// No test ran; the runner failed and no test did.
pub(crate) fn reported(root: &Path, selected: &[&str]) -> Result<(String, String)> {
    let report: PathBuf = root.join("target/nextest/default/junit.xml");
    if report.exists() {
        fs::remove_file(&report)?;
    }
    let notes = notes(root);
    let tried = target(root).join("tried.txt");
    fs::write(&tried, "")?;
    let all = [
        "nextest",
        "run",
        "--workspace",
        "--all-features",
        "--no-fail-fast",
    ];
    let mut command = cargo(root, &[&all, selected].concat());
    noting(&mut command, root, &notes)?.env("THALWEG_TEST_TRIED", &tried);
    let ended = execute(&mut command);
    let Ok(report) = fs::read_to_string(&report) else {
        // It has not come so far.
        ended?;
        return Err(format!("`{}` wrote no report", shown(&command)).into());
    };
    if of_report(&report).is_some_and(|counts| counts.failed == 0) {
        ended?;
    }
    Ok((report, fs::read_to_string(tried)?))
}

/// Where tests note what they leave out.
fn notes(root: &Path) -> PathBuf {
    target(root).join("skipped-tests.txt")
}

/// The counts of a report in the form of JUnit.
fn of_report(report: &str) -> Option<Counts> {
    let (_, rest) = report.split_once("<testsuites ")?;
    let (head, _) = rest.split_once('>')?;
    let number = |name: &str| -> Option<usize> {
        let (_, rest) = head.split_once(&format!(" {name}=\""))?;
        rest.split_once('"')?.0.parse().ok()
    };
    let failed = number("failures")? + number("errors")?;
    Some(Counts {
        passed: number("tests")?.checked_sub(failed)?,
        failed,
        skipped: Vec::new(),
    })
}

fn by_cargo(root: &Path, kinds: &[&str], notes: &Path) -> Result<Counts> {
    let mut command = cargo(root, &["test", "--workspace", "--all-features", "--no-fail-fast"]);
    let (text, success) = passed_on(noting(command.args(kinds), root, notes)?)?;
    let counts = of_lines(&text);
    if !success && counts.failed == 0 {
        return Err(format!("`{}` failed", shown(&command)).into());
    }
    Ok(counts.without(&fs::read_to_string(notes)?))
}

/// The counts of what the standard harness writes.
fn of_lines(text: &str) -> Counts {
    let mut counts = Counts::default();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("test result: ") {
            let words: Vec<&str> = rest.split([' ', ';']).filter(|word| !word.is_empty()).collect();
            let number = |what: &str| -> usize {
                let pair = words.windows(2).find(|pair| pair[1] == what);
                pair.and_then(|pair| pair[0].parse().ok()).unwrap_or_default()
            };
            counts.passed += number("passed");
            counts.failed += number("failed");
        } else if let Some((test, mark)) = line
            .strip_prefix("test ")
            .and_then(|line| line.rsplit_once(" ... ignored"))
        {
            counts.skipped.push(Skip {
                needs: "ignored".into(),
                what: test.to_owned(),
                why: mark
                    .strip_prefix(", ")
                    .unwrap_or("it is marked as ignored")
                    .to_owned(),
            });
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skip(needs: &str, what: &str, why: &str) -> Skip {
        Skip {
            needs: needs.into(),
            what: what.into(),
            why: why.into(),
        }
    }

    const NOTES: &str = "opencl\tkit::opencl a1\tno driver; apt-get install pocl-opencl-icd\n\
                         opencl\tkit::opencl a1\tno driver; apt-get install pocl-opencl-icd\n\
                         cuda\tkit::ops chosen::unary\tno libcuda.so.1\n\
                         opencl\tkit::tensors all\tno driver; apt-get install pocl-opencl-icd\n";

    #[test]
    fn what_did_not_run_has_not_passed() {
        let report = "<?xml version=\"1.0\"?>\n<testsuites name=\"nextest-run\" tests=\"949\" failures=\"2\" errors=\"1\" \
                      uuid=\"x\"><testsuite name=\"a\" tests=\"3\"></testsuite></testsuites>";
        let counts = of_report(report).unwrap().without(NOTES);
        assert_eq!((counts.passed, counts.failed, counts.skipped.len()), (943, 3, 3));
        assert_eq!(
            counts.text(),
            "SKIPPED 2: no driver; apt-get install pocl-opencl-icd\n    kit::opencl a1\n    kit::tensors all\n\
             SKIPPED 1: no libcuda.so.1\n    kit::ops chosen::unary\n\
             943 passed, 3 failed, 3 skipped\n"
        );
        assert_eq!(of_report("<testsuite/>"), None);
    }

    #[test]
    fn the_lines_of_the_harness_are_counted() {
        let text = "running 3 tests\ntest a ... ok\ntest b ... ignored, takes an hour\ntest c - d (line 3) ... ignored\n\n\
                    test result: ok. 41 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.1s\n\
                    test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 9 filtered out\n";
        let counts = of_lines(text).without(NOTES);
        assert_eq!((counts.passed, counts.failed), (43, 2));
        assert_eq!(
            counts.skipped[..2],
            [
                skip("ignored", "b", "takes an hour"),
                skip("ignored", "c - d (line 3)", "it is marked as ignored")
            ]
        );
        assert_eq!(counts.skipped.len(), 5);
    }

    /// What was installed, or built, and is not used, is no skip.
    #[test]
    fn what_is_required_must_run() {
        let skipped = Counts::default().without(NOTES).skipped;
        assert_eq!(missing(&skipped, &[]), None);
        assert_eq!(missing(&skipped, &["compiler".into()]), None);
        assert_eq!(
            missing(&skipped, &["opencl".into()]).unwrap(),
            "2 left out that must run, as opencl is required: kit::opencl a1 (no driver; apt-get install pocl-opencl-icd)"
        );
        assert!(missing(&[skip("plugin", "a", "b")], &[]).is_some());
    }
}
