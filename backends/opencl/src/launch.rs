//! Launches: planned once, queued as often as wanted.

use crate::api::{Api, Context, Kernel, Mem, RawMem, codes};
use crate::device::OpenClDevice;
use crate::kernel::{Buffers, ClKernel, Compiled};
use crate::profile::Origin;
use crate::stream::{ClStream, Order};
use smallvec::SmallVec;
use std::sync::Arc;
use thalweg_cstyle::{Grid, Launch as Described, Place, Plan};
use thalweg_hal::backend::Launch;
use thalweg_hal::{Error, Result};

/// A launch with everything but its buffers and its stream.
pub(crate) struct Prepared {
    compiled: Arc<Compiled>,
    plan: Plan,
}

impl Prepared {
    /// Plans a launch and compiles what it needs; `None` when there is nothing to do.
    pub(crate) fn of(kernel: &ClKernel, launch: &Described<'_>) -> Result<Option<Prepared>> {
        let plan = kernel.routine.plan(launch)?;
        if plan.passes.is_empty() {
            return Ok(None);
        }
        let compiled = kernel.variant(&plan.variant)?;
        let entries = compiled.entries.len();
        if let Some(pass) = plan.passes.iter().find(|pass| pass.entry >= entries) {
            return Err(Error::internal(format!(
                "a plan calls entry {} of a program of {entries} entries",
                pass.entry
            )));
        }
        Ok(Some(Prepared { compiled, plan }))
    }

    /// Makes it the launch of other offsets and scalars, as [`Routine::adapt`](thalweg_cstyle::Routine::adapt) does.
    pub(crate) fn adapt(
        &mut self,
        kernel: &ClKernel,
        before: (&[u64], &[u64]),
        launch: &Described<'_>,
    ) -> bool {
        kernel.routine.adapt(&mut self.plan, before, launch)
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
        let places: SmallVec<[Place<'_>; 8]> = (launch.bindings.iter())
            .map(|bound| Place::of(bound, |chunk| (chunk.mem().raw().0 as u64, chunk.skew())))
            .collect();
        let described = Described {
            extents: launch.extents,
            places: &places,
            scalars: launch.scalars,
        };
        let Some(prepared) = Prepared::of(launch.kernel, &described)? else {
            return Ok(());
        };
        let buffers: Buffers = (launch.bindings.iter())
            .map(|bound| bound.region.chunk.mem().raw())
            .collect();
        let mut order = stream.order();
        // SAFETY: the caller vouches for the buffers.
        unsafe { prepared.queue((device.api, &device.context), &mut order, &buffers, origin)? };
        order.flush()
    }

    /// Queues every pass for `buffers`, one for each parameter.
    ///
    /// # Safety
    /// As [`Prepared::submit`].
    pub(crate) unsafe fn queue(
        &self,
        (api, context): (&Api, &Context),
        order: &mut Order<'_>,
        buffers: &Buffers,
        origin: Origin<'_>,
    ) -> Result<()> {
        let scratch = match self.plan.scratch_bytes {
            0 => None,
            bytes => Some(order.scratch.get(context, bytes)?.raw()),
        };
        let bytes = self.plan.words.len() * 8;
        // Where they are no argument by value.
        let mut buffer: Option<Mem> = None;
        for pass in &self.plan.passes {
            let values = pass.words(&self.plan.words);
            if !self.compiled.words_by_value && (buffer.is_none() || pass.round.is_some()) {
                let flags = codes::MEM_READ_ONLY | codes::MEM_COPY_HOST_PTR;
                // SAFETY: the words are copied by the call.
                buffer = Some(unsafe { context.buffer(flags, bytes, values.as_ptr().cast_mut().cast())? });
            }
            self.compiled.entries[pass.entry].with(|kernel| {
                let mut index = 0;
                let missing = self.compiled.pointers.saturating_sub(buffers.len());
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
