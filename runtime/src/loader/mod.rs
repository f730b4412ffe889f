//! Finds, judges and loads plugins. Nothing of a plugin runs before it has been judged, and one bad file costs neither
//! the process nor the other backends.

mod cache;
pub mod discover;
pub mod elf;
mod error;
pub mod features;
mod hint;
pub mod judge;
mod layers;
mod layout;
mod load;
pub mod lock;
mod open;
mod options;
pub mod probe;
mod registry;
pub mod report;
pub mod sealed;
pub(crate) mod state;
mod trail;
pub mod trust;

pub use cache::Cache;
pub use error::LoadError;
pub use layers::{BUILT_IN, BuiltIn, LAYERS, layer_list};
pub use lock::LockError;
pub use open::Backend;
pub use options::LoaderOptions;
pub use registry::{EMBEDDED, Embedded, Examined, Registry};
pub use report::{Candidate, Outcome};
pub use thalweg_hal::manifest::{ABI, AbiVersion};
pub use trail::{Stage, Step};
