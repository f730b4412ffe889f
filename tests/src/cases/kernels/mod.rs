//! Kernels of the IR: every op on every dtype in every way to reach memory, reductions, rows, random kernels.

mod casts;
mod expect;
mod forms;
mod places;
mod rand;
mod random;
mod reduce;
mod rows;
mod scalar;
mod windows;

use expect::tolerance;

use crate::kit::{Case, Stop};
use crate::rig::Device;
use thalweg_hal::DType;

pub(super) fn cases() -> Vec<Case> {
    [
        scalar::cases(),
        casts::cases(),
        reduce::cases(),
        rows::cases(),
        forms::cases(),
        places::cases(),
        rand::cases(),
        random::cases(),
        windows::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Ends the case as unsupported when the device has no kernels or lacks a dtype.
pub(super) fn need(device: &Device, dtypes: &[DType]) -> Result<(), Stop> {
    if device.raw().tables.kernel.is_none() {
        return Err(Stop::Unsupported("the backend has no table of kernels".into()));
    }
    let mut needed = dtypes.iter().filter_map(|dtype| dtype.facts().capability);
    needed.try_for_each(|capability| device.need(capability))
}

/// What the values of a case come from: the same on every run.
fn seed(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}
