//! Any text is options of a profile, or an error of one line that names a key.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg::observe::ProfileOptions;

fuzz_target!(|text: &str| {
    match ProfileOptions::from_json(text) {
        Ok(options) => {
            options.check().expect("options that were read are allowed");
            let _ = options.builder();
            let _ = options.check_points(&["layers", "layers.0"]);
        }
        Err(error) => {
            let line = error.to_string();
            assert!(!line.is_empty() && !line.contains('\n'), "{line}");
        }
    }
});
