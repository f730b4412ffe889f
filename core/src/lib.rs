//! One binary, hardware picked when it runs.

pub mod context;
pub mod control;
pub mod error;
mod exec;
pub mod grad;
pub mod graph;
pub mod hal;
pub mod host;
pub mod interchange;
mod jit;
pub mod loader;
mod lower;
pub mod ops;
mod options;
pub mod parallel;
pub mod random;
pub mod tensor;
pub mod tree;

pub use context::{Context, Mode, Precision};
pub use control::{checkpoint, cond, fori_loop, scan, while_loop};
pub use error::{Error, Result};
pub use exec::{Holder, OutOfMemory};
pub use grad::{grad, hessian, jacobian, no_grad, stop_gradient, value_and_grad, vjp};
pub use hal::{DType, Device, Event, F8E4M3, F8E5M2, Stream, Target};
pub use jit::{Jit, jit};
pub use tensor::Tensor;
pub use tensor::element::Element;
pub use tensor::shape::Shape;
pub use tree::Tree;
