//! A launch: the interpreter of the contract over memory of this process.

use crate::device::Reference;
use thalweg_hal::backend::Launch;
use thalweg_hal::interpreter::{self, Definition, Memory, Place, Run};
use thalweg_hal::ir::{Info, Kernel};
use thalweg_hal::kit::host_memory::address;

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
    let places: Vec<Place<'_>> = (launch.bindings.iter())
        .map(|bound| Place {
            strides: bound.strides,
            gather_stride: bound.gather_stride,
            gather_extent: bound.gather_extent,
        })
        .collect();
    let run = Run {
        kernel: &launch.kernel.kernel,
        info: &launch.kernel.info,
        extents: launch.extents,
        places: &places,
        scalars: launch.scalars,
    };
    interpreter::run(&run, &mut Bound(launch), &Definition);
}

/// The memory of a launch. Only [`run`] makes one, so that its contract holds.
struct Bound<'a>(&'a Launch<'a, Reference>);

impl Bound<'_> {
    fn address(&self, param: usize, offset: i64) -> *mut u8 {
        address(&self.0.bindings[param].region).wrapping_offset(offset as isize)
    }
}

impl Memory for Bound<'_> {
    fn read(&self, param: usize, offset: i64, bytes: &mut [u8]) {
        // SAFETY: the interpreter asks for elements that the launch reaches, which `run`'s caller vouches for.
        unsafe {
            self.address(param, offset)
                .copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len());
        }
    }

    fn write(&mut self, param: usize, offset: i64, bytes: &[u8]) {
        // SAFETY: as above; the parameter is an output.
        unsafe {
            self.address(param, offset)
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }
}
