//! Launches: planned once, queued as often as wanted.

use crate::api::Driver;
use crate::api::driver::{DevicePtr, RawStream};
use crate::device::CudaDevice;
use crate::kernel::{CudaKernel, Entries};
use crate::library::Call;
use crate::stream::Order;
use cudarc::driver::sys::CUDA_KERNEL_NODE_PARAMS;
use smallvec::SmallVec;
use std::ffi::c_void;
use thalweg_cstyle::{Pass, Plan};
use thalweg_hal::backend::Launch;
use thalweg_hal::{Error, Result};

/// A launch that can be queued.
pub(crate) enum Ready {
    /// By kernels of our own.
    Kernel(Box<Prepared>),
    /// By cuBLASLt, and a map after it where it needs one.
    Product(Box<Call>),
    /// Nothing to do.
    Nothing,
}

impl Ready {
    /// Plans a launch and compiles what it needs.
    pub(crate) fn new(launch: &Launch<'_, CudaDevice>) -> Result<Ready> {
        if let Some(product) = &launch.kernel.product {
            // Other extents of a space without elements may be anything.
            if (launch.extents.split_last()).is_some_and(|(_, space)| space.contains(&0)) {
                return Ok(Ready::Nothing);
            }
            if let Some(call) = product.prepare(launch)? {
                return Ok(Ready::Product(Box::new(call)));
            }
        }
        let plan = launch.kernel.plan(launch)?;
        let buffers = launch.bindings.iter().map(|bound| bound.region.chunk.base());
        Ok(match prepare(launch.kernel, plan, buffers.collect())? {
            Some(prepared) => Ready::Kernel(Box::new(prepared)),
            None => Ready::Nothing,
        })
    }
}

/// A launch of kernels with everything but its stream.
pub(crate) type Prepared = thalweg_cstyle::Prepared<Entries, DevicePtr>;

/// The buffers of a launch, as arguments.
pub(crate) type Buffers = SmallVec<[DevicePtr; 8]>;

/// A planned launch on these buffers, with what it needs compiled; `None` when there is nothing to do.
pub(crate) fn prepare(kernel: &CudaKernel, plan: Plan, buffers: Buffers) -> Result<Option<Prepared>> {
    Prepared::new(plan, buffers, |variant| {
        let entries = kernel.variant(variant)?;
        let count = entries.len();
        Ok((entries, count))
    })
}

/// Hands out the arguments of a pass, which the driver copies: pointers to pointers, then one to the words.
fn with_arguments<R>(
    prepared: &Prepared,
    pass: &Pass,
    scratch: Option<DevicePtr>,
    run: impl FnOnce(&mut [*mut c_void]) -> R,
) -> R {
    let words = pass.words(&prepared.plan.words);
    let buffers: SmallVec<[DevicePtr; 9]> = prepared.buffers.iter().copied().chain(scratch).collect();
    let mut arguments: SmallVec<[*mut c_void; 10]> = buffers
        .iter()
        .map(|buffer| std::ptr::from_ref(buffer).cast_mut().cast())
        .chain([words.as_ptr().cast_mut().cast()])
        .collect();
    run(&mut arguments)
}

/// Queues every pass.
///
/// # Safety
/// The buffers live until the stream has passed the launch.
pub(crate) unsafe fn queue(prepared: &Prepared, order: &mut Order<'_>) -> Result<()> {
    let scratch = match prepared.plan.scratch_bytes {
        0 => None,
        bytes => Some(order.scratch(bytes)?),
    };
    let (api, stream) = (order.context().api, order.raw());
    // SAFETY: the caller vouches for the buffers.
    unsafe {
        queue_on(prepared, api, stream, scratch, |call, code| {
            order.check(call, code)
        })
    }
}

/// Queues every pass on a stream; `check` judges the driver's codes. The context is current.
///
/// # Safety
/// The buffers live until the stream has passed the launch, and `scratch` is memory of its size that nobody else uses.
pub(crate) unsafe fn queue_on(
    prepared: &Prepared,
    api: &Driver,
    stream: RawStream,
    scratch: Option<DevicePtr>,
    check: impl Fn(&str, u32) -> Result<()>,
) -> Result<()> {
    for pass in &prepared.plan.passes {
        let (entry, grid) = (prepared.programs[pass.entry], pass.grid);
        let code = with_arguments(prepared, pass, scratch, |arguments| {
            // SAFETY: the arguments are those of the entry; the caller vouches for the buffers.
            unsafe {
                (api.launch)(
                    entry.function,
                    grid.groups as u32,
                    1,
                    1,
                    grid.group_size,
                    1,
                    1,
                    0,
                    stream,
                    arguments.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            }
        });
        check("cuLaunchKernel", code)?;
    }
    Ok(())
}

/// Hands out the parameters of one pass as a node of a graph, whose scratch memory starts at `scratch`.
pub(crate) fn with_node<R>(
    prepared: &Prepared,
    pass: usize,
    scratch: DevicePtr,
    run: impl FnOnce(&CUDA_KERNEL_NODE_PARAMS) -> R,
) -> Result<R> {
    let Some(pass) = prepared.plan.passes.get(pass) else {
        return Err(Error::internal("a launch has fewer passes than its graph"));
    };
    let (entry, grid) = (prepared.programs[pass.entry], pass.grid);
    let scratch = (prepared.plan.scratch_bytes > 0).then_some(scratch);
    Ok(with_arguments(prepared, pass, scratch, |arguments| {
        run(&CUDA_KERNEL_NODE_PARAMS {
            func: entry.function.0.cast(),
            gridDimX: grid.groups as u32,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: grid.group_size,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            kernelParams: arguments.as_mut_ptr(),
            extra: std::ptr::null_mut(),
            kern: std::ptr::null_mut(),
            ctx: std::ptr::null_mut(),
        })
    }))
}
