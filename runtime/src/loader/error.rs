//! Why a plugin is not loaded.

use super::discover;
use super::elf::ElfError;
use super::hint;
use super::lock::LockError;
use super::probe::ProbeOutcome;
use super::report::Outcome;
use super::trust::TrustError;
use std::fmt;
use thalweg_hal::manifest::{ABI, AbiVersion, ManifestError, SECTION};
use thalweg_hal::tables::{ENTRY_SYMBOL, LAYER_SYMBOL};

/// Why a plugin is not loaded. The text is the row that a user reads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Somebody else could have put it there.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The system did not hand out its bytes.
    #[error("cannot read the file: {0}")]
    Read(String),
    /// Larger than any plugin.
    #[error("the file has {0} bytes; at most 4 GiB are loaded")]
    TooLarge(u64),
    /// Not a sound shared library for this machine.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// A shared library that says nothing of thalweg.
    #[error("not a thalweg plugin: no {SECTION}")]
    NoNote,
    /// The manifest cannot be read.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Made for another major version of the contract.
    #[error("built against thalweg-hal {0}, this program speaks {major}.x; ask for a build against {major}.x", major = ABI.major)]
    Abi(AbiVersion),
    /// Made for another architecture.
    #[error("built for {0}, this program runs on {arch}; get the plugin for {arch}", arch = std::env::consts::ARCH)]
    Arch(String),
    /// The machine lacks something that its code uses.
    #[error("it needs the CPU feature {0}, which this machine does not have")]
    CpuFeature(String),
    /// The manifest asks for a CPU feature by a name that nobody knows here.
    #[error("it needs the CPU feature {0:?}, which this program does not know; update the program")]
    UnknownCpuFeature(String),
    /// The folder's lock file does not allow it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The sealed copy that is loaded could not be made.
    #[error("cannot make a sealed copy of the file: {0}")]
    Seal(String),
    /// Its trial in a child process cannot be run.
    #[error("it cannot be tried in a child process first: {0}")]
    NoTrial(String),
    /// It changed what belongs to the whole process, for good.
    #[error(
        "while it was loaded it changed what belongs to the whole process, and it cannot be put back: {0}"
    )]
    Host(String),
    /// Its trial in a child process ended badly.
    #[error("{outcome}; rebuild it or remove it{}", Remembered(*remembered))]
    Probe {
        /// How.
        outcome: ProbeOutcome,
        /// Whether this is known from an earlier run.
        remembered: bool,
    },
    /// A library that it needs is not there.
    #[error("{library} was not found; {from}", from = Source(library, *beside))]
    MissingLibrary {
        /// Its name.
        library: String,
        /// Whether a file of this name lies beside the plugin, where nobody looks.
        beside: bool,
    },
    /// The system's loader refused it.
    #[error("the system's loader refuses it: {0}")]
    Open(String),
    /// It exports no entry.
    #[error(
        "it does not export the function {ENTRY_SYMBOL}; build it with export_backend! or against thalweg.h"
    )]
    NoEntry,
    /// It is a layer and exports no function of one.
    #[error("it is a layer and does not export the function {LAYER_SYMBOL}; build it against thalweg.h")]
    NoLayerEntry,
    /// It is a layer where a backend is asked for.
    #[error("it is a layer, not a backend; name its file {} and ask for it with THALWEG_LAYERS={_0}", discover::file_name(&format!("layer_{_0}")))]
    IsLayer(String),
    /// Its file has the name of a layer, and it is none.
    #[error("its file has the name of a layer, its manifest says kind={0}")]
    NotALayer(String),
    /// A layer by a name that nothing has.
    #[error("there is no layer {asked:?}; there are: {}", found.join(", "))]
    NoSuchLayer {
        /// What was asked for.
        asked: String,
        /// The layers that are built in or were found.
        found: Vec<String>,
    },
    /// A layer is asked for more than once.
    #[error("the layer {0} is asked for twice; name it once")]
    LayerTwice(String),
    /// A layer cannot be used.
    #[error("layer {name}: {error}")]
    Layer {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        error: Box<LoadError>,
    },
    /// A layer handed over another context.
    #[error("it hands over another context than the backend's")]
    LayerContext,
    /// A layer lacks a table of the backend.
    #[error("it hides the backend's {0} table; what a layer does not know it passes on")]
    LayerHides(&'static str),
    /// It was built with other structs than this program.
    #[error("{difference} (built against thalweg-hal {built}; rebuild it against {ABI})")]
    Layout {
        /// The first struct and field that differ, what is expected and what is there.
        difference: String,
        /// The contract that the plugin names.
        built: AbiVersion,
        /// Every struct that differs.
        all: Vec<String>,
    },
    /// It lacks a table that every backend must have.
    #[error("it has no {0} table, which every backend must have")]
    MissingTable(&'static str),
    /// A table does not lie where a struct can.
    #[error("its {0} table is not aligned")]
    Misaligned(&'static str),
    /// A table has no pointer where a function must be.
    #[error(
        "function {function} of its {table} table is null; what a backend lacks is a table, or a function that says so"
    )]
    NullFunction {
        /// Which table.
        table: &'static str,
        /// Its place, counted from 0.
        function: usize,
    },
    /// It calls itself differently in its manifest and in its tables.
    #[error("its manifest says {manifest:?}, its tables say {tables:?}")]
    Name {
        /// The name in the manifest.
        manifest: String,
        /// The name in the tables.
        tables: String,
    },
    /// Its entry function or its first answer failed.
    #[error("{0}")]
    Init(String),
}

struct Source<'a>(&'a str, bool);

impl fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match hint::package(self.0) {
            Some(package) => write!(f, "it comes with {package}"),
            None if self.1 => f.write_str(
                "the file beside the plugin is not searched, because nobody judged it; add its folder to LD_LIBRARY_PATH",
            ),
            None => f.write_str("install it or add its folder to LD_LIBRARY_PATH"),
        }
    }
}

struct Remembered(bool);

impl fmt::Display for Remembered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 {
            f.write_str(" (seen in an earlier run; `thalweg doctor` tries again)")
        } else {
            Ok(())
        }
    }
}

impl LoadError {
    /// More lines for whoever looks into it.
    pub fn detail(&self) -> Vec<String> {
        match self {
            LoadError::Layout { all, .. } => all.clone(),
            _ => Vec::new(),
        }
    }

    /// The same, said of a layer.
    pub(super) fn of_layer(self, name: &str) -> LoadError {
        LoadError::Layer {
            name: name.into(),
            error: Box::new(self),
        }
    }

    /// Whether layers are the reason, whatever the backend is.
    pub fn is_of_layers(&self) -> bool {
        matches!(
            self,
            LoadError::Layer { .. } | LoadError::NoSuchLayer { .. } | LoadError::LayerTwice(_)
        )
    }

    /// The row's outcome: a sound plugin that lacks something here is not available, any other is refused.
    pub fn outcome(&self) -> Outcome {
        let reason = self.to_string();
        match self {
            LoadError::CpuFeature(_) | LoadError::MissingLibrary { .. } | LoadError::Init(_) => {
                Outcome::NotAvailable { reason }
            }
            _ => Outcome::Refused { reason },
        }
    }
}
