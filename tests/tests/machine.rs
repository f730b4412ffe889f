//! What this machine lacks for other tests. `.config/nextest.toml` shows what this one writes, so that a plain run of the tests says
//! what it left out.
#![allow(clippy::unwrap_used, reason = "a test")]

mod plugins;

use thalweg::hal::{Runtime, Status};
use thalweg::loader::{LoaderOptions, Registry};

#[test]
fn what_is_left_out() {
    for target in ["opencl", "cuda"] {
        let file = plugins::built(&format!("thalweg_{target}"));
        let options = LoaderOptions {
            folders: vec![file.parent().unwrap().to_owned()],
            ..LoaderOptions::default()
        };
        let runtime = Runtime::new(Registry::new(options));
        let counted = runtime
            .backend(target)
            .and_then(|backend| Ok(backend.device_count()?));
        if let Err(error) = counted {
            assert_eq!(error.status(), Some(Status::Unavailable), "{error}");
            eprintln!(
                "SKIPPED: tests that need a device of {target}: {}",
                plugins::skip::reason(target, error)
            );
        }
    }
}
