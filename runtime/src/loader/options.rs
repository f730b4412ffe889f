//! What a program decides about loading.

use super::cache::Cache;
use std::path::PathBuf;
use std::time::Duration;

/// What a program decides about loading plugins.
///
/// ```
/// use thalweg_runtime::loader::LoaderOptions;
/// let options = LoaderOptions { folders: vec!["/opt/acme/backends".into()], ..LoaderOptions::default() };
/// assert!(options.probe);
/// ```
#[derive(Clone, Debug)]
pub struct LoaderOptions {
    /// Folders that are searched before all others; absolute.
    pub folders: Vec<PathBuf>,
    /// Layers between the program and every backend, the first nearest to the program; empty for those of `THALWEG_LAYERS`.
    pub layers: Vec<String>,
    /// Whether `THALWEG_BACKEND_PATH` and `THALWEG_LAYERS` are read and the user's own folder is searched. None of
    /// it is in a program with raised privileges.
    pub use_environment: bool,
    /// Whether the folders beside the executable are searched.
    pub use_executable: bool,
    /// Whether the build folder is searched where the executable lies in one.
    pub development: bool,
    /// Whether an unknown file is loaded in a child process first.
    pub probe: bool,
    /// Whether files whose load in a child process ended badly in an earlier run get another try.
    pub retry: bool,
    /// How long a load in a child process may take.
    pub timeout: Duration,
    /// The file that remembers how such loads ended; `None` for no memory.
    pub cache: Option<PathBuf>,
}

impl Default for LoaderOptions {
    fn default() -> LoaderOptions {
        LoaderOptions {
            folders: Vec::new(),
            layers: Vec::new(),
            use_environment: true,
            use_executable: true,
            development: true,
            probe: true,
            retry: false,
            timeout: Duration::from_secs(5),
            cache: Cache::default_path(),
        }
    }
}
