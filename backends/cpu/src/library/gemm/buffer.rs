//! Packing memory of a thread, kept from call to call.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use thalweg_hal::kit::pages::HUGE_PAGE;

/// Uninitialised memory in huge pages: packing into small ones would pay for their first touch and their TLB misses.
struct Buffer {
    start: *mut u8,
    bytes: usize,
}

impl Buffer {
    const EMPTY: Self = Self {
        start: std::ptr::null_mut(),
        bytes: 0,
    };

    fn with_bytes(bytes: usize) -> Self {
        let bytes = bytes.max(1).next_multiple_of(HUGE_PAGE);
        let Ok(layout) = Layout::from_size_align(bytes, HUGE_PAGE) else {
            handle_alloc_error(Layout::new::<u8>())
        };
        // SAFETY: the size is not zero.
        let start = unsafe { alloc(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        #[cfg(target_os = "linux")]
        // SAFETY: advice on memory that was just allocated; a refusal changes nothing.
        unsafe {
            libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE);
        }
        Self { start, bytes }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if !self.start.is_null() {
            // SAFETY: the layout is that of `with_bytes`, which succeeded with the same numbers.
            unsafe {
                dealloc(
                    self.start,
                    Layout::from_size_align_unchecked(self.bytes, HUGE_PAGE),
                )
            }
        }
    }
}

/// Buffers that a thread keeps: as many as one call and the program around it hold at a time.
const KEPT: usize = 4;

thread_local! {
    static SPARE: Cell<[Buffer; KEPT]> = const { Cell::new([Buffer::EMPTY; KEPT]) };
}

/// Uninitialised memory, aligned to 64 bytes at least; goes back to the thread when dropped.
pub(crate) struct Scratch(Buffer);

impl Scratch {
    /// `bytes` of memory that no one else uses meanwhile.
    pub(crate) fn take(bytes: usize) -> Self {
        let kept = SPARE.try_with(|spare| {
            let mut kept = spare.replace([Buffer::EMPTY; KEPT]);
            // The smallest that suffices, or else the largest, which is given back for a larger one.
            let fit = (kept.iter_mut()).min_by_key(|buffer| match buffer.bytes {
                enough if enough >= bytes => (false, enough),
                short => (true, usize::MAX - short),
            });
            let taken = fit.map(|buffer| std::mem::replace(buffer, Buffer::EMPTY));
            spare.set(kept);
            taken.unwrap_or(Buffer::EMPTY)
        });
        let mut buffer = kept.unwrap_or(Buffer::EMPTY);
        if buffer.bytes < bytes {
            drop(buffer);
            buffer = Buffer::with_bytes(bytes);
        }
        Self(buffer)
    }

    /// Its first byte.
    pub(crate) fn start(&self) -> *mut u8 {
        self.0.start
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let buffer = std::mem::replace(&mut self.0, Buffer::EMPTY);
        // A thread that is ending has no place to keep it.
        let _ = SPARE.try_with(move |spare| {
            let mut kept = spare.replace([Buffer::EMPTY; KEPT]);
            if let Some(least) = kept.iter_mut().min_by_key(|kept| kept.bytes)
                && least.bytes < buffer.bytes
            {
                *least = buffer;
            }
            spare.set(kept);
        });
    }
}
