//! Device memory, and host memory that the device reaches.

use crate::api::codes::SUCCESS;
use crate::api::driver::DevicePtr;
use crate::context::Context;
use cudarc::driver::sys::{CUmemorytype, CUpointer_attribute};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use thalweg_hal::{Error, Result};

/// Kernels assume that buffers start at multiples of this.
const ALIGNMENT: u64 = 64;
/// Host memory is registered in whole pages.
const PAGE: usize = 4096;
/// `CU_MEMHOSTALLOC_PORTABLE`, `CU_MEMHOSTREGISTER_PORTABLE`: for every context.
const PORTABLE: u32 = 1;
/// `CU_MEMHOSTALLOC_DEVICEMAP`, `CU_MEMHOSTREGISTER_DEVICEMAP`: with an address on the device.
const MAPPED: u32 = 2;

enum Owner {
    Driver,
    Registered { _pages: Pages },
}

/// Reserved or imported memory.
pub(crate) struct Chunk {
    base: DevicePtr,
    skew: u64,
    owner: Owner,
    context: Arc<Context>,
}

impl Chunk {
    /// Memory of the device.
    pub(crate) fn new(context: &Arc<Context>, bytes: u64) -> Result<Chunk> {
        context.enter()?;
        let mut base = 0;
        // SAFETY: plain call.
        let code = unsafe { (context.api.alloc)(&raw mut base, bytes as usize) };
        context.check("cuMemAlloc", code)?;
        Ok(Chunk {
            base,
            skew: 0,
            owner: Owner::Driver,
            context: Arc::clone(context),
        })
    }

    /// Host memory that somebody else owns, pinned and used in place.
    ///
    /// # Safety
    /// `bytes` bytes at `ptr` stay valid until the chunk is dropped.
    pub(crate) unsafe fn import(context: &Arc<Context>, ptr: NonNull<u8>, bytes: u64) -> Result<Chunk> {
        context.enter()?;
        let pages = Pages::register(context, ptr.as_ptr() as usize, bytes as usize)?;
        let mut device = 0;
        // SAFETY: the memory is registered.
        let code = unsafe { (context.api.host_device_ptr)(&raw mut device, ptr.as_ptr().cast(), 0) };
        context.check("cuMemHostGetDevicePointer", code)?;
        let skew = device % ALIGNMENT;
        Ok(Chunk {
            base: device - skew,
            skew,
            owner: Owner::Registered { _pages: pages },
            context: Arc::clone(context),
        })
    }

    /// Where kernels see the buffer start; a multiple of 64.
    #[inline]
    pub(crate) fn base(&self) -> DevicePtr {
        self.base
    }

    /// Bytes from there to the chunk's first byte.
    #[inline]
    pub(crate) fn skew(&self) -> u64 {
        self.skew
    }

    /// Address of a byte.
    #[inline]
    pub(crate) fn at(&self, offset: u64) -> DevicePtr {
        self.base + self.skew + offset
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Owner::Driver = self.owner
            && self.context.enter().is_ok()
        {
            // SAFETY: owned, and no work uses it any more.
            unsafe { (self.context.api.free)(self.base) };
        }
    }
}

/// Pages registered with the driver, by their address: its count of users and its length. The driver refuses pages that are
/// registered already.
static PAGES: Mutex<BTreeMap<usize, (usize, usize)>> = Mutex::new(BTreeMap::new());

/// A share in registered pages.
struct Pages {
    start: usize,
    context: Arc<Context>,
}

impl Pages {
    fn register(context: &Arc<Context>, address: usize, bytes: usize) -> Result<Pages> {
        let start = address / PAGE * PAGE;
        let end = address
            .checked_add(bytes)
            .and_then(|end| end.checked_next_multiple_of(PAGE))
            .ok_or_else(|| Error::invalid_argument("imported memory ends behind all addresses"))?;
        let mut all = PAGES.lock();
        let share = |start| Pages {
            start,
            context: Arc::clone(context),
        };
        if let Some((&from, (len, users))) = all.range_mut(..end).next_back()
            && from + *len > start
        {
            if from <= start && end <= from + *len {
                *users += 1;
                return Ok(share(from));
            }
            return Err(Error::unsupported(
                "part of the pages of this memory is imported already; import it whole, or copy it",
            ));
        }
        // SAFETY: the caller vouches for the memory, and pages are valid as a whole.
        let code =
            unsafe { (context.api.host_register)(start as *mut c_void, end - start, PORTABLE | MAPPED) };
        context.check("cuMemHostRegister", code)?;
        all.insert(start, (end - start, 1));
        Ok(share(start))
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let mut all = PAGES.lock();
        let Some((_, users)) = all.get_mut(&self.start) else {
            return;
        };
        *users -= 1;
        if *users == 0 {
            all.remove(&self.start);
            if self.context.enter().is_ok() {
                // SAFETY: registered by us, and nothing uses it any more.
                unsafe { (self.context.api.host_unregister)(self.start as *mut c_void) };
            }
        }
    }
}

