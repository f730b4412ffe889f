//! Memory that may be executed, and is never writable at the same time.

use std::ptr::NonNull;

/// Code that is ready to run.
pub(crate) struct Pages {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: nothing writes to it.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Copies `code` to pages of its own; `None` where the system refuses.
    pub(crate) fn new(code: &[u8]) -> Option<Pages> {
        let bytes = code.len().next_multiple_of(4096);
        // SAFETY: a fresh private mapping. It is written before it may be executed, and then not any more.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let writable = libc::PROT_READ | libc::PROT_WRITE;
            let start = libc::mmap(std::ptr::null_mut(), bytes, writable, flags, -1, 0);
            if start == libc::MAP_FAILED {
                return None;
            }
            let pages = Pages {
                start: NonNull::new(start.cast())?,
                bytes,
            };
            start
                .cast::<u8>()
                .copy_from_nonoverlapping(code.as_ptr(), code.len());
            let executable = libc::PROT_READ | libc::PROT_EXEC;
            (libc::mprotect(start, bytes, executable) == 0).then_some(pages)
        }
    }

    pub(crate) fn at(&self, offset: usize) -> *const u8 {
        self.start.as_ptr().wrapping_add(offset)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
