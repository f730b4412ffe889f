//! Launches: planned once, queued as often as wanted.

use crate::api::{Api, Context, Kernel, Mem, RawMem, codes};
use crate::device::OpenClDevice;
use crate::kernel::{ClKernel, Compiled, start};
use crate::profile::Origin;
use crate::stream::{ClStream, Order};
use smallvec::SmallVec;
use std::sync::Arc;
use thalweg_cstyle::{Grid, Plan};
use thalweg_hal::Result;
use thalweg_hal::backend::Launch;

/// A launch with everything but its stream.
pub(crate) type Prepared = thalweg_cstyle::Prepared<Arc<Compiled>, RawMem>;

/// The buffers of a launch, as arguments.
pub(crate) type Buffers = SmallVec<[RawMem; 8]>;

/// A planned launch on these buffers, with what it needs compiled; `None` when there is nothing to do.
pub(crate) fn prepare(kernel: &ClKernel, plan: Plan, buffers: Buffers) -> Result<Option<Prepared>> {
    Prepared::new(plan, buffers, |variant| {
        let compiled = kernel.variant(variant)?;
        let entries = compiled.entries.len();
        Ok((compiled, entries))
    })
}

/// Plans a launch and queues every pass.
///
/// # Safety
/// The buffers live until the stream has passed the launch.
pub(crate) unsafe fn submit(
    device: &OpenClDevice,
    stream: &ClStream,
    launch: &Launch<'_, OpenClDevice>,
    origin: Origin<'_>,
) -> Result<()> {
    let plan = launch.kernel.routine.plan_bound(launch, start)?;
    let buffers = launch.bindings.iter().map(|bound| bound.region.chunk.mem().raw());
    let Some(prepared) = prepare(launch.kernel, plan, buffers.collect())? else {
        return Ok(());
    };
    let mut order = stream.order();
    // SAFETY: the caller vouches for the buffers.
    unsafe { queue(&prepared, (device.api, &device.context), &mut order, origin)? };
    order.flush()
}

/// Queues every pass.
///
/// # Safety
/// As [`submit`].
pub(crate) unsafe fn queue(
    prepared: &Prepared,
    (api, context): (&Api, &Context),
    order: &mut Order<'_>,
    origin: Origin<'_>,
) -> Result<()> {
    let (compiled, plan, buffers) = (&prepared.programs, &prepared.plan, &prepared.buffers);
    let scratch = match plan.scratch_bytes {
        0 => None,
        bytes => Some(order.scratch.get(context, bytes)?.raw()),
    };
    let bytes = plan.words.len() * 8;
    // Where they are no argument by value.
    let mut buffer: Option<Mem> = None;
    for pass in &plan.passes {
        let values = pass.words(&plan.words);
        if !compiled.words_by_value && (buffer.is_none() || pass.round.is_some()) {
            let flags = codes::MEM_READ_ONLY | codes::MEM_COPY_HOST_PTR;
            // SAFETY: the words are copied by the call.
            buffer = Some(unsafe { context.buffer(flags, bytes, values.as_ptr().cast_mut().cast())? });
        }
        compiled.entries[pass.entry].with(|kernel| {
            let mut index = 0;
            let missing = compiled.pointers.saturating_sub(buffers.len());
            // Pointers that nobody follows.
            let filler = buffer.as_ref().map(Mem::raw);
            let filler = filler
                .into_iter()
                .flat_map(|mem| std::iter::repeat_n(mem, missing));
            for mem in buffers.iter().copied().chain(filler).chain(scratch) {
                set_buffer(kernel, index, mem)?;
                index += 1;
            }
            match &buffer {
                Some(mem) => set_buffer(kernel, index, mem.raw())?,
                // SAFETY: the words live through the call, and `with` lends the kernel to this thread alone.
                None => unsafe { kernel.set(index, bytes, values.as_ptr().cast())? },
            }
            // SAFETY: all arguments are set; the caller vouches for the buffers.
            unsafe { launch(api, kernel, pass.grid, order, origin) }
        })?;
    }
    Ok(())
}

/// Sets a buffer argument of a kernel that is lent to this thread.
pub(crate) fn set_buffer(kernel: &Kernel, index: u32, mem: RawMem) -> Result<()> {
    // SAFETY: the value is a handle, read by the call.
    unsafe { kernel.set(index, size_of::<RawMem>(), (&raw const mem).cast()) }
}

/// Queues a kernel whose arguments are set.
///
/// # Safety
/// The buffers among its arguments live until the stream has passed the launch, and the kernel stays within them.
pub(crate) unsafe fn launch(
    api: &Api,
    kernel: &Kernel,
    grid: Grid,
    order: &Order<'_>,
    origin: Origin<'_>,
) -> Result<()> {
    let local = grid.group_size as usize;
    let global = grid.groups as usize * local;
    order.submit(origin, "clEnqueueNDRangeKernel", |queue, event| {
        // SAFETY: one dimension, so one number each; the caller vouches for the rest.
        unsafe {
            (api.launch)(
                queue,
                kernel.raw(),
                1,
                std::ptr::null(),
                &raw const global,
                &raw const local,
                0,
                std::ptr::null(),
                event,
            )
        }
    })
}
