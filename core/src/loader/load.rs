//! From a found file to a loaded backend.

use super::cache::Cache;
use super::discover::{Folder, Found};
use super::error::LoadError;
use super::judge;
use super::lock::{self, LOCK_FILE, Lock};
use super::open::{self, Backend};
use super::options::LoaderOptions;
use super::probe::{self, ProbeOutcome};
use super::sealed::Sealed;
use super::trust;
use std::path::Path;

/// Keeps a backend as long as the process.
pub(super) fn leak(backend: Backend) -> &'static Backend {
    Box::leak(Box::new(backend))
}

/// The lock file of a folder; others must not be able to write it.
pub(super) fn lock_of(folder: &Folder) -> Result<Option<Lock>, LoadError> {
    let lock = Lock::of_folder(&folder.path)?;
    if lock.is_some() {
        trust::file(&folder.path.join(LOCK_FILE), folder.origin.strictness())?;
    }
    Ok(lock)
}

/// Loads a file after all checks.
pub(super) fn load_file(
    found: &Found,
    lock: Option<&Lock>,
    options: &LoaderOptions,
    cache: &Cache,
) -> Result<&'static Backend, LoadError> {
    // Judged again: what is loaded is what was judged a moment ago, not when the program started.
    let mut judged = judge::judge(found, lock)?;
    let sealed = judged.locked.then(|| Sealed::new(&judged.bytes)).transpose();
    let sealed = sealed.map_err(|error| LoadError::Seal(error.to_string()))?;
    let bytes = std::mem::take(&mut judged.bytes);
    if options.probe {
        let path = sealed.as_ref().map(|copy| probe::path_of_descriptor(copy.fd()));
        first_load(
            path.as_ref().unwrap_or(&judged.path),
            &lock::sha256(&bytes),
            options,
            cache,
        )?;
    }
    drop(bytes);
    let path = sealed.as_ref().map_or_else(|| judged.path.clone(), Sealed::path);
    let entry = open::open(&judged, &path);
    if let Some(copy) = sealed {
        copy.keep();
    }
    open::start(entry?, &judged.manifest.name, Some(&judged.path)).map(leak)
}

fn first_load(path: &Path, sum: &str, options: &LoaderOptions, cache: &Cache) -> Result<(), LoadError> {
    let remembered = cache
        .get(sum)
        .filter(|outcome| *outcome == ProbeOutcome::Ok || !options.retry);
    let (outcome, remembered) = match remembered {
        Some(outcome) => (outcome, true),
        None => match probe::probe(path, options.timeout) {
            Ok(outcome) => {
                cache.put(sum, &outcome);
                (outcome, false)
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the plugin is loaded without a trial in a child process");
                return Ok(());
            }
        },
    };
    match outcome {
        // The system's loader runs nothing of what it refuses; `dlopen` will say the same, or find the library that
        // the child did not.
        ProbeOutcome::Ok | ProbeOutcome::LoadError { .. } => Ok(()),
        outcome => Err(LoadError::Probe { outcome, remembered }),
    }
}
