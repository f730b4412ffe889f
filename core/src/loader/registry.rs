//! The backends of a process: which there are, which are loaded, what became of the others.

use super::cache::Cache;
use super::discover::{self, Folder, Found, Origin, Surroundings};
use super::error::LoadError;
use super::judge;
use super::load::{leak, load_file, lock_of};
use super::lock::Lock;
use super::open::{self, Backend};
use super::options::LoaderOptions;
use super::report::{Candidate, Outcome, WELL_KNOWN};
use crate::error::Error;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;
use thalweg_hal::backend;
use thalweg_hal::tables::Entry;

/// A backend that is linked into the program.
#[derive(Clone, Copy, Debug)]
pub struct Embedded {
    /// The target's name.
    pub name: &'static str,
    /// Its entry function, the same as a plugin's.
    pub entry: Entry,
}

impl Embedded {
    /// The backend `B`.
    pub const fn of<B: backend::Backend>() -> Embedded {
        Embedded {
            name: B::NAME,
            entry: thalweg_hal::export::entry::<B>,
        }
    }
}

/// The backends that this crate's features link in.
pub const EMBEDDED: &[Embedded] = &[
    #[cfg(feature = "embedded-cpu")]
    Embedded::of::<thalweg_backend_cpu::CpuBackend>(),
];

/// The backends of a process. Nothing is loaded before it is asked for.
#[derive(Debug)]
pub struct Registry {
    options: LoaderOptions,
    cache: Cache,
    /// In the order of precedence.
    slots: Vec<Slot>,
    folders: Vec<Candidate>,
}

#[derive(Debug)]
struct Slot {
    name: String,
    source: Source,
    state: OnceLock<Result<&'static Backend, LoadError>>,
}

#[derive(Debug)]
enum Source {
    Embedded(Embedded),
    File {
        found: Found,
        lock: Result<Option<Lock>, LoadError>,
    },
}

impl Slot {
    fn path(&self) -> Option<&Path> {
        match &self.source {
            Source::Embedded(_) => None,
            Source::File { found, .. } => Some(&found.path),
        }
    }

    fn by(&self) -> String {
        self.path()
            .map_or_else(|| "the embedded one".into(), |path| path.display().to_string())
    }
}

impl Registry {
    /// Looks for plugins as `options` say, with this crate's embedded backends.
    pub fn new(options: LoaderOptions) -> Registry {
        Registry::with(options, EMBEDDED, &Surroundings::of_process())
    }

    /// Looks for plugins in given surroundings, with the given embedded backends.
    pub fn with(options: LoaderOptions, embedded: &[Embedded], around: &Surroundings) -> Registry {
        let around = Surroundings {
            variable: around.variable.clone().filter(|_| options.use_environment),
            executable: around.executable.clone().filter(|_| options.use_executable),
            privileged: around.privileged,
        };
        let (searched, mut refused) = discover::folders(&options.folders, options.development, &around);
        let (files, unreadable) = discover::files(&searched);
        refused.extend(unreadable);
        let locks: BTreeMap<&Path, _> = searched.iter().map(|f| (f.path.as_path(), lock_of(f))).collect();
        let file = |found: &Found| {
            let lock = locks
                .get(found.folder.path.as_path())
                .cloned()
                .unwrap_or(Ok(None));
            Slot::file(found.clone(), lock)
        };
        // What is embedded was built with the program; a file in the build folder may be older.
        let (built, installed): (Vec<_>, Vec<_>) = files
            .iter()
            .partition(|found| found.folder.origin == Origin::Development);
        let mut slots: Vec<Slot> = installed.into_iter().map(file).collect();
        slots.extend(embedded.iter().map(|embedded| Slot {
            name: embedded.name.into(),
            source: Source::Embedded(*embedded),
            state: OnceLock::new(),
        }));
        slots.extend(built.into_iter().map(file));
        let cache = Cache::new(options.cache.clone());
        Registry {
            options,
            cache,
            slots,
            folders: refused,
        }
    }

    /// The names of the targets that have a candidate that is not known to be unusable.
    pub fn targets(&self) -> Vec<String> {
        let mut names = Vec::new();
        for slot in &self.slots {
            if !matches!(slot.state.get(), Some(Err(_))) && !names.contains(&slot.name) {
                names.push(slot.name.clone());
            }
        }
        names
    }

