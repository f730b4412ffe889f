//! What contexts have that do not say it themselves.

use super::implmode::Selected;
use super::precision::{Precision, activate};
use std::sync::OnceLock;

/// What the session gives to contexts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Defaults {
    /// In which dtypes ops compute.
    pub(crate) precision: Precision,
    /// Whether the inputs of a call that fails are written to files.
    pub(crate) exception_dump: bool,
    /// By which form ops compute, where the session says it.
    pub(crate) implmode: Option<Selected>,
}

/// Those of the session, where there is one.
static OF_PROCESS: OnceLock<Defaults> = OnceLock::new();

/// Contexts have these from now on. There is one session, which calls this once.
pub(crate) fn set_defaults(defaults: Defaults) {
    if OF_PROCESS.get_or_init(|| defaults).precision != Precision::default() {
        activate();
    }
}

/// What a context has that does not say it.
pub(super) fn of_process() -> Defaults {
    OF_PROCESS.get().copied().unwrap_or_default()
}
