//! How many cases a test has tried, for the table of `cargo xtask attack`.

use std::fs::OpenOptions;
use std::io::Write;

/// The file in which `cargo xtask test` and `cargo xtask attack` collect the numbers.
const RECORD: &str = "THALWEG_TEST_TRIED";

/// Notes how many cases the present test has tried. It is the last that the test does, so a case that failed notes nothing.
pub(crate) fn tried(cases: usize) {
    let Some(path) = std::env::var_os(RECORD) else {
        return;
    };
    // The harness runs each test on a thread of its name.
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let line = format!("{}\t{test}\t{cases}\n", env!("CARGO_CRATE_NAME"));
    let file = OpenOptions::new().create(true).append(true).open(&path);
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
