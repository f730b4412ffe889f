//! Layers, training, callbacks and metrics.
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
mod train;

pub use error::{Error, Result};
pub use layers::*;
pub use model::{Model, Trained};
pub use module::{Layer, Module, Parameter, Part, PartMut, State, Training, Visitor, VisitorMut};
pub use thalweg::{Tensor, Tree};
pub use thalweg_nn_derive::Module;
pub use train::LossFunction;

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
