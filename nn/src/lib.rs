//! Layers, training, callbacks and metrics.
#![forbid(unsafe_code)]

// The derive macro names this crate.
extern crate self as thalweg_nn;

pub mod init;
mod layers;
pub mod module;
pub mod optim;
pub mod schedule;

pub use layers::*;
pub use module::{Layer, Mapper, Module, Parameter, State, Training, Visitor};
pub use thalweg::{Tensor, Tree};
pub use thalweg_nn_derive::Module;
