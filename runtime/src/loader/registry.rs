//! The backends of a process: which there are, which are loaded, what became of the others.

use super::cache::Cache;
use super::discover::{self, Fate, Folder, Found, Place, Surroundings};
use super::error::LoadError;
use super::judge;
use super::layers::{self, Chain, Layers};
use super::load::{leak, load_file, lock_of};
use super::lock::Lock;
use super::open::{self, Backend};
use super::options::LoaderOptions;
use super::report::{Candidate, Outcome, WELL_KNOWN};
use super::trail::{Stage, Step, Trail};
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
    places: Vec<Place>,
    layers: Layers,
}

#[derive(Debug)]
struct Slot {
    name: String,
    source: Source,
    /// The steps of the judgement when the program started.
    judged: Trail,
    state: OnceLock<Loading>,
}

/// What a load came to.
#[derive(Debug)]
struct Loading {
    result: Result<&'static Backend, LoadError>,
    trail: Trail,
}

/// A candidate with all that is known of it.
#[derive(Clone, Debug)]
pub struct Examined {
    /// Its row.
    pub candidate: Candidate,
    /// The steps that it took; none for a folder or a target without a candidate.
    pub steps: Vec<Step>,
    /// Why it was not loaded.
    pub error: Option<LoadError>,
    /// The backend, where it was loaded; it may have no device all the same.
    pub backend: Option<&'static Backend>,
}

