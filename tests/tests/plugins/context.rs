//! Contexts on every backend that runs kernels.

use crate::plugins::{built, skip};
use std::path::PathBuf;
use thalweg::Context;
use thalweg::hal::{DeviceOptions, Runtime, Status};
use thalweg::loader::{LoaderOptions, Registry};

/// A context on a device of its own; a plugin of this build takes the embedded backend's place. None where the machine has
/// no device of the kind.
pub(crate) fn context(target: &str, plugin: bool) -> Option<Context> {
    let folder = |file: PathBuf| file.parent().unwrap().to_owned();
    let built = plugin.then(|| folder(built(&format!("thalweg_{target}"))));
    let options = LoaderOptions {
        folders: built.into_iter().collect(),
        development: false,
        cache: None,
        ..LoaderOptions::default()
    };
    let runtime = Runtime::new(Registry::new(options));
    let backend = runtime.backend(target).unwrap();
    match backend.open(&DeviceOptions::new(0).block_size(8 << 20)) {
        Ok(device) => Some(Context::on(device)),
        Err(error) if error.status() == Status::Unavailable => {
            skip::skip(target, error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}
