//! Copies between devices. Contexts share no memory and no events, so they go through the host, in stream order.

use crate::api::{Api, Context, Mem, codes};
use crate::device::OpenClDevice;
use crate::memory::Transfer;
use crate::profile::Origin;
use crate::stream::{ClStream, create_queue};
use parking_lot::Mutex;
use std::ptr::NonNull;
use std::sync::Arc;
use thalweg_hal::backend::Region;
use thalweg_hal::{Error, Result};

/// Bytes of the staging memory of a device.
const STAGE: usize = 4 << 20;

/// Host memory that the device's driver has pinned, which it copies to and from fastest.
pub(crate) struct Stage {
    // Kept for the memory that it maps. It is released with its context, mapped as it is.
    _mem: Mem,
    address: NonNull<u8>,
}

// SAFETY: plain memory, behind a lock.
unsafe impl Send for Stage {}

/// What a copy needs of a device: a queue that no stream holds up, and staging memory.
pub(crate) struct Port {
    api: &'static Api,
    context: Arc<Context>,
    transfer: Transfer,
    raw_queue: crate::api::RawQueue,
    stage: Mutex<Option<Stage>>,
}

impl Port {
    /// The port of a device.
    pub(crate) fn new(
        api: &'static Api,
        context: &Arc<Context>,
        device: crate::api::DeviceId,
    ) -> Result<Arc<Port>> {
        let queue = create_queue(api, context, device, 0)?;
        Ok(Arc::new(Port {
            api,
            context: Arc::clone(context),
            raw_queue: queue.raw(),
            transfer: Transfer::new(api, queue),
            stage: Mutex::new(None),
        }))
    }

    /// The queue that no stream holds up.
    pub(crate) fn raw_queue(&self) -> crate::api::RawQueue {
        self.raw_queue
    }

    /// The device's own queue.
    pub(crate) fn transfer(&self) -> &Transfer {
        &self.transfer
    }

    fn new_stage(&self) -> Result<Stage> {
        let flags = codes::MEM_READ_WRITE | codes::MEM_ALLOC_HOST_PTR;
        let mut code = 0;
        // SAFETY: the driver allocates the memory and maps all of it; the call blocks.
        unsafe {
            let mem = self.context.buffer(flags, STAGE, std::ptr::null_mut())?;
            let address = (self.api.map)(
                self.raw_queue,
                mem.raw(),
                1,
                codes::MAP_READ_WRITE,
                0,
                STAGE,
                0,
                std::ptr::null(),
                std::ptr::null_mut(),
                &raw mut code,
            );
            crate::api::check("clEnqueueMapBuffer", code)?;
            let address = NonNull::new(address.cast())
                .ok_or_else(|| Error::internal("clEnqueueMapBuffer returned nothing and no error"))?;
            Ok(Stage { _mem: mem, address })
        }
    }

    /// Lends the staging memory.
    fn staged<R>(&self, run: impl FnOnce(*mut u8) -> Result<R>) -> Result<R> {
        let mut stage = self.stage.lock();
        if stage.is_none() {
            *stage = Some(self.new_stage()?);
        }
        match &*stage {
            Some(stage) => run(stage.address.as_ptr()),
            None => Err(Error::internal("staging memory that was made is not there")),
        }
    }
}

/// One end of a copy, owned but for the memory.
struct End {
    port: Arc<Port>,
    mem: *const Mem,
    offset: u64,
    pitch: u64,
    host: Option<*mut u8>,
}

// SAFETY: the pointers lead to memory that the caller of `copy` keeps until the stream has passed it.
unsafe impl Send for End {}

impl End {
    fn new(device: &OpenClDevice, region: &Region<'_, OpenClDevice>, pitch: u64) -> End {
        let chunk = region.chunk;
        End {
            port: Arc::clone(&device.port),
            mem: chunk.mem(),
            offset: chunk.skew() + region.offset,
            pitch,
            host: chunk.host().map(|base| base.wrapping_add(region.offset as usize)),
        }
    }

    /// # Safety
    /// `bytes` bytes of row `row` from `column` on lie in the memory, which still lives; `to` is writable.
    unsafe fn read(&self, row: u64, column: u64, bytes: usize, to: *mut u8) -> Result<()> {
        let at = row * self.pitch + column;
        // SAFETY: the caller vouches for it.
        unsafe {
            match self.host {
                Some(base) => to.copy_from_nonoverlapping(base.add(at as usize), bytes),
                None => self
                    .port
                    .transfer
                    .read(&*self.mem, (self.offset + at) as usize, bytes, to)?,
            }
        }
        Ok(())
    }

    /// # Safety
    /// As [`End::read`], with `from` readable.
    unsafe fn write(&self, row: u64, column: u64, bytes: usize, from: *const u8) -> Result<()> {
        let at = row * self.pitch + column;
        // SAFETY: the caller vouches for it.
        unsafe {
            match self.host {
                Some(base) => base.add(at as usize).copy_from_nonoverlapping(from, bytes),
                None => self
                    .port
                    .transfer
                    .write(&*self.mem, (self.offset + at) as usize, bytes, from)?,
            }
        }
        Ok(())
    }
}

type Place<'a> = (&'a OpenClDevice, &'a Region<'a, OpenClDevice>, u64);

/// Copies from one device to another, in the order of `stream`.
///
/// # Safety
/// Both ends live until the stream has passed the copy.
pub(crate) unsafe fn copy(
    stream: &ClStream,
    (to, from): (Place<'_>, Place<'_>),
    width: u64,
    rows: u64,
    origin: Origin<'_>,
) -> Result<()> {
    let (to, from) = (End::new(to.0, to.1, to.2), End::new(from.0, from.1, from.2));
    stream.host_work(origin, move || {
        // The whole ends, not the pointers in them, which no thread may take.
        let (to, from) = (&to, &from);
        for row in 0..rows {
            for column in (0..width).step_by(STAGE) {
                let bytes = (width - column).min(STAGE as u64) as usize;
                // SAFETY: the caller vouches for both ends.
                unsafe {
                    match (to.host, from.host) {
                        (Some(base), _) => {
                            from.read(row, column, bytes, base.add((row * to.pitch + column) as usize))?;
                        }
                        (None, Some(base)) => {
                            to.write(row, column, bytes, base.add((row * from.pitch + column) as usize))?;
                        }
                        (None, None) => from.port.staged(|stage| {
                            from.read(row, column, bytes, stage)?;
                            to.write(row, column, bytes, stage)
                        })?,
                    }
                }
            }
        }
        Ok(())
    })
}
