//! What targets share: a device that holds tensors and computes nothing, so that no backend's code is instrumented.

#[path = "../../core/examples/backend.rs"]
mod shelf;

use shelf::Shelf;
use std::sync::LazyLock;
use thalweg::Context;
use thalweg::hal::Runtime;
use thalweg::loader::discover::Surroundings;
use thalweg::loader::{Embedded, LoaderOptions, Registry};

/// The context of the one device.
///
/// # Panics
/// The device does not open.
pub fn context() -> &'static Context {
    static CONTEXT: LazyLock<Context> = LazyLock::new(|| {
        let options = LoaderOptions::default();
        let registry = Registry::with(options, &[Embedded::of::<Shelf>()], &Surroundings::default());
        let device = Runtime::new(registry).device("shelf").expect("a shelf opens");
        Context::on(device)
    });
    &CONTEXT
}
