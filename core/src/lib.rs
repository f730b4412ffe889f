//! One binary, hardware picked when it runs.

mod composite;
pub mod context;
pub mod control;
mod engine;
pub mod error;
mod exec;
pub mod grad;
pub mod graph;
pub mod interchange;
mod jit;
mod lower;
pub mod ops;
pub mod random;
pub mod tensor;
pub mod tree;
mod types;
mod value;

/// The crate below: finds and loads backends and drives their devices, without tensors.
pub use thalweg_runtime as runtime;
pub use thalweg_runtime::{hal, host, loader, parallel};

pub use context::{Context, Mode, Precision};
pub use control::{checkpoint, cond, fori_loop, scan, while_loop};
pub use error::{Error, Holder, OutOfMemory, Result};
pub use grad::{grad, hessian, jacobian, no_grad, stop_gradient, value_and_grad, vjp};
pub use hal::{DType, Device, Event, F8E4M3, F8E5M2, Stream, Target};
pub use jit::{Jit, jit};
pub use tensor::Tensor;
pub use tensor::element::Element;
pub use tensor::shape::Shape;
pub use tree::Tree;
