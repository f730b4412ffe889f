//! The layers that are built in: what stands between a program and any backend when somebody asks for it.
//!
//! A layer is given the tables of a backend, or of the layer below, and hands over its own ([`LayerEntry`]). Handles and the context
//! stay the backend's. What a layer has no opinion on is forwarded, and tables that it does not know pass through.
//!
//! | layer | what | its options |
//! |---|---|---|
//! | `validate` | finds errors of programs, of the core and of plugins | [`validate::OPTIONS`] |
//! | `fault` | makes calls fail, the same ones in every run | [`fault::OPTIONS`] |
//! | `capture` | writes what crosses the border to a file, for [`replay`] | [`capture::OPTIONS`] |
//!
//! The loader of `thalweg-runtime` puts layers over backends. This crate knows the contract alone.

pub mod capture;
pub mod captured;
pub mod fault;
mod forward;
mod layer;
mod next;
pub mod replay;
mod said;
pub mod validate;

use thalweg_hal::tables::LayerEntry;

/// Name and function of the layer [`fault`].
pub const FAULT: (&str, LayerEntry) = (<fault::Fault as layer::Layer>::NAME, layer::entry::<fault::Fault>);

/// Name and function of the layer [`validate`].
pub const VALIDATE: (&str, LayerEntry) = (
    <validate::Validate as layer::Layer>::NAME,
    layer::entry::<validate::Validate>,
);

/// Name and function of the layer [`capture`].
pub const CAPTURE: (&str, LayerEntry) = (
    <capture::Capture as layer::Layer>::NAME,
    layer::entry::<capture::Capture>,
);
