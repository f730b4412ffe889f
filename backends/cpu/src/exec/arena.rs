//! Scratch memory of a thread, kept from launch to launch.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::ptr::NonNull;

const ALIGN: usize = 4096;
/// Most bytes of one block that an idle thread holds on to.
const RETAIN: usize = 8 << 20;

/// Memory that is freed when dropped.
struct Memory {
    start: NonNull<u8>,
    bytes: usize,
}

impl Memory {
    fn layout(bytes: usize) -> Layout {
        // SAFETY: the alignment is a power of two and scratch stays far below isize::MAX.
        unsafe { Layout::from_size_align_unchecked(bytes, ALIGN) }
    }

    fn new(bytes: usize) -> Memory {
        let bytes = bytes.next_power_of_two().max(1 << 16);
        let layout = Memory::layout(bytes);
        // SAFETY: the size is not 0.
        match NonNull::new(unsafe { alloc(layout) }) {
            Some(start) => Memory { start, bytes },
            None => handle_alloc_error(layout),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.start.as_ptr(), Memory::layout(self.bytes)) };
    }
}

thread_local! {
    static FREE: RefCell<Vec<Memory>> = const { RefCell::new(Vec::new()) };
}

/// Scratch that goes back to the thread when dropped.
pub(super) struct Scratch {
    memory: Option<Memory>,
}

impl Scratch {
    /// At least `bytes` bytes of undefined content, aligned to a page.
    pub(super) fn new(bytes: usize) -> Scratch {
        let last = FREE.try_with(|free| free.borrow_mut().pop()).ok().flatten();
        let memory = last
            .filter(|m| m.bytes >= bytes)
            .unwrap_or_else(|| Memory::new(bytes));
        Scratch { memory: Some(memory) }
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.memory
            .as_ref()
            .map_or(std::ptr::null_mut(), |m| m.start.as_ptr())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take().filter(|m| m.bytes <= RETAIN) {
            // Without thread-local storage, at the end of a thread, the memory is freed.
            let _ = FREE.try_with(|free| free.borrow_mut().push(memory));
        }
    }
}
