//! Every kind of bad plugin is one clear row, and neither the process nor the other backends suffer from it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod attacks;
mod files;
mod folders;
#[path = "../../../tests/tests/plugins/tried.rs"]
mod tried;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use thalweg_runtime::loader::discover::{Surroundings, file_name};
use thalweg_runtime::loader::{Candidate, LoaderOptions, Registry};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bad_plugins/plugin.c");

/// The files that this process has mapped. Names of plugins of other tests need be no UTF-8.
fn mapped() -> String {
    let maps = std::fs::read("/proc/self/maps").unwrap();
    String::from_utf8_lossy(&maps).into_owned()
}

/// A folder for one test with an empty memory of probes.
struct Place {
    _temp: tempfile::TempDir,
    root: PathBuf,
}

impl Place {
    fn new() -> Place {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("plugins")).unwrap();
        Place { _temp: temp, root }
    }

    fn plugins(&self) -> PathBuf {
        self.root.join("plugins")
    }

    /// The path of the plugin file for `target`.
    fn file(&self, target: &str) -> PathBuf {
        self.plugins().join(file_name(target))
    }

    /// Compiles the plugin `target` with further definitions.
    fn build(&self, target: &str, defines: &[&str]) -> PathBuf {
        let path = self.file(target);
        compile(&path, target, defines, &[]);
        path
    }

    fn write(&self, target: &str, bytes: &[u8]) {
        std::fs::write(self.file(target), bytes).unwrap();
    }

    fn options(&self) -> LoaderOptions {
        LoaderOptions {
            folders: vec![self.plugins()],
            timeout: Duration::from_millis(800),
            cache: Some(self.root.join("probed.json")),
            ..LoaderOptions::default()
        }
    }

    fn registry(&self) -> Registry {
        Registry::with(self.options(), &[], &Surroundings::default())
    }

    /// The text of each row about a file or folder of this place, after the target's name; the place is `DIR`.
    fn rows(&self) -> Vec<String> {
        self.texts(&self.registry().candidates())
    }

    fn texts(&self, rows: &[Candidate]) -> Vec<String> {
        let dir = self.root.display().to_string();
        let own = rows.iter().filter(|row| row.path.is_some());
        own.map(|row| format!("{}  {}", row.target, row.outcome).replace(&dir, "DIR"))
            .collect()
    }
}

fn compile(path: &Path, target: &str, defines: &[&str], arguments: &[&str]) {
    let done = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(path)
        .arg(format!("-DNAME=\"{target}\""))
        .args(defines.iter().map(|define| format!("-D{define}")))
        .arg(SOURCE)
        .args(arguments)
        .status()
        .unwrap();
    assert!(done.success());
}