/// Whether pages that this process has imported lie in a range.
pub(crate) fn is_imported(address: *const u8, bytes: u64) -> bool {
    let (start, end) = (
        address as usize,
        (address as usize).saturating_add(bytes as usize),
    );
    let all = PAGES.lock();
    let last = all.range(..end).next_back();
    last.is_some_and(|(from, (len, _))| from + len > start)
}

/// What the driver says about an address; `None` for memory that it does not know.
fn attribute<T: Default>(context: &Context, key: CUpointer_attribute, address: u64) -> Option<T> {
    let mut value = T::default();
    // SAFETY: the value has the attribute's type. Memory that the driver does not know is an error, which is the answer.
    let code = unsafe { (context.api.pointer_attribute)((&raw mut value).cast(), key, address) };
    (code == SUCCESS).then_some(value)
}

/// Where the pinned memory at an address ends, as far as the driver tells; `None` where memory is not pinned.
fn pinned_until(context: &Context, address: u64) -> Option<u64> {
    use CUpointer_attribute as Key;
    let kind = attribute::<u32>(context, Key::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)?;
    if kind != CUmemorytype::CU_MEMORYTYPE_HOST as u32 {
        return None;
    }
    let page = (address / PAGE as u64 + 1) * PAGE as u64;
    let start = attribute::<u64>(context, Key::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address);
    let size = attribute::<usize>(context, Key::CU_POINTER_ATTRIBUTE_RANGE_SIZE, address);
    match (start, size) {
        (Some(start), Some(size)) if start <= address => Some(page.max(start + size as u64)),
        _ => Some(page),
    }
}

/// Whether all of a range of host memory is pinned: copies to and from it need no help.
pub(crate) fn is_pinned(context: &Context, address: *const u8, bytes: u64) -> bool {
    let (mut at, end) = (address as u64, address as u64 + bytes);
    while at < end {
        match pinned_until(context, at) {
            Some(next) => at = next,
            None => return false,
        }
    }
    true
}

/// Whether none of a short range of host memory is pinned. The driver refuses copies of ranges that are neither.
pub(crate) fn is_pageable(context: &Context, address: *const u8, bytes: u64) -> bool {
    let (start, end) = (address as u64, address as u64 + bytes);
    let pages = (start / PAGE as u64 + 1..end.div_ceil(PAGE as u64)).map(|page| page * PAGE as u64);
    let mut firsts = std::iter::once(start).chain(pages);
    firsts.all(|at| pinned_until(context, at).is_none())
}

/// A block of pinned host memory.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    /// On the host.
    pub(crate) address: NonNull<u8>,
    device: DevicePtr,
    /// Its size.
    pub(crate) bytes: usize,
}

// SAFETY: plain memory; whoever uses it orders the accesses.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

/// Pinned host memory of our own. The context keeps it for the next who asks for as much: to free it would wait for all streams,
/// of which one may wait for who frees it.
pub(crate) struct Pinned {
    block: Block,
    context: Arc<Context>,
}

impl Pinned {
    /// `bytes` bytes, starting at a page. The context is current.
    pub(crate) fn new(context: &Arc<Context>, bytes: usize) -> Result<Pinned> {
        let context = Arc::clone(context);
        if let Some(block) = context.kept_pinned(bytes) {
            return Ok(Pinned { block, context });
        }
        let mut raw = std::ptr::null_mut();
        // SAFETY: plain call.
        let code = unsafe { (context.api.host_alloc)(&raw mut raw, bytes, PORTABLE | MAPPED) };
        context.check("cuMemHostAlloc", code)?;
        let address = NonNull::new(raw.cast::<u8>())
            .ok_or_else(|| Error::internal("cuMemHostAlloc returned nothing and no error"))?;
        let mut device = 0;
        // SAFETY: the memory was allocated with an address on the device.
        let code = unsafe { (context.api.host_device_ptr)(&raw mut device, raw, 0) };
        if let Err(error) = context.check("cuMemHostGetDevicePointer", code) {
            // SAFETY: owned, and nobody has seen it.
            unsafe { (context.api.host_free)(raw) };
            return Err(error);
        }
        let block = Block {
            address,
            device,
            bytes,
        };
        Ok(Pinned { block, context })
    }

    /// Host address of a byte.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        self.block.address.as_ptr().wrapping_add(offset)
    }

    /// Device address of the first byte.
    pub(crate) fn device(&self) -> DevicePtr {
        self.block.device
    }

    /// Whose it is.
    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.context.keep_pinned(self.block);
    }
}
