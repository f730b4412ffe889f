//! Layers: their chain, faults that they inject, errors that they find.
#![allow(clippy::unwrap_used, reason = "a test")]

mod chain;
mod faults;
mod later;
#[path = "../plugins/mod.rs"]
mod plugins;

use std::path::PathBuf;
use thalweg::hal::Runtime;
use thalweg::loader::{LoaderOptions, Registry};

/// The loader's options with layers and a folder of files, and nothing of this machine.
fn options(layers: &[&str], folders: Vec<PathBuf>) -> LoaderOptions {
    LoaderOptions {
        folders,
        layers: layers.iter().copied().map(String::from).collect(),
        use_environment: false,
        use_executable: false,
        development: false,
        cache: None,
        ..LoaderOptions::default()
    }
}

/// The backends under layers.
fn runtime(layers: &[&str]) -> Runtime {
    Runtime::new(Registry::new(options(layers, Vec::new())))
}
