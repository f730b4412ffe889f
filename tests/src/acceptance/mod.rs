//! Acceptance cases of the systems that this project succeeds: one function a row.
//!
//! Rows that need a device open one of their own, so that they see its whole memory and nobody else's.

mod energy;
mod memory;
mod questions;
mod streams;
mod tensors;

pub use energy::{a9, a10, a11, a12, plain_and_two_streams};
pub use memory::{a1, a2_and_a3, a4};
pub use questions::{a5, a6};
pub use streams::{a18, a20};
pub use tensors::{a7_and_a8, a14};

use std::fmt;
use thalweg::hal::ir::{Access, Kernel, Level, Role, ScalarOp};
use thalweg::hal::{self, Buffer, DType, Device, Launch, Stream, Tag};

/// Why a row is not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure(format!("unexpected error: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a row returns.
pub type Outcome = Result<(), Failure>;

fn expect(condition: bool, what: impl FnOnce() -> String) -> Outcome {
    if condition { Ok(()) } else { Err(Failure(what())) }
}

fn equal<T: PartialEq + fmt::Debug>(what: &str, found: T, expected: T) -> Outcome {
    expect(found == expected, || {
        format!("{what}: {found:?}, expected {expected:?}")
    })
}

/// `out = op(a, b)` over one axis of f32.
fn binary(device: &Device, name: &str, op: ScalarOp) -> hal::Result<hal::Kernel> {
    let mut kernel = Kernel::new(name, 1, 0);
    let param = |kernel: &mut Kernel, role| kernel.param(DType::F32, role, Level::Row, Access::Contiguous);
    let (a, b) = (param(&mut kernel, Role::In), param(&mut kernel, Role::In));
    let out = param(&mut kernel, Role::Out);
    let (a, b) = (kernel.load(a), kernel.load(b));
    let value = kernel.op(op, &[a, b]);
    kernel.store(out, value);
    hal::Kernel::compile(device, &kernel)
}

/// A new buffer with `op(a, b)`, as a tensor library makes it.
fn apply(stream: &Stream, kernel: &hal::Kernel, a: &Buffer, b: &Buffer) -> hal::Result<Buffer> {
    let out = stream.alloc(a.size(), Tag::new(kernel.name()))?;
    stream.launch(&Launch::new(
        kernel,
        &[a.size() / 4],
        &[a.arg(), b.arg(), out.arg()],
    ))?;
    Ok(out)
}
