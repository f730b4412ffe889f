//! Who a backend is, and the text of its last error.

use super::Context;

/// Who a backend is. Texts are UTF-8, padded with zeros.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BackendInfo {
    /// Target name: what stands before the colon of `device_target`.
    pub name: [u8; 32],
    /// Version of the backend.
    pub version: [u8; 32],
    /// Driver or runtime behind it, with its version; empty when there is none.
    pub driver: [u8; 128],
}

/// Always present.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CoreTable {
    /// Who this is. Needs no driver.
    pub info: unsafe extern "C" fn(context: Context, out: *mut BackendInfo) -> i32,
    /// Number of devices that the driver lists. Opens none. `Unavailable` says why there can be none.
    pub device_count: unsafe extern "C" fn(context: Context, out: *mut u32) -> i32,
    /// Copies the text of the last error of the calling thread to `buffer` (at most `capacity` bytes, no
    /// terminator) and returns its full length in bytes.
    pub last_error: unsafe extern "C" fn(context: Context, buffer: *mut u8, capacity: usize) -> usize,
    /// Finishes all work and frees everything. Every later call on this context is `Unavailable`.
    pub shutdown: unsafe extern "C" fn(context: Context) -> i32,
}
