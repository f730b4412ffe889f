//! Device memory: buffers of the driver, or host memory that a CPU device uses in place.

use crate::api::{CommandQueue, Context, Mem, codes};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_hal::{Error, Result};

/// Size and alignment of a huge page.
const HUGE_PAGE: usize = 2 << 20;
/// Kernels may assume that buffers start at multiples of this.
const ALIGNMENT: usize = 64;

/// Bytes reserved by one device, against which it may not reserve more than it has. Drivers hand out more and fail when
/// the memory is touched.
#[derive(Debug)]
pub(crate) struct Account {
    reserved: AtomicU64,
    total: u64,
}

impl Account {
    /// An account with nothing reserved of `total` bytes.
    pub(crate) fn new(total: u64) -> Arc<Account> {
        Arc::new(Account {
            reserved: AtomicU64::new(0),
            total,
        })
    }

    fn take(self: &Arc<Self>, bytes: u64) -> Result<Share> {
        let fits = |reserved: u64| reserved.checked_add(bytes).filter(|&sum| sum <= self.total);
        match self
            .reserved
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
        {
            Ok(_) => Ok(Share {
                account: Arc::clone(self),
                bytes,
            }),
            Err(reserved) => Err(Error::out_of_memory(format!(
                "{bytes} B more than {reserved} B exceed the device's {} B",
                self.total
            ))),
        }
    }
}

struct Share {
    account: Arc<Account>,
    bytes: u64,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.account.reserved.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Reserved or imported memory.
pub(crate) struct Chunk {
    // Before the mapping: the driver lets go of the memory first.
    mem: Mem,
    host: Option<NonNull<u8>>,
    skew: u64,
    _mapping: Option<Mapping>,
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
        let mapping = Mapping::new(bytes as usize)?;
        let host = mapping.base;
        // SAFETY: the mapping lives in the chunk and is dropped after the buffer.
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
            _mapping: Some(mapping),
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
            _mapping: None,
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
            _mapping: None,
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

/// Anonymous pages, huge where the system gives them; taken from the system when they are first touched.
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    fn new(bytes: usize) -> Result<Mapping> {
        let refused = || {
            let cause = std::io::Error::last_os_error();
            Error::out_of_memory(format!("the system maps no {bytes} B more: {cause}"))
        };
        let padded = bytes.checked_add(HUGE_PAGE).ok_or_else(refused)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh anonymous mapping touches no memory of ours.
        let raw = unsafe { libc::mmap(std::ptr::null_mut(), padded, protection, flags, -1, 0) };
        if raw == libc::MAP_FAILED {
            return Err(refused());
        }
        let start = raw as usize;
        let aligned = start.next_multiple_of(HUGE_PAGE);
        let end = (aligned + bytes).next_multiple_of(4096);
        // SAFETY: both ends lie inside the mapping and outside the part that is kept.
        unsafe {
            if aligned > start {
                libc::munmap(raw, aligned - start);
            }
            if start + padded > end {
                libc::munmap(end as *mut c_void, start + padded - end);
            }
            #[cfg(target_os = "linux")]
            libc::madvise(aligned as *mut c_void, bytes, libc::MADV_HUGEPAGE);
        }
        let base = NonNull::new(aligned as *mut u8).ok_or_else(refused)?;
        Ok(Mapping { base, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly this range is mapped, and nothing points into it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_hands_out_what_there_is() {
        let account = Account::new(1000);
        let first = account.take(600).unwrap();
        assert!(account.take(401).is_err() && account.take(u64::MAX).is_err());
        let second = account.take(400).unwrap();
        drop((first, second));
        account.take(1000).unwrap();
    }

    #[test]
    fn a_mapping_is_aligned_and_writable() {
        let mapping = Mapping::new(3 << 20).unwrap();
        assert_eq!(mapping.base.as_ptr() as usize % HUGE_PAGE, 0);
        // SAFETY: the last byte of the mapping.
        unsafe { mapping.base.as_ptr().add((3 << 20) - 1).write(7) };
        assert!(Mapping::new(usize::MAX).is_err());
    }
}
