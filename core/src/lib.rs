//! Tensors on hardware that is picked when the program runs.
//!
//! A program is one binary. The CPU backend is built in. Other backends are plugins that the program finds when it runs, behind
//! a stable C interface ([`thalweg_hal`]).
//!
//! # Quick start
//!
//! ```
//! use thalweg::{Context, Tensor, jit, value_and_grad};
//!
//! let cx = Context::new("cpu")?; // or `Context::auto()`, the best device found
//! let x = Tensor::from_slice(&[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0], [2, 3], &cx);
//! assert_eq!((&x - 1.0).square().sum_axes(1).to_vec::<f32>()?, [2.0, 29.0]);
//!
//! // Traced once, compiled to one kernel.
//! let energy = jit(|x: &Tensor| ((x - 1.0).square() * 0.5).sum());
//! assert_eq!(energy.call(&x).item::<f32>()?, 15.5);
//!
//! let (value, slope) = value_and_grad(|x: &Tensor| (x * x * x).sum()).call(&x);
//! assert_eq!(value.item::<f32>()?, 225.0);
//! assert_eq!(slope.to_vec::<f32>()?, [0.0, 3.0, 12.0, 27.0, 48.0, 75.0]);
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! # Rules to know
//!
//! - **An op never panics and needs no `?`.** A wrong op gives a tensor that carries the first error. Whatever reads a value or a
//!   shape returns it, with the line of the op.
//! - **Eager and compiled code give the same bits**, unless a context asks for `fast_math`.
//! - **Ops are asynchronous.** Reading a value waits for it. Streams need no care: an op waits for the stream that writes its
//!   operand.
//! - **A device that is missing is an error.** Only `auto` chooses.
//! - A debug build compiles the CPU's kernels without optimisation. Two lines in your `Cargo.toml` change that:
//!   `[profile.dev.package."*"]` and `opt-level = 3`.
//!
//! # Map
//!
//! | module | what |
//! |---|---|
//! | [`Context`], [`context`] | where tensors live and how ops run: device, mode, seed, precision, limits |
//! | [`Tensor`], [`tensor`], [`ops`] | tensors, and every op on them |
//! | [`grad()`], [`value_and_grad`], [`mod@grad`] | gradients of any order, Jacobians, Hessians, and `backward` |
//! | [`jit()`], [`Tree`] | compiled functions of tensors and of structures of tensors |
//! | [`fori_loop`], [`while_loop`], [`scan`], [`cond`], [`checkpoint`], [`control`] | loops and branches inside compiled functions |
//! | [`random`] | random numbers: Philox on devices, NumPy's Mersenne Twister on the host |
//! | [`interchange`] | NumPy files, safetensors, DLPack, the crate `ndarray` |
//! | [`graph`] | traced functions as data: text, Graphviz |
//! | [`hal`] | below tensors: devices, buffers, kernels, streams, events, timing |
//! | [`loader`] | which plugins are found, and why one is refused |
//! | [`Runtime`], [`session`] | what holds for the whole process, from its start to its end |
//! | [`init`], [`log`] | lines of what happens, on the screen or in files |
//! | [`host`], [`parallel`] | what the process offers to backends: configuration, threads |
//!
//! # Features
//!
//! | feature | default | what | costs |
//! |---|---|---|---|
//! | `embedded-cpu` | yes | the CPU backend in the program | 2 crates (libm), and more than a third of the compile time |
//! | `layers` | yes | the layers `capture`, `fault` and `validate` in the program | 1 crate, and a twentieth of the compile time |
//! | `npz` | no | NumPy archives of several arrays | 11 crates (zip, flate2) |
//! | `safetensors` | yes | named tensors in files, mapped on request | 1 crate (memmap2) |
//! | `mmap` | with `safetensors` | NumPy files that stay where they are | the same crate |
//! | `dlpack` | no | memory shared with other libraries of the process | nothing |
//! | `ndarray` | no | arrays of the crate by this name | 7 crates |
//!
//! # Where to go next
//!
//! The repository has a guide in `docs/`, from the first tensor to the first plugin, and a page of all settings. `thalweg-nn` has
//! layers and training. `thalweg-hal` is for authors of backends.

mod composite;
pub mod context;
pub mod control;
mod dump;
mod engine;
pub mod error;
mod exec;
pub mod grad;
pub mod graph;
pub mod interchange;
mod jit;
pub mod log;
mod lower;
pub mod observe;
pub mod ops;
#[doc(hidden)]
pub mod options;
pub mod random;
mod record;
pub mod session;
pub mod tensor;
pub mod tree;
mod types;
mod value;

/// The crate below: finds and loads backends and drives their devices, without tensors.
pub use thalweg_runtime as runtime;
pub use thalweg_runtime::{hal, host, loader, parallel};

pub use context::{Context, Mode, Precision};
pub use control::{checkpoint, cond, fori_loop, scan, while_loop};
pub use error::{DumpError, Error, Holder, IndexError, NumericsError, OutOfMemory, Result, SessionError};
pub use grad::{grad, hessian, jacobian, no_grad, stop_gradient, value_and_grad, vjp};
pub use hal::{DType, Device, Event, F8E4M3, F8E5M2, Stream, Target};
pub use jit::{Jit, jit};
pub use log::init;
pub use session::{Runtime, SessionOptions};
pub use tensor::Tensor;
pub use tensor::element::Element;
pub use tensor::shape::Shape;
pub use tree::Tree;
