//! Tests that this machine cannot run. They say so on standard error, and `cargo xtask test` counts them as skipped.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;

/// The file in which `cargo xtask test` collects the tests that did not run.
const RECORD: &str = "THALWEG_TEST_SKIPPED";

/// Notes that the present test does not run because the machine lacks `needs`: `opencl`, `cuda`, `compiler`, `plugin`, or
/// `machine` for what cannot be installed. `why` is what was found; its first line counts.
pub(crate) fn skip(needs: &str, why: impl Display) {
    let reason = reason(needs, why);
    let test = format!(
        "{}::{} {}",
        env!("CARGO_PKG_NAME"),
        env!("CARGO_CRATE_NAME"),
        test_name()
    );
    // Not by a macro: the harness would keep the line of a test that passes.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason}");
    let Some(path) = std::env::var_os(RECORD) else {
        return;
    };
    let line = format!("{needs}\t{test}\t{reason}\n");
    let file = OpenOptions::new().create(true).append(true).open(&path);
    // A skip that is not counted would be counted as passed.
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Ends the present test because the machine lacks what it cannot do without. Where each test has a process of its own, it is
/// skipped; elsewhere the process is that of other tests too, and it fails.
pub(crate) fn cannot_run(needs: &str, why: impl Display) -> ! {
    if std::env::var_os("NEXTEST_EXECUTION_MODE").is_some_and(|mode| mode == "process-per-test") {
        skip(needs, why);
        std::process::exit(0);
    }
    panic!("{}", reason(needs, why));
}

/// The first line of why, and what to install.
pub(crate) fn reason(needs: &str, why: impl Display) -> String {
    let why = why.to_string();
    let why = why.lines().next().unwrap_or_default();
    match hint(needs) {
        Some(hint) => format!("{why}; {hint}"),
        None => why.to_owned(),
    }
}

fn hint(needs: &str) -> Option<&'static str> {
    Some(match needs {
        "opencl" => "for a processor PoCL will do: apt-get install pocl-opencl-icd",
        "cuda" => "it takes an NVIDIA GPU with its driver, 525 or later",
        "compiler" => "apt-get install gcc g++",
        "plugin" => "`cargo xtask plugins` builds it",
        _ => return None,
    })
}

/// The harness runs each test on a thread of its name.
fn test_name() -> String {
    let thread = std::thread::current();
    thread.name().unwrap_or("a test").to_owned()
}
