//! Steps of programs, and of work that waits, on addresses.

use crate::device::CpuDevice;
use crate::exec::{Arg, Args};
use crate::kernel::CpuKernel;
use crate::library::LibraryKernel;
use crate::memory;
use crate::parallel::Parallel;
use crate::stream::COPY_BYTES_PER_NS;
use arrayvec::ArrayVec;
use smallvec::SmallVec;
use std::sync::OnceLock;
use thalweg_hal::ir::MAX_PARAMS;
use thalweg_hal::kit::program::{self, End, Form, Node, Operand, Step};

/// A form of an operand: its memory, and whether it has been made.
pub(crate) type Kept<'a> = (*mut u8, &'a OnceLock<()>);

/// Nanoseconds on one core, roughly.
pub(crate) fn cost(step: &Step<CpuDevice>) -> u64 {
    match step {
        Step::Launch { kernel, extents, .. } => kernel.cost(extents),
        Step::Copy { width, rows, .. } => width.saturating_mul(*rows) / COPY_BYTES_PER_NS,
        Step::Fill { bytes, .. } => bytes / COPY_BYTES_PER_NS,
    }
}

#[inline(always)]
fn address(operand: &Operand, slots: impl Fn(usize) -> *mut u8) -> *mut u8 {
    slots(operand.slot).wrapping_add(operand.offset as usize)
}

/// The buffers of a launch.
type Arguments<'a> = ArrayVec<Arg<'a>, MAX_PARAMS>;

/// Fills them in place: what is collected would be moved, with its room for all parameters.
#[inline(always)]
fn fill<'a>(args: &mut Arguments<'a>, operands: &'a [Operand], slots: impl Fn(usize) -> *mut u8) {
    for operand in operands {
        args.push(argument(operand, address(operand, &slots)));
    }
}

#[inline(always)]
fn argument(operand: &Operand, ptr: *mut u8) -> Arg<'_> {
    Arg {
        ptr,
        strides: &operand.strides,
        gather_stride: operand.gather_stride,
        gather_extent: operand.gather_extent,
    }
}

/// The operand that a step would read faster in another form, the form's bytes, and what its bytes depend on beside those of the slot.
pub(crate) fn wanted(step: &Step<CpuDevice>) -> Option<(&Operand, u64, Box<[u64]>)> {
    let Step::Launch {
        kernel,
        extents,
        operands,
        scalars,
        ..
    } = step
    else {
        return None;
    };
    let CpuKernel::Library(library) = &**kernel else {
        return None;
    };
    let args: Vec<Arg<'_>> = (operands.iter())
        .map(|operand| argument(operand, std::ptr::null_mut()))
        .collect();
    let wanted = library.wanted(&Args {
        extents,
        args: &args,
        scalars,
    })?;
    let operand = &operands[wanted.operand];
    let key = std::iter::once(operand.offset).chain(wanted.key).collect();
    Some((operand, wanted.bytes, key))
}

/// Whether a step may write to a slot.
pub(crate) fn may_write(step: &Step<CpuDevice>, slot: usize) -> bool {
    match step {
        Step::Launch { kernel, operands, .. } => {
            (operands.iter().enumerate()).any(|(at, operand)| operand.slot == slot && kernel.may_write(at))
        }
        Step::Copy { dst, .. } => dst.slot == slot,
        Step::Fill { slot: to, .. } => *to == slot,
    }
}

/// The forms of constants that nodes read faster.
pub(crate) fn forms(nodes: &[Node<CpuDevice>], constant: &dyn Fn(usize) -> bool) -> Vec<Form> {
    let form = |(node, of): (u32, &Node<CpuDevice>)| {
        let (operand, bytes, key) = wanted(&of.step)?;
        constant(operand.slot).then_some(Form {
            node,
            input: operand.slot,
            bytes,
            key,
        })
    };
    (0..).zip(nodes).filter_map(form).collect()
}

/// Runs a step now. `slots` says where slots lie, `kept` which form of an operand it reads; `arguments` are those of the
/// program's run.
///
/// # Safety
/// The memory behind the slots is valid, as far as the step reaches.
#[inline(always)]
pub(crate) unsafe fn run<'a>(
    step: &Step<CpuDevice>,
    slots: impl Fn(usize) -> *mut u8,
    kept: impl FnOnce() -> Option<Kept<'a>>,
    arguments: &[u64],
    parallel: &dyn Parallel,
) {
    match step {
        Step::Launch {
            kernel,
            extents,
            operands,
            scalars,
            given,
        } => {
            let Some(scalars) = program::plain_scalars(scalars, given, arguments) else {
                // SAFETY: the caller vouches for the memory.
                return unsafe { launch_mixed(step, &slots, kept(), arguments, parallel) };
            };
            // SAFETY: as above.
            unsafe { launch(kernel, extents, operands, scalars, slots, kept, parallel) };
        }
        // SAFETY: as above.
        Step::Copy { .. } | Step::Fill { .. } => unsafe { move_bytes(step, &slots, parallel) },
    }
}

