//! The text of an error that a layer has made itself, for the calling thread.

use std::cell::{Cell, RefCell};
use thalweg_hal::Error;

thread_local! {
    static OWN: Cell<bool> = const { Cell::new(false) };
    static TEXT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Forgets the text; every call of a layer begins so.
#[inline]
pub(crate) fn clear() {
    OWN.set(false);
}

/// Remembers the text of `error` and returns its code.
pub(crate) fn set(error: &Error) -> i32 {
    OWN.set(true);
    TEXT.with_borrow_mut(|text| {
        text.clear();
        text.push_str(&error.message);
    });
    error.status as i32
}

/// Copies the text, if the last error of this thread is a layer's, and returns its full length in bytes.
///
/// # Safety
/// `buffer` is null or points to `capacity` writable bytes.
pub(crate) unsafe fn copy(buffer: *mut u8, capacity: usize) -> Option<usize> {
    OWN.get().then(|| {
        TEXT.with_borrow(|text| {
            if !buffer.is_null() {
                // SAFETY: the caller vouches for `capacity` bytes, and no more are written.
                unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), buffer, text.len().min(capacity)) };
            }
            text.len()
        })
    })
}
