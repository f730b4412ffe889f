//! The host's services as a backend sees them.

use crate::kit::queue::panic_error;
use crate::status::{Error, Result, Str};
use crate::tables::{HostApi, LogLevel, LogRecord, Notice, NoticeKind, ParallelArgs, TraceSpan};
use parking_lot::Mutex;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// The host's services.
#[derive(Clone, Copy)]
pub struct Host {
    api: &'static HostApi,
}

struct Region<'a> {
    body: &'a (dyn Fn(usize) + Sync),
    panicked: AtomicBool,
    panic: Mutex<Option<Box<dyn std::any::Any + Send>>>,
}

unsafe extern "C" fn run_piece(data: *mut c_void, index: usize) {
    // SAFETY: `parallel_for` passes a `Region` that outlives the region's last piece.
    let region = unsafe { &*data.cast::<Region<'_>>() };
    if region.panicked.load(Ordering::Relaxed) {
        return;
    }
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (region.body)(index))) {
        region.panicked.store(true, Ordering::Relaxed);
        region.panic.lock().get_or_insert(payload);
    }
}

impl Host {
    /// Wraps what the entry function was given.
    ///
    /// # Safety
    /// `api` is null or valid for the life of the process.
    pub unsafe fn new(api: *const HostApi) -> Result<Host> {
        // SAFETY: the caller vouches for it.
        unsafe { api.as_ref() }
            .map(|api| Host { api })
            .ok_or_else(|| Error::invalid_argument("the host's table is null"))
    }

    /// Whether the host wants records of `level`.
    pub fn logs(&self, level: LogLevel) -> bool {
        level as u32 <= self.api.log_level
    }

    /// Writes a log record, with the file and line of the caller.
    #[track_caller]
    pub fn log(&self, level: LogLevel, target: &str, message: &str) {
        if self.logs(level) {
            let caller = Location::caller();
            let record = LogRecord {
                level: level as u32,
                line: caller.line(),
                target: Str::new(target),
                file: Str::new(caller.file()),
                message: Str::new(message),
            };
            // SAFETY: the record and its texts live through the call.
            unsafe { (self.api.log)(self.api.context, &raw const record) };
        }
    }

    /// Runs `body(i)` for every `i < count` on the host's threads and this one; returns when all are done. A panic of the
    /// body goes on here.
    pub fn parallel_for(&self, count: usize, priority: i32, body: &(dyn Fn(usize) + Sync)) {
        let region = Region {
            body,
            panicked: AtomicBool::new(false),
            panic: Mutex::new(None),
        };
        let args = ParallelArgs {
            body: run_piece,
            data: (&raw const region).cast_mut().cast(),
            count,
            priority,
            reserved: 0,
        };
        // SAFETY: `run_piece` gets the region it expects, and the call returns after the last piece.
        unsafe { (self.api.parallel_for)(self.api.context, &raw const args) };
        if let Some(payload) = region.panic.into_inner() {
            resume_unwind(payload);
        }
    }

    /// Threads that a region can use, the caller among them; at least 1.
    pub fn max_threads(&self) -> usize {
        // SAFETY: plain call of the host's table.
        unsafe { (self.api.max_threads)(self.api.context) }.max(1)
    }

    /// The value of a configuration key, if it is set.
    pub fn config(&self, key: &str) -> Option<String> {
        let mut buffer = vec![0_u8; 256];
        loop {
            let mut len = 0;
            // SAFETY: the buffer has the capacity that is passed.
            let code = unsafe {
                (self.api.config)(
                    self.api.context,
                    Str::new(key),
                    buffer.as_mut_ptr(),
                    buffer.len(),
                    &raw mut len,
                )
            };
            if code != 0 {
                return None;
            }
            if len <= buffer.len() {
                buffer.truncate(len);
                return String::from_utf8(buffer).ok();
            }
            buffer.resize(len, 0);
        }
    }

    /// Hands a finished span to the host's profiler. Times as [`crate::clock::now`].
    pub fn trace(&self, name: &str, stream: u64, start_ns: u64, end_ns: u64) {
        let span = TraceSpan {
            name: Str::new(name),
            stream,
            start_ns,
            end_ns,
        };
        // SAFETY: the span and its text live through the call.
        unsafe { (self.api.trace)(self.api.context, &raw const span) };
    }

    /// Tells the host something.
    pub fn notify(&self, kind: NoticeKind, ordinal: u32, message: &str) {
        let notice = Notice {
            kind: kind as u32,
            ordinal,
            message: Str::new(message),
        };
        // SAFETY: the notice and its text live through the call.
        unsafe { (self.api.notify)(self.api.context, &raw const notice) };
    }

    /// Runs `call` and turns a panic into an error.
    pub fn guard<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
        catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| Err(panic_error(&*payload)))
    }
}
