//! Compiled kernels and launches with their addresses resolved.

use crate::device::CpuDevice;
use crate::exec::{Arg, Args, Program};
use crate::library::LibraryKernel;
use crate::parallel::Parallel;
use arrayvec::ArrayVec;
use smallvec::SmallVec;
use std::sync::Arc;
use thalweg_hal::Result;
use thalweg_hal::backend::{Launch, Source};
use thalweg_hal::ir::MAX_PARAMS;

/// A compiled kernel.
pub enum CpuKernel {
    /// A kernel of the IR.
    Program(Program),
    /// A library op.
    Library(LibraryKernel),
}

impl CpuKernel {
    pub(crate) fn supports(source: &Source<'_>) -> Result<()> {
        match source {
            Source::Kernel(..) => Ok(()),
            Source::Library(op) => LibraryKernel::supports(op),
        }
    }

    pub(crate) fn compile(source: &Source<'_>) -> Result<CpuKernel> {
        Ok(match source {
            Source::Kernel(kernel, _) => CpuKernel::Program(Program::compile(kernel)?),
            Source::Library(op) => CpuKernel::Library(LibraryKernel::compile(op)?),
        })
    }

    /// Nanoseconds on one core, roughly.
    #[inline]
    pub(crate) fn cost(&self, extents: &[u64]) -> u64 {
        match self {
            CpuKernel::Program(program) => program.cost(extents),
            CpuKernel::Library(library) => library.cost(extents),
        }
    }

    /// # Safety
    /// The memory of the arguments is valid, and outputs overlap inputs only where the IR allows it.
    #[inline]
    unsafe fn run(&self, args: &Args<'_>, parallel: &dyn Parallel) {
        // SAFETY: the caller vouches for it.
        unsafe {
            match self {
                CpuKernel::Program(program) => program.run(args, parallel),
                CpuKernel::Library(library) => library.run(args, parallel),
            }
        }
    }
}

/// Runs a launch now.
///
/// # Safety
/// As [`CpuKernel::run`].
#[inline]
pub(crate) unsafe fn run(launch: &Launch<'_, CpuDevice>, parallel: &dyn Parallel) {
    let args: ArrayVec<Arg<'_>, MAX_PARAMS> = (launch.bindings.iter())
        .map(|bound| Arg {
            ptr: bound
                .region
                .chunk
                .base()
                .wrapping_add(bound.region.offset as usize),
            strides: bound.strides,
            gather_stride: bound.gather_stride,
            gather_extent: bound.gather_extent,
        })
        .collect();
    // SAFETY: the caller vouches for it.
    unsafe {
        launch.kernel.run(
            &Args {
                extents: launch.extents,
                args: &args,
                scalars: launch.scalars,
            },
            parallel,
        );
    }
}

#[derive(Clone)]
struct OwnedArg {
    ptr: *mut u8,
    strides: SmallVec<[i64; 4]>,
    gather_stride: i64,
    gather_extent: u64,
}

/// A launch that outlives the call it came with.
#[derive(Clone)]
pub(crate) struct Prepared {
    kernel: Arc<CpuKernel>,
    extents: SmallVec<[u64; 4]>,
    args: SmallVec<[OwnedArg; 4]>,
    scalars: SmallVec<[u64; 4]>,
}

// SAFETY: the addresses are of memory that the caller of `Device::submit` keeps valid until the work is done.
unsafe impl Send for Prepared {}
// SAFETY: as above.
unsafe impl Sync for Prepared {}

impl Prepared {
    pub(crate) fn new(launch: &Launch<'_, CpuDevice>) -> Prepared {
        let args = launch.bindings.iter().map(|bound| OwnedArg {
            ptr: bound
                .region
                .chunk
                .base()
                .wrapping_add(bound.region.offset as usize),
            strides: SmallVec::from_slice(bound.strides),
            gather_stride: bound.gather_stride,
            gather_extent: bound.gather_extent,
        });
        Prepared {
            kernel: Arc::clone(launch.kernel),
            extents: SmallVec::from_slice(launch.extents),
            args: args.collect(),
            scalars: SmallVec::from_slice(launch.scalars),
        }
    }

    pub(crate) fn cost(&self) -> u64 {
        self.kernel.cost(&self.extents)
    }

    /// # Safety
    /// As [`CpuKernel::run`].
    #[inline]
    pub(crate) unsafe fn run(&self, parallel: &dyn Parallel) {
        let args: ArrayVec<Arg<'_>, MAX_PARAMS> = (self.args.iter())
            .map(|arg| Arg {
                ptr: arg.ptr,
                strides: &arg.strides,
                gather_stride: arg.gather_stride,
                gather_extent: arg.gather_extent,
            })
            .collect();
        // SAFETY: the caller vouches for it.
        unsafe {
            self.kernel.run(
                &Args {
                    extents: &self.extents,
                    args: &args,
                    scalars: &self.scalars,
                },
                parallel,
            );
        }
    }
}
