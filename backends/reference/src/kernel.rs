//! A launch: the interpreter of the contract over memory of this process.

use crate::device::Reference;
use thalweg_hal::backend::Launch;
use thalweg_hal::interpreter::{self, Definition};
use thalweg_hal::ir::{Info, Kernel};

/// A kernel with what the verifier found out about it.
pub struct Compiled {
    pub(crate) kernel: Kernel,
    pub(crate) info: Info,
}

/// Runs a launch.
///
/// # Safety
/// As [`thalweg_hal::backend::Device::submit`].
pub(crate) unsafe fn run(launch: &Launch<'_, Reference>) {
    let Compiled { kernel, info } = &**launch.kernel;
    // SAFETY: the caller's contract.
    unsafe { interpreter::launch(launch, (kernel, info), &Definition) };
}
