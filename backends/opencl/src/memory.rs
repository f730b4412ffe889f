//! Device memory: buffers of the driver, or host memory that a CPU device uses in place.

use crate::api::{CommandQueue, Context, Mem, codes};
use std::ptr::NonNull;
use std::sync::Arc;
use thalweg_hal::kit::pages::{Account, Pages, Share};
use thalweg_hal::{Error, Result};

/// Kernels may assume that buffers start at multiples of this.
const ALIGNMENT: usize = 64;

/// Reserved or imported memory.
pub(crate) struct Chunk {
    // Before the pages: the driver lets go of the memory first.
    mem: Mem,
    host: Option<NonNull<u8>>,
    skew: u64,
    _pages: Option<Pages>,
    _share: Option<Share>,
}

// SAFETY: plain memory; the streams order all accesses to it.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    /// Host memory in huge pages, which the device uses in place.
    pub(crate) fn shared(context: &Context, bytes: u64, account: &Arc<Account>) -> Result<Chunk> {
        let share = account.take(bytes)?;
        let pages = Pages::map(bytes)?;
        let host = pages.base();
        // SAFETY: the pages live in the chunk and are dropped after the buffer.
        let mem = unsafe {
            context.buffer(
                codes::MEM_READ_WRITE | codes::MEM_USE_HOST_PTR,
                bytes as usize,
                host.as_ptr().cast(),
            )?
        };
        Ok(Chunk {
            mem,
            host: Some(host),
            skew: 0,
            _pages: Some(pages),
            _share: Some(share),
        })
    }

    /// Memory of the driver; `queue` makes it take the memory now, where it would do so at the first use.
    pub(crate) fn of_driver(
        context: &Context,
        queue: &Transfer,
        bytes: u64,
        account: &Arc<Account>,
    ) -> Result<Chunk> {
        let share = account.take(bytes)?;
        // SAFETY: no host memory is involved.
        let mem = unsafe { context.buffer(codes::MEM_READ_WRITE, bytes as usize, std::ptr::null_mut())? };
        queue.take_up(&mem)?;
        Ok(Chunk {
            mem,
            host: None,
            skew: 0,
            _pages: None,
            _share: Some(share),
        })
    }

    /// Host memory that somebody else owns, which the device uses in place.
    ///
    /// # Safety
    /// `bytes` bytes at `ptr` stay valid until the chunk is dropped.
    pub(crate) unsafe fn import(context: &Context, ptr: NonNull<u8>, bytes: u64) -> Result<Chunk> {
        // The buffer starts a little before the memory where that is not aligned; nothing before it is touched.
        let skew = ptr.as_ptr() as usize % ALIGNMENT;
        let start = ptr.as_ptr().wrapping_sub(skew);
        // SAFETY: the caller vouches for the memory.
        let mem = unsafe {
            context.buffer(
                codes::MEM_READ_WRITE | codes::MEM_USE_HOST_PTR,
                bytes as usize + skew,
                start.cast(),
            )?
        };
        Ok(Chunk {
            mem,
            host: Some(ptr),
            skew: skew as u64,
            _pages: None,
            _share: None,
        })
    }

    /// The buffer.
    pub(crate) fn mem(&self) -> &Mem {
        &self.mem
    }

    /// Bytes from the start of the buffer to the chunk's first byte.
    pub(crate) fn skew(&self) -> u64 {
        self.skew
    }

    /// Address of the first byte, where the device uses host memory in place.
    pub(crate) fn host(&self) -> Option<*mut u8> {
        self.host.map(NonNull::as_ptr)
    }
}

/// A queue of the device's own, for what belongs to no stream.
pub(crate) struct Transfer {
    queue: CommandQueue,
    api: &'static crate::api::Api,
}

impl Transfer {
    /// Wraps a queue.
    pub(crate) fn new(api: &'static crate::api::Api, queue: CommandQueue) -> Transfer {
        Transfer { queue, api }
    }

    fn take_up(&self, mem: &Mem) -> Result<()> {
        let raw = mem.raw();
        // SAFETY: one buffer of the queue's context, no events.
        let code = unsafe {
            (self.api.migrate)(
                self.queue.raw(),
                1,
                &raw const raw,
                codes::MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED,
                0,
                std::ptr::null(),
                std::ptr::null_mut(),
            )
        };
        let out_of_memory = |error: Error| Error::out_of_memory(error.message);
        crate::api::check("clEnqueueMigrateMemObjects", code).map_err(out_of_memory)?;
        // SAFETY: plain call.
        let code = unsafe { (self.api.finish)(self.queue.raw()) };
        crate::api::check("clFinish", code).map_err(out_of_memory)
    }

    /// Copies from the device to the host and waits.
    ///
    /// # Safety
    /// The range lies in the buffer and nothing writes it now; `to` is writable.
    pub(crate) unsafe fn read(&self, mem: &Mem, offset: usize, bytes: usize, to: *mut u8) -> Result<()> {
        // SAFETY: the caller vouches for both ends; the call blocks.
        let code = unsafe {
            (self.api.read)(
                self.queue.raw(),
                mem.raw(),
                1,
                offset,
                bytes,
                to.cast(),
                0,
                std::ptr::null(),
                std::ptr::null_mut(),
            )
        };
        crate::api::check("clEnqueueReadBuffer", code)
    }

    /// Copies from the host to the device and waits.
    ///
    /// # Safety
    /// The range lies in the buffer and nothing uses it now; `from` is readable.
    pub(crate) unsafe fn write(&self, mem: &Mem, offset: usize, bytes: usize, from: *const u8) -> Result<()> {
        // SAFETY: the caller vouches for both ends; the call blocks.
        let code = unsafe {
            (self.api.write)(
                self.queue.raw(),
                mem.raw(),
                1,
                offset,
                bytes,
                from.cast(),
                0,
                std::ptr::null(),
                std::ptr::null_mut(),
            )
        };
        crate::api::check("clEnqueueWriteBuffer", code)
    }
}
