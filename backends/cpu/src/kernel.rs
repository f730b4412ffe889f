//! Compiled kernels and launches with their addresses resolved.

use crate::device::CpuDevice;
use crate::exec::{Arg, Args, Program};
use crate::isa::Isa;
use crate::library::LibraryKernel;
use crate::parallel::Parallel;
use arrayvec::ArrayVec;
use thalweg_hal::Result;
use thalweg_hal::backend::{Bound, Launch, Source};
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

    /// Kernels of the IR, products, and epilogues of library ops run as machine code of our own where `codegen` and there is some;
    /// products of bf16 by AMX where `amx_bf16` and the machine has it.
    pub(crate) fn compile(
        source: &Source<'_>,
        isa: Isa,
        (codegen, amx_bf16): (bool, bool),
    ) -> Result<CpuKernel> {
        Ok(match source {
            Source::Kernel(kernel, _) => {
                let program = Program::compile(kernel, isa)?;
                CpuKernel::Program(match codegen {
                    true => program.generate(isa),
                    false => program,
                })
            }
            Source::Library(op) => CpuKernel::Library(LibraryKernel::compile(op, isa, (codegen, amx_bf16))?),
        })
    }

    /// Whether it may write to parameter `at`.
    pub(crate) fn may_write(&self, at: usize) -> bool {
        match self {
            CpuKernel::Program(program) => program.writes(at),
            CpuKernel::Library(LibraryKernel::Matmul(_)) => at > 1,
            CpuKernel::Library(_) => true,
        }
    }

    /// What it is on a device of an instruction set, as lines `key=value`.
    pub(crate) fn facts(&self, isa: Isa) -> String {
        let form = match self {
            CpuKernel::Program(program) => program.facts(),
            CpuKernel::Library(_) => "form=library\n".to_owned(),
        };
        format!("instruction_set={}\n{form}", isa.name())
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
    pub(crate) unsafe fn run(&self, args: &Args<'_>, parallel: &dyn Parallel) {
        // SAFETY: the caller vouches for it.
        unsafe {
            match self {
                CpuKernel::Program(program) => program.run(args, parallel),
                CpuKernel::Library(library) => library.run(args, std::ptr::null(), parallel),
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
    if let CpuKernel::Program(program) = &**launch.kernel {
        let address = |p: usize| arg(&launch.bindings[p]).ptr;
        // SAFETY: the caller vouches for it.
        if unsafe { program.run_single(launch.extents, launch.scalars, address) } {
            return;
        }
    }
    // Filled in place: an array that is collected would be moved, with room for 64 parameters.
    let mut args = ArrayVec::<Arg<'_>, MAX_PARAMS>::new_const();
    for bound in launch.bindings {
        args.push(arg(bound));
    }
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

#[inline(always)]
fn arg<'a>(bound: &Bound<'a, CpuDevice>) -> Arg<'a> {
    Arg {
        ptr: bound
            .region
            .chunk
            .base()
            .wrapping_add(bound.region.offset as usize),
        strides: bound.strides,
        gather_stride: bound.gather_stride,
        gather_extent: bound.gather_extent,
    }
}
