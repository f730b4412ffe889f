//! The contract between thalweg and its backends.
//!
//! A backend is a dynamic library that exports one C function, [`tables::ENTRY_SYMBOL`]. The host calls it with its own
//! services ([`tables::HostApi`]) and receives tables of functions ([`tables`]): devices, memory, streams, events,
//! kernels, programs. Kernels cross the border in one small language, the [`ir`].
//!
//! Authors in Rust see none of the tables: they implement [`backend::Backend`] and [`backend::Device`], write
//! [`export_backend!`] and [`note!`], and take what they need from the [`kit`]. Authors in C include `thalweg.h`.
//!
//! The core validates, a backend reports only what cannot be foreseen. For Rust backends the validation at the border is in
//! this crate ([`kit::checks`]), so that every handle, size, overlap and device is checked in one place.

pub mod backend;
pub mod dtype;
pub mod export;
pub mod f8;
pub mod host;
pub mod ir;
pub mod kit;
pub mod library;
pub mod manifest;
pub mod module;
pub mod narrow;
pub mod status;
pub mod tables;

pub use dtype::DType;
pub use host::Host;
pub use status::{Error, Result, Status, Str};
