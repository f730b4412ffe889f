//! From a found file to a loaded backend.

use super::cache::Cache;
use super::discover::{Folder, Found};
use super::error::LoadError;
use super::judge::{self, Judged};
use super::layers::Chain;
use super::lock::{self, LOCK_FILE, Lock};
use super::open::{self, Backend};
use super::options::LoaderOptions;
use super::probe::{self, ProbeOutcome};
use super::sealed::Sealed;
use super::state::State;
use super::trail::{Stage, Trail};
use super::trust;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use thalweg_hal::tables::{ENTRY_SYMBOL, LAYER_SYMBOL, LayerEntry};

/// Keeps a backend as long as the process.
pub(super) fn leak(backend: Backend) -> &'static Backend {
    Box::leak(Box::new(backend))
}

/// The lock file of a folder; others must not be able to write it.
pub(super) fn lock_of(folder: &Folder) -> Result<Option<Lock>, LoadError> {
    // Whose it is and that it is a file comes first: a pipe or a device would be read for ever.
    let path = folder.path.join(LOCK_FILE);
    if path.symlink_metadata().is_ok() {
        trust::file(&path, folder.origin.strictness())?;
    }
    Ok(Lock::of_folder(&folder.path)?)
}

/// Loads a backend's file after all checks, under `layers`.
pub(super) fn load_file(
    found: &Found,
    lock: Option<&Lock>,
    options: &LoaderOptions,
    cache: &Cache,
    layers: Chain<'_>,
    trail: &mut Trail,
) -> Result<&'static Backend, LoadError> {
    // Judged again: what is loaded is what was judged a moment ago, not when the program started.
    let judged = judge::follow(found, lock, trail)?.backend()?;
    let start = |judged: &Judged, path: &Path, trail: &mut Trail| {
        let entry = open::open(judged, path, ENTRY_SYMBOL, trail)?.ok_or(LoadError::NoEntry)?;
        open::start(entry, &judged.manifest.name, Some(&judged.path), layers, trail)
    };
    load(judged, options, cache, start, trail).map(leak)
}

/// Loads a layer's file after all checks.
pub(super) fn load_layer(
    found: &Found,
    lock: Option<&Lock>,
    options: &LoaderOptions,
    cache: &Cache,
    trail: &mut Trail,
) -> Result<LayerEntry, LoadError> {
    let judged = judge::follow(found, lock, trail)?.layer()?;
    if found.layer() != Some(judged.manifest.name.as_str()) {
        return Err(LoadError::Name {
            manifest: judged.manifest.name,
            tables: found.layer().unwrap_or_default().into(),
        });
    }
    let start = |judged: &Judged, path: &Path, trail: &mut Trail| {
        open::open(judged, path, LAYER_SYMBOL, trail)?.ok_or(LoadError::NoLayerEntry)
    };
    load(judged, options, cache, start, trail)
}

/// Tries what was judged, and has `start` load it from the copy at the path that it is given.
fn load<T>(
    mut judged: Judged,
    options: &LoaderOptions,
    cache: &Cache,
    start: impl FnOnce(&Judged, &Path, &mut Trail) -> Result<T, LoadError>,
    trail: &mut Trail,
) -> Result<T, LoadError> {
    let bytes = std::mem::take(&mut judged.bytes);
    let copy = Copy::of(&judged, &bytes)?;
    if options.probe {
        trail.enter(Stage::Trial, Some(&judged.path));
        trail.found(trial(&copy, &judged, &lock::sha256(&bytes), options, cache)?);
    }
    drop(bytes);
    let before = State::now();
    let started = start(&judged, &copy.path(), trail);
    copy.keep();
    // What it has changed is put back, whether or not it is used.
    let changes = before.restore();
    let started = started?;
    if !changes.lasting.is_empty() {
        return Err(LoadError::Host(changes.lasting.join(", ")));
    }
    if !changes.undone.is_empty() {
        tracing::warn!(
            path = %judged.path.display(),
            "the plugin changed what belongs to the whole process, which was put back: {}",
            changes.undone.join(", ")
        );
    }
    Ok(started)
}

/// The content that was judged, as a file that nobody can change or exchange.
struct Copy {
    sealed: Sealed,
}

impl Copy {
    fn of(judged: &Judged, bytes: &[u8]) -> Result<Copy, LoadError> {
        use std::os::unix::ffi::OsStrExt;
        let name = judged.path.file_name().unwrap_or_default().as_bytes();
        // The system takes names of up to 249 bytes.
        let name = CString::new(&name[..name.len().min(200)]).unwrap_or_default();
        let sealed = Sealed::new(&name, bytes).map_err(|error| LoadError::Seal(error.to_string()))?;
        match sealed.path().exists() {
            true => Ok(Copy { sealed }),
            false => Err(LoadError::Seal("/proc is not there".into())),
        }
    }

    fn path(&self) -> PathBuf {
        self.sealed.path()
    }

    fn path_in_child(&self) -> PathBuf {
        probe::path_of_descriptor(self.sealed.fd())
    }

    fn keep(self) {
        self.sealed.keep();
    }
}

/// The outcome of a trial in a child process, or of an earlier one of the same content.
fn trial(
    copy: &Copy,
    judged: &Judged,
    sum: &str,
    options: &LoaderOptions,
    cache: &Cache,
) -> Result<String, LoadError> {
    let remembered = cache
        .get(sum)
        .filter(|outcome| *outcome == ProbeOutcome::Ok || !options.retry);
    let (outcome, remembered) = match remembered {
        Some(outcome) => (outcome, true),
        None => {
            let outcome = probe::probe(&copy.path_in_child(), options.timeout)
                .map_err(|error| LoadError::NoTrial(error.to_string()))?;
            cache.put(sum, &outcome);
            (outcome, false)
        }
    };
    match outcome {
        ProbeOutcome::LoadError { text } => Err(open::refusal(&text, Path::new(""), judged)),
        ProbeOutcome::Ok if remembered => Ok("came to its end in an earlier run".into()),
        ProbeOutcome::Ok => Ok("loads, starts and lists its devices in a child process".into()),
        outcome => Err(LoadError::Probe { outcome, remembered }),
    }
}
