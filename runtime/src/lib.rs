//! Finds and loads backends and drives their devices: memory, streams, events and kernels, without tensors.
//!
//! A backend is a plugin behind a stable C ABI (see `thalweg-hal`), or is linked in. This crate is what a program needs to
//! use one, and the floor that the tensors of `thalweg` stand on. `thalweg` re-exports its modules under the same names.
//!
//! ```
//! use thalweg_runtime::hal::{self, Buffer, Copy, Fill, Place};
//!
//! // The backends that were found, and their devices. Questions open no device.
//! for target in hal::targets() {
//!     for ordinal in 0..hal::device_count(&target).unwrap_or(0) {
//!         println!("{target}:{ordinal}  {}", hal::device_name(&target, ordinal.into())?);
//!     }
//! }
//!
//! // Opened by the first call; `auto` is the best device that is available.
//! let device = hal::device("cpu")?;
//! let stream = device.create_stream()?;
//!
//! // Four numbers on the device, and room for eight.
//! let numbers = Buffer::from_slice(&stream, &[1.0_f32, 2.0, 3.0, 4.0])?;
//! let all = device.alloc(8 * 4)?;
//!
//! // Work of one stream runs in order, and the calls return at once.
//! stream.fill(&Fill::new(&all, 0.5_f32))?;
//! stream.copy(&Copy::new(Place::buffer(&all, 16), Place::buffer(&numbers, 0), numbers.size()))?;
//! stream.synchronize()?;
//!
//! assert_eq!(all.download::<f32>(&stream)?, [0.5, 0.5, 0.5, 0.5, 1.0, 2.0, 3.0, 4.0]);
//! # Ok::<(), thalweg_runtime::Error>(())
//! ```
//!
//! | to | look at |
//! |---|---|
//! | ask which devices there are, open one | [`hal::targets`], [`hal::device`], [`hal::Runtime`] |
//! | allocate, copy, fill | [`hal::Buffer`], [`hal::Stream`] |
//! | order work, measure time | [`hal::Event`], [`hal::stream_scope`] |
//! | run a kernel | [`hal::Kernel`], [`hal::Launch`], [`hal::ir`] |
//! | run the same work many times | [`hal::Program`], [`hal::Graph`] |
//! | see when the work of a device ran | [`hal::Device::profile_start`], [`hal::Profile`] |
//! | choose where plugins come from, ask why one is refused | [`loader::LoaderOptions`], [`loader::Registry`] |
//! | set what backends read | [`host::set_config`] |
//! | set the number of threads | [`parallel::Pool`] |
//!
//! Features: `embedded-cpu` (on by default) links the CPU backend into the program.

pub mod error;
pub mod hal;
pub mod host;
pub mod loader;
pub mod parallel;
mod said;

pub use error::{Error, Result};
