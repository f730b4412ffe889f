//! Any text is options of a dump, or an error of one line that names a key.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg::observe::{DumpOptions, Iterations};

fuzz_target!(|text: &str| {
    match DumpOptions::from_json(text) {
        Ok(options) => options.check().expect("options that were read are allowed"),
        Err(error) => is_one_line(&error),
    }
    match text.parse::<Iterations>() {
        Ok(iterations) => {
            let again: Iterations = iterations.to_string().parse().expect("its text is one");
            assert_eq!(iterations, again);
        }
        Err(error) => is_one_line(&error),
    }
});

fn is_one_line(error: &thalweg::Error) {
    let line = error.to_string();
    assert!(!line.is_empty() && !line.contains('\n'), "{line}");
}