    /// The backend of `target`, loaded now if it was not yet. Of several candidates the first sound one is taken.
    ///
    /// # Errors
    /// [`Error::NoSuchTarget`] when there is no candidate, [`Error::Load`] with the first one's reason when none is
    /// sound.
    pub fn get(&self, target: &str) -> Result<&'static Backend, Error> {
        let mut failure = None;
        for slot in self.slots.iter().filter(|slot| slot.name == target) {
            match self.load(slot) {
                Ok(backend) => return Ok(backend),
                Err(error) => failure = failure.or(Some((slot, error))),
            }
        }
        match failure {
            Some((slot, error)) if slot.path().is_some() => Err(Error::Load {
                target: target.into(),
                path: slot.path().unwrap_or(Path::new("")).to_path_buf(),
                error: Box::new(error),
            }),
            failure => Err(Error::NoSuchTarget {
                asked: target.into(),
                found: self.targets(),
                reason: failure
                    .map(|(_, error)| error.to_string())
                    .or_else(|| absence(target)),
            }),
        }
    }

    /// Every candidate and what became of it: files and embedded backends in the order of precedence, folders that
    /// were refused, well-known targets without a candidate. Loads what was not loaded yet.
    pub fn candidates(&self) -> Vec<Candidate> {
        let mut first: BTreeMap<&str, &Slot> = BTreeMap::new();
        let mut rows = Vec::new();
        for slot in &self.slots {
            let (outcome, detail) = match first.get(slot.name.as_str()) {
                Some(first) => (Outcome::Shadowed { by: first.by() }, Vec::new()),
                None => match self.load(slot) {
                    Ok(backend) => {
                        first.insert(&slot.name, slot);
                        (usable(backend), Vec::new())
                    }
                    Err(error) => (error.outcome(), error.detail()),
                },
            };
            let path = slot.path().map(Path::to_path_buf);
            rows.push(Candidate {
                target: slot.name.clone(),
                path,
                outcome,
                detail,
            });
        }
        rows.extend(self.folders.iter().cloned());
        for target in WELL_KNOWN
            .into_iter()
            .filter(|target| self.slots.iter().all(|s| s.name != *target))
        {
            let outcome = Outcome::NotAvailable {
                reason: absence(target).unwrap_or_default(),
            };
            rows.push(Candidate {
                target: target.into(),
                path: None,
                outcome,
                detail: Vec::new(),
            });
        }
        rows
    }

    /// Loads the plugin in `path` and nothing else, wherever it lies.
    ///
    /// # Errors
    /// The reason not to load it.
    pub fn load_file(path: &Path, options: &LoaderOptions) -> Result<&'static Backend, LoadError> {
        let path = std::path::absolute(path).map_err(|error| LoadError::Read(error.to_string()))?;
        let folder = Folder {
            path: path.parent().map(Path::to_path_buf).unwrap_or_default(),
            origin: Origin::Option,
        };
        let lock = lock_of(&folder)?;
        let found = Found {
            name: String::new(),
            path,
            folder,
        };
        load_file(&found, lock.as_ref(), options, &Cache::new(options.cache.clone()))
    }

    fn load(&self, slot: &Slot) -> Result<&'static Backend, LoadError> {
        let load = || match &slot.source {
            Source::Embedded(embedded) => open::start(embedded.entry, embedded.name, None).map(leak),
            Source::File { found, lock } => {
                let backend = lock
                    .clone()
                    .and_then(|lock| load_file(found, lock.as_ref(), &self.options, &self.cache));
                self.report(slot, found, backend.as_ref());
                backend
            }
        };
        slot.state.get_or_init(load).clone()
    }

    fn report(&self, slot: &Slot, found: &Found, result: Result<&&'static Backend, &LoadError>) {
        let path = found.path.display();
        match result {
            Ok(backend) => {
                let embedded = self
                    .slots
                    .iter()
                    .any(|s| s.name == slot.name && s.path().is_none());
                let place = if embedded {
                    "; it takes the embedded one's place"
                } else {
                    ""
                };
                tracing::info!(target = slot.name, version = backend.version(), %path, "backend loaded{place}");
            }
            Err(error) => tracing::warn!(target = slot.name, %path, %error, "backend not loaded"),
        }
    }
}

impl Slot {
    fn file(found: Found, lock: Result<Option<Lock>, LoadError>) -> Slot {
        let (name, state) = (OnceLock::new(), OnceLock::new());
        if let Err(error) = &lock {
            let _ = state.set(Err(error.clone()));
        } else {
            match judge::judge(&found, lock.as_ref().ok().and_then(Option::as_ref)) {
                Ok(judged) => drop(name.set(judged.manifest.name)),
                Err(error) => drop(state.set(Err(error))),
            }
        }
        let name = name.into_inner().unwrap_or_else(|| found.name.clone());
        Slot {
            name,
            source: Source::File { found, lock },
            state,
        }
    }
}

fn absence(target: &str) -> Option<String> {
    WELL_KNOWN
        .contains(&target)
        .then(|| format!("no {} in any backend folder", discover::file_name(target)))
}

fn usable(backend: &Backend) -> Outcome {
    match backend.device_count() {
        Ok(0) => Outcome::NotAvailable {
            reason: "the backend finds no device".into(),
        },
        Ok(_) => Outcome::Loaded {
            version: backend.version().into(),
        },
        Err(error) => Outcome::NotAvailable {
            reason: error.to_string(),
        },
    }
}
