//! Launches of devices whose memory is the process's own.

use super::{Arithmetic, Memory, Place, Run, run};
use crate::backend::{Device, Launch};
use crate::ir::{Info, Kernel};
use crate::kit::host_memory::{HostChunk, address};

/// Runs a launch of `kernel`, which `info` was found out about.
///
/// # Safety
/// As [`Device::submit`].
pub unsafe fn launch<D: Device<Chunk = HostChunk>>(
    launch: &Launch<'_, D>,
    (kernel, info): (&Kernel, &Info),
    arithmetic: &impl Arithmetic,
) {
    let places: Vec<Place<'_>> = (launch.bindings.iter())
        .map(|bound| Place {
            strides: bound.strides,
            gather_stride: bound.gather_stride,
            gather_extent: bound.gather_extent,
        })
        .collect();
    let given = Run {
        kernel,
        info,
        extents: launch.extents,
        places: &places,
        scalars: launch.scalars,
    };
    run(&given, &mut Bound(launch), arithmetic);
}

/// The memory of a launch. Only [`launch`] makes one, so that its contract holds.
struct Bound<'a, D: Device>(&'a Launch<'a, D>);

impl<D: Device<Chunk = HostChunk>> Bound<'_, D> {
    fn address(&self, param: usize, offset: i64) -> *mut u8 {
        address(&self.0.bindings[param].region).wrapping_offset(offset as isize)
    }
}

impl<D: Device<Chunk = HostChunk>> Memory for Bound<'_, D> {
    fn read(&self, param: usize, offset: i64, bytes: &mut [u8]) {
        // SAFETY: the interpreter asks for elements that the launch reaches, which the caller of `launch` vouches for.
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
