//! Finds, judges and loads plugins. Nothing of a plugin runs before it has been judged, and one bad file costs neither
//! the process nor the other backends.

mod cache;
pub mod discover;
pub mod elf;
mod error;
mod features;
pub mod judge;
mod layout;
pub mod lock;
mod options;
pub mod probe;
pub mod report;
pub mod sealed;
pub mod trust;

pub use cache::Cache;
pub use error::LoadError;
pub use lock::LockError;
pub use options::LoaderOptions;
pub use report::{Candidate, Outcome};
