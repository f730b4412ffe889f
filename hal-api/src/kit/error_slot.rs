//! The text of the last error of each thread.

use crate::status::{Error, Status};
use std::cell::RefCell;

thread_local! {
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Remembers the text of `error` for the calling thread and returns its code.
pub fn set(error: &Error) -> i32 {
    // A thread at its very end has no place for it.
    let _ = LAST.try_with(|last| last.replace(error.message.clone()));
    error.status as i32
}

/// Turns a result into a status code.
pub fn code(result: Result<(), Error>) -> i32 {
    match result {
        Ok(()) => Status::Ok as i32,
        Err(error) => set(&error),
    }
}

/// Copies the text of the calling thread's last error to `buffer` and returns its full length in bytes.
///
/// # Safety
/// `buffer` is null or points to `capacity` writable bytes.
pub unsafe fn copy(buffer: *mut u8, capacity: usize) -> usize {
    let copied = LAST.try_with(|last| {
        let last = last.borrow();
        if !buffer.is_null() {
            // SAFETY: the caller vouches for `capacity` bytes, and no more are written.
            unsafe { std::ptr::copy_nonoverlapping(last.as_ptr(), buffer, last.len().min(capacity)) };
        }
        last.len()
    });
    copied.unwrap_or(0)
}
