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
use super::trail::{Stage, Trail};
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
    trail: &mut Trail,
) -> Result<&'static Backend, LoadError> {
    // Judged again: what is loaded is what was judged a moment ago, not when the program started.
    let mut judged = judge::follow(found, lock, trail)?;
    let sealed = judged.locked.then(|| Sealed::new(&judged.bytes)).transpose();
    let sealed = sealed.map_err(|error| LoadError::Seal(error.to_string()))?;
    let bytes = std::mem::take(&mut judged.bytes);
    if options.probe {
        trail.enter(Stage::Trial, Some(&found.path));
        let path = sealed.as_ref().map(|copy| probe::path_of_descriptor(copy.fd()));
        let path = path.as_ref().unwrap_or(&judged.path);
        trail.found(first_load(path, &lock::sha256(&bytes), options, cache)?);
    }
    drop(bytes);
    let path = sealed.as_ref().map_or_else(|| judged.path.clone(), Sealed::path);
    let entry = open::open(&judged, &path, trail);
    if let Some(copy) = sealed {
        copy.keep();
    }
    open::start(entry?, &judged.manifest.name, Some(&judged.path), trail).map(leak)
}

fn first_load(path: &Path, sum: &str, options: &LoaderOptions, cache: &Cache) -> Result<String, LoadError> {
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
                return Ok(format!("left out: {error}"));
            }
        },
    };
    match outcome {
        // The system's loader runs nothing of what it refuses; `dlopen` will say the same, or find the library that
        // the child did not.
        ProbeOutcome::LoadError { text } => Ok(format!("the system's loader refuses it: {text}")),
        ProbeOutcome::Ok if remembered => Ok("loaded well in an earlier run".into()),
        ProbeOutcome::Ok => Ok("loads in a child process".into()),
        outcome => Err(LoadError::Probe { outcome, remembered }),
    }
}
