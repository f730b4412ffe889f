//! Layers, training, callbacks and metrics on the tensors of [`thalweg`].
//!
//! # Quick start
//!
//! ```
//! use thalweg::{Context, Mode};
//! use thalweg_nn::data::{Loader, Rows, Samples};
//! use thalweg_nn::{Dense, Model, Sequential, Tanh, loss, optim::Adam};
//!
//! let cx = Context::new("cpu")?;
//! cx.set_seed(1);
//! cx.set_mode(Mode::Graph); // forward, backward and update of a step are one compiled program
//! let x: Vec<f32> = (0..200).map(|i| i as f32 / 100.0 - 1.0).collect();
//! let y: Vec<f32> = x.iter().map(|x| (3.0 * x).sin()).collect();
//! let data = Loader::new(Samples::new(Rows::new(x, &[1])?, Rows::new(y, &[1])?)?, 20).shuffle(1);
//!
//! let net = Sequential::new().then(Dense::new(1, 32, &cx)?).then(Tanh).then(Dense::new(32, 1, &cx)?);
//! let mut model = Model::new(net, loss::mse, Adam::new(0.01), &cx);
//! let before = model.eval(&data)?["loss"];
//! model.train(10, &data, ())?;
//! assert!(model.eval(&data)?["loss"] < before);
//! # Ok::<(), thalweg_nn::Error>(())
//! ```
//!
//! # Modules are values
//!
//! A module is a struct with [`derive(Module)`](macro@Module). It lists its parameters under paths, which are also their names in
//! files. A training step takes a network and gives another, so that the whole step is one compiled program. What a forward pass
//! changes is a [`State`], such as running statistics. [`Layer`] adds `forward`.
//!
//! # Map
//!
//! | module | what |
//! |---|---|
//! | [`Dense`], [`Conv2d`], [`Sequential`], … | the layers, at the root of the crate |
//! | [`Model`] | a network, a loss and an optimizer: `train`, `eval`, `predict`, `save`, `load` |
//! | [`module`], [`Parameter`], [`State`] | networks as trees of named parameters: summaries, freezing |
//! | [`data`] | data sets, loaders that prepare batches in other threads, `idx` and `npy` files |
//! | [`mod@loss`], [`metrics`] | losses; figures over many batches |
//! | [`optim`], [`schedule`] | optimizers, clipping, loss scales; learning rates that change with the step |
//! | [`callback`] | progress, monitors, checkpoints, early stopping, your own |
//! | [`summary`] | what happened in a training, in files for TensorBoard |
//! | [`checkpoint`] | tensors of a network in safetensors files, by name |
//! | [`init`] | initial values |
//! | [`digits`] | handwritten digits for examples |
//!
//! # Features
//!
//! | feature | default | what | costs |
//! |---|---|---|---|
//! | `embedded-cpu` | yes | the CPU backend in the program | as in `thalweg` |
//!
//! # Where to go next
//!
//! `examples/` has LeNet-5, a layer of one's own, a callback, and fine-tuning from a file. `docs/adding-a-layer.md` in the repository
//! is the recipe for layers.
#![forbid(unsafe_code)]

// The derive macro names this crate.
extern crate self as thalweg_nn;

pub mod callback;
pub mod checkpoint;
pub mod data;
#[cfg(feature = "digits")]
pub mod digits;
mod error;
pub mod init;
mod layers;
pub mod loss;
pub mod metrics;
mod model;
pub mod module;
pub mod optim;
pub mod schedule;
pub mod summary;
mod train;

pub use error::{Error, Result};
pub use layers::*;
pub use model::{Described, Model, Trained};
pub use module::{Layer, Module, Parameter, Part, PartMut, State, Training, Visitor, VisitorMut};
pub use thalweg::{Tensor, Tree};
pub use thalweg_nn_derive::Module;
pub use train::LossFunction;