impl Examined {
    fn row(candidate: Candidate) -> Examined {
        Examined {
            candidate,
            steps: Vec::new(),
            error: None,
            backend: None,
        }
    }
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
            layers: around.layers.clone().filter(|_| options.use_environment),
            executable: around.executable.clone().filter(|_| options.use_executable),
            user: around.user.clone().filter(|_| options.use_environment),
            privileged: around.privileged,
        };
        let mut places = discover::places(&options.folders, options.development, &around);
        let files = discover::files(&mut places).into_iter();
        let (layers, files): (Vec<_>, Vec<_>) = files.partition(|found| found.layer().is_some());
        let layers = Layers::new(layers::asked(&options, &around), layers);
        let mut locks = BTreeMap::new();
        let mut file = |found: &Found| {
            let folder = &found.folder;
            let lock = locks
                .entry(folder.path.clone())
                .or_insert_with(|| lock_of(folder));
            Slot::file(found.clone(), lock.clone())
        };
        let (later, earlier): (Vec<_>, Vec<_>) = files
            .iter()
            .partition(|found| found.folder.origin.after_embedded());
        let mut slots: Vec<Slot> = earlier.into_iter().map(&mut file).collect();
        slots.extend(embedded.iter().map(|embedded| Slot {
            name: embedded.name.into(),
            source: Source::Embedded(*embedded),
            judged: Trail::default(),
            state: OnceLock::new(),
        }));
        slots.extend(later.into_iter().map(file));
        let cache = Cache::new(options.cache.clone());
        Registry {
            options,
            cache,
            slots,
            places,
            layers,
        }
    }

    /// The layers over every backend; the first is nearest to the program.
    pub fn layers(&self) -> &[String] {
        self.layers.names()
    }

    /// Loads the layers that were asked for, if they were not.
    ///
    /// # Errors
    /// [`Error::Layers`] for a name that no layer has, and why one cannot be used.
    pub fn check_layers(&self) -> Result<(), Error> {
        self.chain()
            .map(drop)
            .map_err(|error| Error::Layers(Box::new(error)))
    }

    fn chain(&self) -> Result<Chain<'_>, LoadError> {
        Ok(Chain {
            names: self.layers.names(),
            entries: self.layers.entries(&self.options, &self.cache)?,
        })
    }

    /// The names of the targets that have a candidate that is not known to be unusable.
    pub fn targets(&self) -> Vec<String> {
        let mut names = Vec::new();
        for slot in &self.slots {
            let failed = slot.state.get().is_some_and(|loading| loading.result.is_err());
            if !failed && !names.contains(&slot.name) {
                names.push(slot.name.clone());
            }
        }
        names
    }

    /// The backend of `target`, loaded now if it was not yet. Of several candidates the first sound one is taken.
    ///
    /// # Errors
    /// [`Error::NoSuchTarget`] when there is no candidate, [`Error::Load`] with the first one's reason when none is
    /// sound, [`Error::Layers`] when its layers cannot be used.
    pub fn get(&self, target: &str) -> Result<&'static Backend, Error> {
        self.check_layers()?;
        let mut failure = None;
        for slot in self.slots.iter().filter(|slot| slot.name == target) {
            match &self.load(slot).result {
                Ok(backend) => return Ok(backend),
                Err(error) => failure = failure.or(Some((slot, error))),
            }
        }
        match failure {
            Some((_, error)) if error.is_of_layers() => Err(Error::Layers(Box::new(error.clone()))),
            Some((slot, error)) if slot.path().is_some() => Err(Error::Load {
                target: target.into(),
                path: slot.path().unwrap_or(Path::new("")).to_path_buf(),
                error: Box::new(error.clone()),
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

    /// Where plugins were looked for, in the order of the search.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Every candidate and what became of it: files and embedded backends in the order of precedence, folders that
    /// were refused, well-known targets without a candidate. Loads what was not loaded yet.
    pub fn candidates(&self) -> Vec<Candidate> {
        self.examine().map(|examined| examined.candidate).collect()
    }

    /// [`Registry::candidates`] with all that is known of each; a candidate is loaded when its turn comes.
    pub fn examine(&self) -> impl Iterator<Item = Examined> {
        let mut first: BTreeMap<&str, &Slot> = BTreeMap::new();
        let slots = self
            .slots
            .iter()
            .map(move |slot| match first.get(slot.name.as_str()) {
                Some(first) => slot.shadowed(first),
                None => {
                    let loading = self.load(slot);
                    if loading.result.is_ok() {
                        first.insert(&slot.name, slot);
                    }
                    slot.examined(loading)
                }
            });
        let folders = self.places.iter().filter_map(|place| match &place.fate {
            Fate::Refused { reason } => Some(Candidate::refused(Candidate::FOLDER, &place.path, reason)),
            Fate::Searched | Fate::Again | Fate::Missing => None,
        });
        let absent = WELL_KNOWN
            .into_iter()
            .filter(|target| self.slots.iter().all(|slot| slot.name != *target))
            .map(|target| Candidate {
                target: target.into(),
                path: None,
                outcome: Outcome::NotAvailable {
                    reason: absence(target).unwrap_or_default(),
                },
                detail: Vec::new(),
            });
        slots.chain(folders.chain(absent).map(Examined::row))
    }

    /// Loads the plugin in `path` and nothing else, wherever it lies.
    ///
    /// # Errors
    /// The reason not to load it.
    pub fn load_file(path: &Path, options: &LoaderOptions) -> Result<&'static Backend, LoadError> {
        let path = std::path::absolute(path).map_err(|error| LoadError::Read(error.to_string()))?;
        let folder = Folder {
            path: path.parent().map(Path::to_path_buf).unwrap_or_default(),
            origin: discover::origin_of_file(path.parent().unwrap_or(Path::new("/"))),
        };
        let lock = lock_of(&folder)?;
        let found = Found {
            name: String::new(),
            path,
            folder,
        };
        // Only layers are looked for in other folders, and without any nothing is.
        let around = Surroundings::of_process();
        let alone = layers::asked(options, &around).is_empty();
        let registry = (!alone).then(|| Registry::with(options.clone(), &[], &around));
        let layers = registry.as_ref().map_or(Ok(Chain::NONE), Registry::chain)?;
        let (cache, trail) = (Cache::new(options.cache.clone()), &mut Trail::default());
        load_file(&found, lock.as_ref(), options, &cache, layers, trail)
    }

    fn load<'a>(&self, slot: &'a Slot) -> &'a Loading {
        slot.state.get_or_init(|| {
            let mut trail = Trail::default();
            let result = match &slot.source {
                Source::Embedded(embedded) => self.chain().and_then(|layers| {
                    open::start(embedded.entry, embedded.name, None, layers, &mut trail).map(leak)
                }),
                Source::File { found, lock } => {
                    let backend = lock.clone().and_then(|lock| {
                        let (options, cache, layers) = (&self.options, &self.cache, self.chain()?);
                        load_file(found, lock.as_ref(), options, cache, layers, &mut trail)
                    });
                    self.report(slot, found, backend.as_ref());
                    backend
                }
            };
            Loading { result, trail }
        })
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
        let mut trail = Trail::default();
        let judged = (lock.as_ref().map_err(LoadError::clone))
            .and_then(|lock| judge::follow(&found, lock.as_ref(), &mut trail)?.backend());
        let (name, state) = match judged {
            Ok(judged) => (judged.manifest.name, OnceLock::new()),
            Err(error) => {
                let loading = Loading {
                    result: Err(error),
                    trail: trail.clone(),
                };
                (found.name.clone(), OnceLock::from(loading))
            }
        };
        Slot {
            name,
            source: Source::File { found, lock },
            judged: trail,
            state,
        }
    }

    fn row(&self, outcome: Outcome, detail: Vec<String>) -> Candidate {
        Candidate {
            target: self.name.clone(),
            path: self.path().map(Path::to_path_buf),
            outcome,
            detail,
        }
    }

    fn shadowed(&self, by: &Slot) -> Examined {
        let failed = self.state.get().and_then(|loading| loading.result.as_ref().err());
        Examined {
            steps: self.judged.clone().into_steps(),
            error: failed.cloned(),
            ..Examined::row(self.row(Outcome::Shadowed { by: by.by() }, Vec::new()))
        }
    }

    fn examined(&self, loading: &Loading) -> Examined {
        let mut trail = loading.trail.clone();
        let candidate = match &loading.result {
            Ok(backend) => {
                trail.enter(Stage::Devices, self.path());
                let outcome = usable(backend);
                if let (Outcome::Loaded { .. }, Ok(count)) = (&outcome, backend.device_count()) {
                    trail.found(if count == 1 {
                        "1 device".into()
                    } else {
                        format!("{count} devices")
                    });
                }
                self.row(outcome, Vec::new())
            }
            Err(error) => self.row(error.outcome(), error.detail()),
        };
        Examined {
            steps: trail.into_steps(),
            error: loading.result.as_ref().err().cloned(),
            backend: loading.result.as_ref().ok().copied(),
            ..Examined::row(candidate)
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
