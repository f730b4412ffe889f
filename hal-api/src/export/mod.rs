//! From the trait [`Backend`] to the tables: handles, checks, error texts, panics.

mod device;
mod event;
mod kernel;
mod memory;
mod objects;
mod profile;
mod program;
mod resolve;
mod stream;

use crate::backend::Backend;
use crate::host::Host;
use crate::kit::args::{arg, array, optional, put, writable};
use crate::kit::error_slot;
use crate::kit::queue::panic_error;
use crate::status::{Error, Result, Status};
use crate::tables::{
    ABI_MAJOR, ABI_VERSION, BackendApi, BackendInfo, Context, CoreTable, DeviceTable, EventTable, HostApi,
    KernelTable, LogLevel, MemoryTable, ProfileTable, ProgramTable, StreamTable, Table, TableId,
};
use objects::{DOWN, Instance};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

/// The tables of a backend.
pub struct Tables<B: Backend>(std::marker::PhantomData<B>);

impl<B: Backend> Tables<B> {
    /// See [`CoreTable`].
    pub const CORE: &'static CoreTable = &CoreTable {
        info: info::<B>,
        device_count: device_count::<B>,
        last_error,
        shutdown: shutdown::<B>,
    };
    /// See [`DeviceTable`].
    pub const DEVICE: &'static DeviceTable = &device::table::<B>();
    /// See [`MemoryTable`].
    pub const MEMORY: &'static MemoryTable = &memory::table::<B>();
    /// See [`StreamTable`].
    pub const STREAM: &'static StreamTable = &stream::table::<B>();
    /// See [`EventTable`].
    pub const EVENT: &'static EventTable = &event::table::<B>();
    /// See [`KernelTable`].
    pub const KERNEL: &'static KernelTable = &kernel::table::<B>();
    /// See [`ProgramTable`].
    pub const PROGRAM: &'static ProgramTable = &program::table::<B>();
    /// See [`ProfileTable`].
    pub const PROFILE: &'static ProfileTable = &profile::table::<B>();
}

unsafe extern "C" fn query_interface<B: Backend>(_: Context, table: u32, version: u32) -> *const c_void {
    fn pointer<T: Table>(table: &'static T, version: u32) -> *const c_void {
        if version == T::VERSION {
            std::ptr::from_ref(table).cast()
        } else {
            std::ptr::null()
        }
    }
    match TableId::from_code(table) {
        Some(TableId::Core) => pointer(Tables::<B>::CORE, version),
        Some(TableId::Device) => pointer(Tables::<B>::DEVICE, version),
        Some(TableId::Memory) => pointer(Tables::<B>::MEMORY, version),
        Some(TableId::Stream) => pointer(Tables::<B>::STREAM, version),
        Some(TableId::Event) => pointer(Tables::<B>::EVENT, version),
        Some(TableId::Kernel) => pointer(Tables::<B>::KERNEL, version),
        Some(TableId::Program) => pointer(Tables::<B>::PROGRAM, version),
        Some(TableId::Profile) => pointer(Tables::<B>::PROFILE, version),
        None => std::ptr::null(),
    }
}

/// The entry function of a backend; [`export_backend!`](crate::export_backend) gives it its C name.
///
/// # Safety
/// `host` and `out` are null or valid; `host` for the life of the process.
pub unsafe extern "C" fn entry<B: Backend>(abi: u32, host: *const HostApi, out: *mut BackendApi) -> i32 {
    // SAFETY: the caller vouches for `host`.
    let host = match unsafe { Host::new(host) } {
        Ok(host) => host,
        Err(error) => return error_slot::set(&error),
    };
    let result = Host::guard(|| {
        if (abi >> 16) as u16 != ABI_MAJOR {
            return Err(Error::new(
                Status::IncompatibleAbi,
                format!(
                    "built against thalweg-hal {ABI_MAJOR}.x, this program speaks {}.x",
                    abi >> 16
                ),
            ));
        }
        // SAFETY: the caller vouches for `out`.
        let out =
            unsafe { out.as_mut() }.ok_or_else(|| Error::invalid_argument("the out pointer is null"))?;
        let instance = Box::new(Instance::new(B::start(host)?));
        *out = BackendApi {
            abi: ABI_VERSION,
            reserved: 0,
            context: Box::into_raw(instance).cast(),
            query_interface: query_interface::<B>,
        };
        Ok(())
    });
    if let Err(error) = &result {
        host.log(LogLevel::Error, B::NAME, &error.message);
    }
    error_slot::code(result)
}

