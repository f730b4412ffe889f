//! Finds, judges and loads plugins. Nothing of a plugin runs before it has been judged, and one bad file costs neither
//! the process nor the other backends.

mod cache;
pub mod discover;
pub mod elf;
mod error;
mod features;
pub mod judge;
mod layout;
mod load;
pub mod lock;
mod open;
mod options;
pub mod probe;
mod registry;
pub mod report;
pub mod sealed;
pub mod trust;

pub use cache::Cache;
pub use error::LoadError;
pub use lock::LockError;
pub use open::Backend;
pub use options::LoaderOptions;
pub use registry::{EMBEDDED, Embedded, Registry};
pub use report::{Candidate, Outcome};
