//! The smallest Rust plugin, for the tests of the loader.

mod backend;

thalweg_hal::export_backend!(backend::Tiny);
thalweg_hal::note! { name: backend::NAME, kind: "cpu" }