/// Runs a copy or a fill. A call of its own leaves the registers to the loop over launches.
///
/// # Safety
/// As [`run`].
#[inline(never)]
unsafe fn move_bytes(step: &Step<CpuDevice>, slots: &dyn Fn(usize) -> *mut u8, parallel: &dyn Parallel) {
    match step {
        Step::Launch { .. } => {}
        Step::Copy {
            dst,
            src,
            width,
            rows,
        } => {
            let end = |end: &End| {
                let first = slots(end.slot).wrapping_add(end.offset as usize);
                (first, end.pitch as usize)
            };
            let (dst, (src, from)) = (end(dst), end(src));
            let (width, rows) = (*width as usize, *rows as usize);
            // SAFETY: the caller vouches for the memory.
            unsafe { memory::copy(dst, (src.cast_const(), from), width, rows, parallel) };
        }
        Step::Fill {
            slot,
            offset,
            bytes,
            pattern,
            pattern_bytes,
        } => {
            let to = slots(*slot).wrapping_add(*offset as usize);
            // SAFETY: the caller vouches for the memory.
            unsafe { memory::fill(to, *bytes as usize, *pattern, *pattern_bytes as usize, parallel) };
        }
    }
}

/// Runs a launch of which some scalars are the run's and others its own: out of the way of all others.
///
/// # Safety
/// As [`run`].
#[cold]
unsafe fn launch_mixed(
    step: &Step<CpuDevice>,
    slots: &dyn Fn(usize) -> *mut u8,
    kept: Option<Kept<'_>>,
    arguments: &[u64],
    parallel: &dyn Parallel,
) {
    if let Step::Launch {
        kernel,
        extents,
        operands,
        scalars,
        given,
    } = step
    {
        let mut place = SmallVec::new();
        let scalars = program::scalars(scalars, given, arguments, &mut place);
        // SAFETY: the caller vouches for the memory.
        unsafe { launch(kernel, extents, operands, scalars, slots, || kept, parallel) };
    }
}

/// # Safety
/// As [`run`].
#[inline(always)]
unsafe fn launch<'a>(
    kernel: &CpuKernel,
    extents: &[u64],
    operands: &[Operand],
    scalars: &[u64],
    slots: impl Fn(usize) -> *mut u8,
    kept: impl FnOnce() -> Option<Kept<'a>>,
    parallel: &dyn Parallel,
) {
    let program = match kernel {
        CpuKernel::Program(program) => program,
        CpuKernel::Library(library) => {
            // SAFETY: the caller vouches for the memory.
            return unsafe {
                launch_library(library, extents, (operands, scalars), &slots, kept(), parallel)
            };
        }
    };
    let address = |at: usize| address(&operands[at], &slots);
    // SAFETY: the caller vouches for the memory; what outputs may share was checked with the program.
    unsafe {
        if !program.run_single(extents, scalars, address) {
            let mut args = Arguments::new_const();
            fill(&mut args, operands, &slots);
            let args = Args {
                extents,
                args: &args,
                scalars,
            };
            program.run_loops(&args, parallel);
        }
    }
}

/// Runs a routine.
///
/// # Safety
/// As [`run`]. A form has the bytes that the kernel wanted, and who comes first alone writes them.
#[inline(never)]
unsafe fn launch_library(
    library: &LibraryKernel,
    extents: &[u64],
    (operands, scalars): (&[Operand], &[u64]),
    slots: &dyn Fn(usize) -> *mut u8,
    kept: Option<Kept<'_>>,
    parallel: &dyn Parallel,
) {
    let mut args = Arguments::new_const();
    fill(&mut args, operands, slots);
    let args = &Args {
        extents,
        args: &args,
        scalars,
    };
    // SAFETY: the caller's promise.
    unsafe {
        match kept {
            Some((form, made)) => {
                made.get_or_init(|| library.prepare(args, form));
                library.run(args, form, parallel);
            }
            None => library.run(args, std::ptr::null(), parallel),
        }
    }
}
