//! Finds, judges and loads plugins. Nothing of a plugin runs before it has been judged, and one bad file costs neither
//! the process nor the other backends.

pub mod discover;
pub mod elf;
pub mod lock;
pub mod probe;
pub mod report;
pub mod sealed;
pub mod trust;
