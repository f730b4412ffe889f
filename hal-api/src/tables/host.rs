//! What the host offers to a plugin.

use crate::status::Str;
use std::ffi::c_void;

/// Severity of a log record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum LogLevel {
    /// Something failed.
    Error = 1,
    /// Something is worse than it should be.
    Warn = 2,
    /// What happens.
    Info = 3,
    /// For whoever works on the backend.
    Debug = 4,
    /// Every call.
    Trace = 5,
}

/// One log record.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LogRecord {
    /// A [`LogLevel`] code.
    pub level: u32,
    /// Line; 0 if unknown.
    pub line: u32,
    /// Module or component.
    pub target: Str,
    /// Source file; may be empty.
    pub file: Str,
    /// The message.
    pub message: Str,
}

/// A fork-join region.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ParallelArgs {
    /// Runs piece `index`; must not unwind.
    pub body: unsafe extern "C" fn(data: *mut c_void, index: usize),
    /// First argument of `body`, shared by all threads.
    pub data: *mut c_void,
    /// Number of pieces.
    pub count: usize,
    /// Regions of higher priority get free threads first.
    pub priority: i32,
    /// 0.
    pub reserved: u32,
}

/// A finished span for the host's profiler. Times in nanoseconds of the host's monotonic clock.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TraceSpan {
    /// What ran.
    pub name: Str,
    /// Stream handle; 0 if none.
    pub stream: u64,
    /// Start.
    pub start_ns: u64,
    /// End.
    pub end_ns: u64,
}

/// What a [`Notice`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum NoticeKind {
    /// A device was lost.
    DeviceLost = 1,
    /// An allocation is about to fail; the host may free what it caches.
    MemoryPressure = 2,
}

/// Something the host should know.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Notice {
    /// A [`NoticeKind`] code.
    pub kind: u32,
    /// Device ordinal.
    pub ordinal: u32,
    /// One line for a person.
    pub message: Str,
}

/// The host's services, valid for the life of the process. Functions may be called from any thread.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HostApi {
    /// The host's ABI version, as [`ABI_VERSION`](super::ABI_VERSION).
    pub abi: u32,
    /// Most detailed [`LogLevel`] code that the host wants.
    pub log_level: u32,
    /// First argument of every function.
    pub context: *mut c_void,
    /// Writes a log record.
    pub log: unsafe extern "C" fn(context: *mut c_void, record: *const LogRecord),
    /// Runs `body` for every index on the host's thread pool and the calling thread; returns when all are done.
    pub parallel_for: unsafe extern "C" fn(context: *mut c_void, args: *const ParallelArgs),
    /// Threads that a region can use, the caller among them.
    pub max_threads: unsafe extern "C" fn(context: *mut c_void) -> usize,
    /// Copies the value of a configuration key to `buffer` (at most `capacity` bytes) and writes its full length; a status
    /// other than 0 when the key is not set.
    pub config: unsafe extern "C" fn(
        context: *mut c_void,
        key: Str,
        buffer: *mut u8,
        capacity: usize,
        len: *mut usize,
    ) -> i32,
    /// Takes a finished span; does nothing when no profiler listens.
    pub trace: unsafe extern "C" fn(context: *mut c_void, span: *const TraceSpan),
    /// Takes a notice.
    pub notify: unsafe extern "C" fn(context: *mut c_void, notice: *const Notice),
}

// SAFETY: the functions may be called from any thread by contract.
unsafe impl Send for HostApi {}
// SAFETY: as above.
unsafe impl Sync for HostApi {}
