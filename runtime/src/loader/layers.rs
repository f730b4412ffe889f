//! Layers: what stands between the program and every backend.

use super::cache::Cache;
use super::discover::{self, Found};
use super::error::LoadError;
use super::load::{load_layer, lock_of};
use super::open;
use super::options::LoaderOptions;
use super::trail::{Stage, Trail};
use std::sync::OnceLock;
use thalweg_hal::settings::{Setting, Values, Way};
use thalweg_hal::tables::{ABI_VERSION, BackendApi, LayerEntry, TableId};

/// Which layers stand between the program and its backends.
pub const LAYERS: Setting = Setting {
    key: "layers",
    variable: "THALWEG_LAYERS",
    way: Way::Option,
    values: Values::Range("names of layers with `,` between them"),
    default: "none",
    about: "Layers between the program and every backend; the first is nearest to the program. They are built in (`validate`, `fault`, `capture`) or \
            files `libthalweg_layer_NAME.so` where plugins are searched. A program with raised privileges ignores \
            the variable. In code also: `LoaderOptions::layers`.",
    read_by: "the loader",
};

/// A layer that is linked into the program.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// The name that users ask for.
    pub name: &'static str,
    /// Its function, the same as that of a file.
    pub entry: LayerEntry,
}

/// The layers that this crate's features link in.
pub const BUILT_IN: &[BuiltIn] = &[
    #[cfg(feature = "layers")]
    BuiltIn {
        name: thalweg_layers::CAPTURE.0,
        entry: thalweg_layers::CAPTURE.1,
    },
    #[cfg(feature = "layers")]
    BuiltIn {
        name: thalweg_layers::FAULT.0,
        entry: thalweg_layers::FAULT.1,
    },
    #[cfg(feature = "layers")]
    BuiltIn {
        name: thalweg_layers::VALIDATE.0,
        entry: thalweg_layers::VALIDATE.1,
    },
];

/// The names in a list with commas, as [`LAYERS`] takes it.
pub fn layer_list(list: &str) -> Vec<String> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(String::from).collect()
}

/// The layers that were asked for.
#[derive(Debug, Default)]
pub(super) struct Layers {
    /// The first is nearest to the program.
    asked: Vec<String>,
    /// Files of layers, in the order of precedence.
    files: Vec<Found>,
    entries: OnceLock<Result<Vec<LayerEntry>, LoadError>>,
}

impl Layers {
    /// Those of `asked`, from `files` or built in.
    pub(super) fn new(asked: Vec<String>, files: Vec<Found>) -> Layers {
        Layers {
            asked,
            files,
            entries: OnceLock::new(),
        }
    }

    /// Their names; the first is nearest to the program.
    pub(super) fn names(&self) -> &[String] {
        &self.asked
    }

    /// The functions of the layers, which are loaded now if they were not.
    pub(super) fn entries(&self, options: &LoaderOptions, cache: &Cache) -> Result<&[LayerEntry], LoadError> {
        let entries = self.entries.get_or_init(|| {
            if let Some(name) = (self.asked.iter().enumerate())
                .find_map(|(at, name)| self.asked[..at].contains(name).then_some(name))
            {
                return Err(LoadError::LayerTwice(name.clone()));
            }
            let entry = |name: &String| self.entry(name, options, cache);
            self.asked.iter().map(entry).collect()
        });
        entries.as_deref().map_err(LoadError::clone)
    }

    /// The first sound candidate, by the same precedence as backends have.
    fn entry(&self, name: &str, options: &LoaderOptions, cache: &Cache) -> Result<LayerEntry, LoadError> {
        let built_in = BUILT_IN.iter().find(|layer| layer.name == name);
        let mut failure = None;
        let mut first = |earlier: bool| {
            let mine = self.files.iter().filter(|found| {
                found.layer() == Some(name) && found.folder.origin.after_embedded() != earlier
            });
            for found in mine {
                let lock = lock_of(&found.folder);
                let trail = &mut Trail::default();
                match lock.and_then(|lock| load_layer(found, lock.as_ref(), options, cache, trail)) {
                    Ok(entry) => return Some(entry),
                    Err(error) => {
                        let path = found.path.display();
                        tracing::warn!(layer = name, %path, %error, "layer not loaded");
                        failure = failure.take().or(Some(error));
                    }
                }
            }
            None
        };
        let found = first(true)
            .or(built_in.map(|layer| layer.entry))
            .or_else(|| first(false));
        found.ok_or_else(|| match failure {
            Some(error) => error.of_layer(name),
            None => LoadError::NoSuchLayer {
                asked: name.into(),
                found: self.known(),
            },
        })
    }

    fn known(&self) -> Vec<String> {
        let mut names: Vec<String> = (self.files.iter().filter_map(Found::layer))
            .chain(BUILT_IN.iter().map(|layer| layer.name))
            .map(String::from)
            .collect();
        names.sort();
        names.dedup();
        names
    }
}

/// The chain of layers over one backend.
#[derive(Clone, Copy)]
pub(super) struct Chain<'a> {
    /// The first is nearest to the program.
    pub(super) names: &'a [String],
    pub(super) entries: &'a [LayerEntry],
}

impl Chain<'_> {
    /// No layer.
    pub(super) const NONE: Chain<'static> = Chain {
        names: &[],
        entries: &[],
    };

    /// The tables of the uppermost layer over those of a backend.
    pub(super) fn over(self, mut api: BackendApi, trail: &mut Trail) -> Result<BackendApi, LoadError> {
        for (name, entry) in self.names.iter().zip(self.entries).rev() {
            trail.enter(Stage::Layer, None);
            api = wrap(*entry, &api).map_err(|error| error.of_layer(name))?;
            trail.found(format!("under {name}"));
        }
        Ok(api)
    }
}

/// Puts one layer over `next` and checks what it hands over.
fn wrap(entry: LayerEntry, next: &BackendApi) -> Result<BackendApi, LoadError> {
    let mut api = BackendApi::empty();
    open::called(|host| {
        // SAFETY: the host's table lives for ever, the other arguments through the call, and `next` keeps its contract.
        unsafe { entry(ABI_VERSION, host, next, &raw mut api) }
    })?;
    if api.context != next.context {
        return Err(LoadError::LayerContext);
    }
    let has = |api: &BackendApi, id: TableId| {
        // SAFETY: both were filled by functions that keep the contract.
        !unsafe { (api.query_interface)(api.context, id as u32, 1) }.is_null()
    };
    open::check_tables(&api)?;
    match TableId::ALL.iter().find(|&&id| has(next, id) && !has(&api, id)) {
        Some(id) => Err(LoadError::LayerHides(id.name())),
        None => Ok(api),
    }
}

/// The layers that a program with these options gets, and the files of layers in folders that are searched.
pub(super) fn asked(options: &LoaderOptions, around: &discover::Surroundings) -> Vec<String> {
    match &around.layers {
        _ if !options.layers.is_empty() => options.layers.clone(),
        Some(list) if options.use_environment && !around.privileged => layer_list(list),
        _ => Vec::new(),
    }
}
