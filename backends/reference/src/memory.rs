//! Memory: plain host memory, which kernels and copies reach by its address.

use std::alloc::{Layout, alloc, dealloc};
use thalweg_hal::{Error, Result};

/// Host memory, reserved here or lent by the host.
pub struct Chunk {
    pub(crate) ptr: *mut u8,
    /// None when it belongs to the host.
    layout: Option<Layout>,
}

// SAFETY: the streams' order says who may touch the memory.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    pub(crate) fn reserve(bytes: u64) -> Result<Chunk> {
        let refused = || Error::out_of_memory(format!("the system refused {bytes} bytes"));
        let size = usize::try_from(bytes).map_err(|_| refused())?;
        let layout = Layout::from_size_align(size.max(512), 512).map_err(|_| refused())?;
        // SAFETY: the size is not 0.
        let ptr = unsafe { alloc(layout) };
        if ptr.is_null() {
            Err(refused())
        } else {
            Ok(Chunk {
                ptr,
                layout: Some(layout),
            })
        }
    }

    pub(crate) fn borrowed(ptr: *mut u8) -> Chunk {
        Chunk { ptr, layout: None }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Some(layout) = self.layout {
            // SAFETY: allocated with this layout.
            unsafe { dealloc(self.ptr, layout) }
        }
    }
}
