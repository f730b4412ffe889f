//! The planes of a block, of elements or of lanes of several channels.

use super::Job;
use crate::library::conv::geometry::{Block, Layout};
use crate::library::conv::planes::Planes;
use crate::library::conv::words::ConvKernels;
use crate::library::gemm::{Byte, Stored};

/// How they are copied.
pub(super) enum Copies<T: Stored> {
    Elements(Planes<T>),
    Bytes(Planes<Byte>),
}

impl<T: Stored> Copies<T> {
    pub(super) fn new(
        kernels: &ConvKernels<T>,
        job: &Job<'_, T>,
        layout: &Layout,
        block: &Block,
        dst: *mut T::Acc,
    ) -> Copies<T> {
        let spatial = job.gathered.spatial;
        match kernels.bytes {
            None => {
                let form = (kernels.each(), T::ZERO);
                Copies::Elements(Planes::new(form, spatial, job.pass, layout, block, dst))
            }
            Some(bytes) => {
                let form = (bytes.each, bytes.zero);
                Copies::Bytes(Planes::new(form, spatial, job.pass, layout, block, dst.cast()))
            }
        }
    }

    /// Copies the planes of a group and sample. Where `framed`, a copy to the same place has left its zeros.
    ///
    /// # Safety
    /// As [`Planes::copy`].
    pub(super) unsafe fn copy(
        &self,
        kernels: &ConvKernels<T>,
        job: &Job<'_, T>,
        group: usize,
        sample: usize,
        framed: bool,
    ) {
        let all = (sample..sample + 1, 0..job.sizes.channels);
        // SAFETY: the caller's contract. Planes of bytes are only made of kernels for them, with the operand's real elements.
        unsafe {
            match (self, kernels.bytes) {
                (Copies::Bytes(planes), Some(bytes)) => {
                    let gathered = job.gathered.cast::<Byte>().of_group(group);
                    planes.copy(bytes.plane, &gathered, all, framed);
                }
                (Copies::Elements(planes), _) => {
                    planes.copy(kernels.plane, &job.gathered.of_group(group), all, framed);
                }
                (Copies::Bytes(_), None) => unreachable!("planes of bytes without kernels for them"),
            }
        }
    }
}