/// Runs a call of a table: context, panics, error text.
///
/// # Safety
/// `context` is null or what the entry function of `B` handed out.
unsafe fn enter<B: Backend>(context: Context, call: impl FnOnce(&Instance<B>) -> Result<()>) -> i32 {
    // SAFETY: the caller vouches for it; an instance is never freed.
    let Some(instance) = (unsafe { context.cast::<Instance<B>>().as_ref() }) else {
        return error_slot::set(&Error::invalid_argument("the context is null"));
    };
    if instance.state.load(Ordering::Relaxed) & DOWN != 0 {
        return shut_down::<B>();
    }
    guard(|| call(instance))
}

/// As [`enter`] for calls that a profile sees: one look decides between the plain call and the one that takes care of profiles.
///
/// # Safety
/// As [`enter`].
#[inline(always)]
unsafe fn enter_profiled<B: Backend>(
    context: Context,
    plain: impl FnOnce(&Instance<B>) -> Result<()>,
    profiled: impl FnOnce(&Instance<B>) -> Result<()>,
) -> i32 {
    // SAFETY: the caller vouches for it; an instance is never freed.
    let Some(instance) = (unsafe { context.cast::<Instance<B>>().as_ref() }) else {
        return error_slot::set(&Error::invalid_argument("the context is null"));
    };
    if instance.state.load(Ordering::Relaxed) == 0 {
        return guard(|| plain(instance));
    }
    enter_slowly(instance, profiled)
}

#[cold]
#[inline(never)]
fn enter_slowly<B: Backend>(instance: &Instance<B>, call: impl FnOnce(&Instance<B>) -> Result<()>) -> i32 {
    if instance.state.load(Ordering::Relaxed) & DOWN != 0 {
        return shut_down::<B>();
    }
    guard(|| call(instance))
}

#[cold]
fn shut_down<B: Backend>() -> i32 {
    error_slot::set(&Error::unavailable(format!(
        "the backend {} was shut down",
        B::NAME
    )))
}

/// Runs a call: panics, error text.
#[inline(always)]
fn guard(call: impl FnOnce() -> Result<()>) -> i32 {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => 0,
        failed => report(failed),
    }
}

#[cold]
#[inline(never)]
fn report(failed: std::thread::Result<Result<()>>) -> i32 {
    match failed {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => error_slot::set(&error),
        Err(payload) => error_slot::set(&panic_error(&*payload)),
    }
}

/// Text padded with zeros, cut at a character border.
fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut end = text.len().min(N);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut bytes = [0; N];
    bytes[..end].copy_from_slice(&text.as_bytes()[..end]);
    bytes
}

unsafe extern "C" fn info<B: Backend>(context: Context, out: *mut BackendInfo) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let driver = padded(&instance.backend.driver());
            put(
                out,
                BackendInfo {
                    name: padded(B::NAME),
                    version: padded(B::VERSION),
                    driver,
                },
            )
        })
    }
}

unsafe extern "C" fn device_count<B: Backend>(context: Context, out: *mut u32) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe { enter::<B>(context, |instance| put(out, instance.backend.device_count()?)) }
}

unsafe extern "C" fn last_error(_: Context, buffer: *mut u8, capacity: usize) -> usize {
    // SAFETY: the contract of the tables.
    unsafe { error_slot::copy(buffer, capacity) }
}

unsafe extern "C" fn shutdown<B: Backend>(context: Context) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let mut closed = Ok(());
            for device in instance.devices.handles(|_| true) {
                let result = instance.close(device);
                closed = closed.and(result);
            }
            instance.state.fetch_or(DOWN, Ordering::Relaxed);
            closed
        })
    }
}

/// Exports a [`Backend`] as a plugin: the C symbol `thalweg_backend`.
///
/// ```text
/// thalweg_hal::export_backend!(Acme);
/// ```
///
/// The crate must be a `cdylib`, be built with unwinding panics, and describe itself with
/// [`note!`](crate::note).
#[macro_export]
macro_rules! export_backend {
    ($backend:ty) => {
        #[cfg(panic = "abort")]
        compile_error!(
            "a thalweg plugin must be built with panic = \"unwind\": a panic must not end the host"
        );

        /// The entry function of this plugin.
        ///
        /// # Safety
        /// See [`thalweg_hal::tables::Entry`]($crate::tables::Entry).
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn thalweg_backend(
            abi: u32,
            host: *const $crate::tables::HostApi,
            out: *mut $crate::tables::BackendApi,
        ) -> i32 {
            // SAFETY: the caller keeps the contract of the entry function.
            unsafe { $crate::export::entry::<$backend>(abi, host, out) }
        }
    };
}
