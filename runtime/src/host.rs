//! What this process offers to its backends.

use crate::parallel::{Pool, lent};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::OnceLock;
use thalweg_hal::Status;
use thalweg_hal::Str;
use thalweg_hal::tables::{
    ABI_VERSION, HostApi, LogLevel, LogRecord, Notice, NoticeKind, ParallelArgs, TraceSpan,
};

static CONFIG: RwLock<BTreeMap<String, String>> = RwLock::new(BTreeMap::new());

/// Sets a configuration key that backends may read; `None` removes it. Keys that are not set here are looked up in the
/// environment as `THALWEG_` and the key in upper case, with `_` for `.` and `-`.
pub fn set_config(key: &str, value: Option<&str>) {
    let mut config = CONFIG.write();
    match value {
        Some(value) => config.insert(key.to_owned(), value.to_owned()),
        None => config.remove(key),
    };
}

fn lookup(key: &str) -> Option<String> {
    if let Some(value) = CONFIG.read().get(key) {
        return Some(value.clone());
    }
    let name: String = key
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_uppercase()
            } else {
                '_'
            }
        })
        .collect();
    std::env::var(format!("THALWEG_{name}")).ok()
}

/// The table that every backend is given. Valid for the life of the process.
pub fn host_api() -> &'static HostApi {
    static HOST: OnceLock<HostApi> = OnceLock::new();
    HOST.get_or_init(|| HostApi {
        abi: ABI_VERSION,
        log_level: LogLevel::Trace as u32,
        context: std::ptr::null_mut(),
        log,
        parallel_for,
        max_threads,
        config,
        trace,
        notify,
    })
}

/// A text of a plugin; what is not UTF-8 reads as empty.
///
/// # Safety
/// As [`Str::get`].
unsafe fn text<'a>(text: Str) -> &'a str {
    // SAFETY: the caller vouches for it.
    unsafe { text.get() }.unwrap_or("")
}

unsafe extern "C" fn log(_: *mut c_void, record: *const LogRecord) {
    // SAFETY: the contract of the host's table: null or valid for the call.
    let Some(record) = (unsafe { record.as_ref() }) else {
        return;
    };
    // SAFETY: as above.
    let (backend, message, file) = unsafe { (text(record.target), text(record.message), text(record.file)) };
    let file = (!file.is_empty()).then_some(file);
    let line = file.map(|_| record.line);
    // The names that subscribers know from `tracing-log` for the place of a record of another library.
    match record.level {
        1 => tracing::error!(backend, log.file = file, log.line = line, "{message}"),
        2 => tracing::warn!(backend, log.file = file, log.line = line, "{message}"),
        3 => tracing::info!(backend, log.file = file, log.line = line, "{message}"),
        4 => tracing::debug!(backend, log.file = file, log.line = line, "{message}"),
        _ => tracing::trace!(backend, log.file = file, log.line = line, "{message}"),
    }
}

unsafe extern "C" fn parallel_for(_: *mut c_void, args: *const ParallelArgs) {
    struct Pieces(ParallelArgs);
    // SAFETY: the contract of `ParallelArgs` shares `data` between threads.
    unsafe impl Sync for Pieces {}
    impl Pieces {
        fn run(&self, index: usize) {
            // SAFETY: function and data are the plugin's, good until the region returns.
            unsafe { (self.0.body)(self.0.data, index) };
        }
    }
    // SAFETY: the contract of the host's table: null or valid for the call.
    let Some(args) = (unsafe { args.as_ref() }) else {
        return;
    };
    let pieces = Pieces(*args);
    let body = |index| pieces.run(index);
    match lent() {
        Some(pool) => pool.run(args.count, args.priority, &body),
        None => Pool::global().run(args.count, args.priority, &body),
    }
}

unsafe extern "C" fn max_threads(_: *mut c_void) -> usize {
    lent().map_or_else(|| Pool::global().threads(), |pool| pool.threads().max(1))
}

unsafe extern "C" fn config(
    _: *mut c_void,
    key: Str,
    buffer: *mut u8,
    capacity: usize,
    len: *mut usize,
) -> i32 {
    // SAFETY: the contract of the host's table.
    let Some(value) = lookup(unsafe { text(key) }) else {
        return Status::Unsupported as i32;
    };
    if len.is_null() {
        return Status::InvalidArgument as i32;
    }
    // SAFETY: `len` is not null, and `buffer` is null or has room for `capacity` bytes.
    unsafe {
        len.write(value.len());
        if !buffer.is_null() {
            std::ptr::copy_nonoverlapping(value.as_ptr(), buffer, value.len().min(capacity));
        }
    }
    Status::Ok as i32
}

unsafe extern "C" fn trace(_: *mut c_void, span: *const TraceSpan) {
    // SAFETY: the contract of the host's table: null or valid for the call.
    let Some(span) = (unsafe { span.as_ref() }) else {
        return;
    };
    // SAFETY: as above.
    let name = unsafe { text(span.name) };
    tracing::trace!(target: "thalweg::span", name, stream = span.stream, start_ns = span.start_ns, end_ns = span.end_ns);
}

unsafe extern "C" fn notify(_: *mut c_void, notice: *const Notice) {
    // SAFETY: the contract of the host's table: null or valid for the call.
    let Some(notice) = (unsafe { notice.as_ref() }) else {
        return;
    };
    // SAFETY: as above.
    let message = unsafe { text(notice.message) };
    if notice.kind == NoticeKind::DeviceLost as u32 {
        tracing::error!(critical = true, device = notice.ordinal, "{message}");
    } else {
        tracing::warn!(device = notice.ordinal, kind = notice.kind, "{message}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_hal::Host;

    #[test]
    fn a_backend_sees_configuration_and_threads() {
        // SAFETY: the table lives for ever.
        let host = unsafe { Host::new(host_api()) }.unwrap();
        set_config("test.key", Some(&"long ".repeat(100)));
        assert_eq!(host.config("test.key").unwrap().len(), 500);
        set_config("test.key", None);
        assert_eq!(host.config("test.key"), None);
        assert!(host.max_threads() >= 1);
        let sum = std::sync::atomic::AtomicUsize::new(0);
        host.parallel_for(100, 0, &|i| {
            sum.fetch_add(i, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 4950);
        let caught = std::panic::catch_unwind(|| host.parallel_for(4, 0, &|i| assert!(i != 2, "piece 2")));
        assert!(caught.is_err());
    }
}
