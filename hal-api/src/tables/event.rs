//! Events: points in a stream.

use super::Context;

/// Arguments of [`EventTable::create`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EventArgs {
    /// Device handle.
    pub device: u64,
    /// 1 when the event takes time stamps.
    pub timing: u32,
    /// 0.
    pub reserved: u32,
}

/// Arguments of [`EventTable::record`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EventStreamArgs {
    /// Event handle.
    pub event: u64,
    /// Stream handle, of the event's device.
    pub stream: u64,
}

/// Arguments of [`EventTable::wait`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EventWaitArgs {
    /// Event handle.
    pub event: u64,
    /// Nanoseconds; `u64::MAX` waits for ever.
    pub timeout_ns: u64,
}

/// Arguments of [`EventTable::elapsed`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ElapsedArgs {
    /// Event handle, with timing.
    pub start: u64,
    /// Event handle, with timing, of the same device.
    pub end: u64,
}

/// Events.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EventTable {
    /// A new event that was never recorded.
    pub create: unsafe extern "C" fn(context: Context, args: *const EventArgs, out: *mut u64) -> i32,
    /// Frees an event; streams that wait for it go on waiting for its last record.
    pub destroy: unsafe extern "C" fn(context: Context, event: u64) -> i32,
    /// Covers the work of the stream so far; replaces the previous record.
    pub record: unsafe extern "C" fn(context: Context, args: *const EventStreamArgs) -> i32,
    /// Writes 1 when the covered work is done or the event was never recorded, 0 otherwise.
    pub query: unsafe extern "C" fn(context: Context, event: u64, out: *mut u32) -> i32,
    /// Waits for the covered work; `Timeout` when the time is up first.
    pub wait: unsafe extern "C" fn(context: Context, args: *const EventWaitArgs) -> i32,
    /// Signed nanoseconds from one record to the other; an error when either was not recorded, is not reached yet, or
    /// has no timing.
    pub elapsed: unsafe extern "C" fn(context: Context, args: *const ElapsedArgs, out: *mut i64) -> i32,
}
