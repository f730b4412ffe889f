//! The contract between thalweg and its backends.
//!
//! A backend is a dynamic library that exports one C function, [`tables::ENTRY_SYMBOL`]. The host calls it with its own
//! services ([`tables::HostApi`]) and receives tables of functions ([`tables`]): devices, memory, streams, events, kernels,
//! programs. Kernels cross the border in one small language, the [`ir`].
//!
//! Use this crate to write a backend in Rust. Programs that compute use `thalweg`. Authors in C include `include/thalweg.h`, which is
//! generated from this crate.
//!
//! # Quick start
//!
//! A backend on one page: the host's memory and the kit's streams, and no kernels yet. The package is a `cdylib` and its file is called
//! `libthalweg_shelf.so`.
//!
//! ```no_run
//! use thalweg_hal::backend::{Backend, Device, Properties, Source, Tag, Work};
//! use thalweg_hal::kit::{host_memory, queue::Queue};
//! use thalweg_hal::{Error, Host, Result, tables::Kind};
//!
//! pub struct Shelf;
//! pub struct ShelfDevice;
//!
//! impl Backend for Shelf {
//!     type Device = ShelfDevice;
//!     const NAME: &'static str = "shelf";
//!     const VERSION: &'static str = "0.1.0";
//!
//!     fn start(_: Host) -> Result<Shelf> {
//!         Ok(Shelf)
//!     }
//!     fn device_count(&self) -> Result<u32> {
//!         Ok(1)
//!     }
//!     fn properties(&self, _: u32) -> Result<Properties> {
//!         Ok(Properties::of_host("a shelf", Kind::Cpu))
//!     }
//!     fn open(&self, _: u32) -> Result<ShelfDevice> {
//!         Ok(ShelfDevice)
//!     }
//! }
//!
//! impl Device for ShelfDevice {
//!     type Kernel = ();
//!
//!     thalweg_hal::host_memory!();
//!     thalweg_hal::queue_streams!();
//!
//!     unsafe fn submit(&self, stream: &Queue, work: &Work<'_, Self>, tag: Tag<'_>) -> Result<()> {
//!         // SAFETY: the contract of both is the same.
//!         unsafe { host_memory::submit(stream, work, tag, |_| refused()) }
//!     }
//!     fn supports(&self, _: &Source<'_>) -> Result<()> {
//!         refused()
//!     }
//!     fn compile(&self, _: &Source<'_>, _: &str) -> Result<()> {
//!         refused()
//!     }
//! }
//!
//! fn refused() -> Result<()> {
//!     Err(Error::unsupported("a shelf runs nothing"))
//! }
//!
//! thalweg_hal::export_backend!(Shelf);
//! thalweg_hal::note! { name: "shelf", kind: "cpu" }
//! ```
//!
//! # Who checks what
//!
//! The core validates, a backend reports only what cannot be foreseen. For Rust backends the checks at the border are in this crate
//! ([`kit::checks`]): every handle, size, overlap and device is checked in one place before a method is called. A panic becomes an
//! error. Asynchronous errors stick to their stream.
//!
//! # Map
//!
//! | module | what |
//! |---|---|
//! | [`backend`] | the traits that an author implements: [`backend::Backend`], [`backend::Device`] |
//! | [`tables`] | the C tables and argument structs, one noun a file; the rules of the contract stand here |
//! | [`ir`] | the kernel language: structure, verifier, text form, random kernels for tests |
//! | [`library`] | whole operations that a backend may offer, each defined by a kernel |
//! | [`kit`] | ready parts: memory pool, in-order streams, events, programs, a cache of compiled code |
//! | [`export`] | from the traits to the tables; [`export_backend!`] uses it |
//! | [`manifest`] | what a plugin says of itself without being run; [`note!`] writes it |
//! | [`Host`] | the host's services: log, threads, configuration |
//! | [`clock`] | the clock of all times, and a cheaper counter |
//! | [`settings`] | one row for each thing that a user may set |
//! | [`DType`], [`f8`], [`narrow`] | element types and correctly rounded conversions |
//! | [`Error`], [`Status`] | an error is a class and one line |
//!
//! # Where to go next
//!
//! `docs/writing-a-backend.md` in the repository goes through every part. `thalweg conform PATH` holds a plugin to the contract.
//! `backends/reference` is the crate to copy: `cargo xtask new-backend NAME`.

pub mod backend;
pub mod clock;
// First, because its macros list the dtypes for the modules after it.
#[macro_use]
pub mod dtype;
pub mod element;
pub mod export;
pub mod f8;
pub mod host;
#[cfg(feature = "interpreter")]
pub mod interpreter;
pub mod ir;
pub mod kit;
pub mod library;
pub mod manifest;
pub mod narrow;
pub mod settings;
pub mod status;
pub mod tables;

pub use dtype::DType;
pub use element::Element;
pub use host::Host;
pub use status::{Error, Result, Status, Str};
