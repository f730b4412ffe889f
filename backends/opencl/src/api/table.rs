//! The table of functions.

use libloading::Library;
use std::ffi::{c_char, c_void};
use std::fmt::Write;
use thalweg_hal::status::with_causes;
use thalweg_hal::{Error, Result};

macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(transparent)]
        pub(crate) struct $name(pub *mut c_void);

        // SAFETY: OpenCL objects may be used from any thread; calls that may not run at the same time say so.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}
    )* };
}

opaque! {
    /// `cl_platform_id`.
    PlatformId;
    /// `cl_device_id`.
    DeviceId;
    /// `cl_context`.
    RawContext;
    /// `cl_command_queue`.
    RawQueue;
    /// `cl_mem`.
    RawMem;
    /// `cl_program`.
    RawProgram;
    /// `cl_kernel`.
    RawKernel;
    /// `cl_event`.
    RawEvent;
}

type Size = usize;
type Code = *mut i32;
type Sizes = *const [usize; 3];
type Events = *const RawEvent;
type Callback = Option<unsafe extern "C" fn()>;

macro_rules! functions {
    ($($(#[$kind:ident])? $field:ident = $symbol:literal($($arg:ty),*) -> $ret:ty;)*) => {
        /// The functions of one OpenCL loader.
        pub(crate) struct Api {
            _library: Library,
            $(pub(crate) $field: functions!(@ty [$($kind)?] unsafe extern "C" fn($($arg),*) -> $ret),)*
        }

        impl Api {
            fn resolve(library: Library) -> Result<Api> {
                // SAFETY: the types are those of the OpenCL headers, and the library lives as long as the table.
                unsafe {
                    Ok(Api {
                        $($field: functions!(@get [$($kind)?] library, $symbol),)*
                        _library: library,
                    })
                }
            }
        }
    };
    (@ty [] $ty:ty) => { $ty };
    (@ty [optional] $ty:ty) => { Option<$ty> };
    (@get [] $library:ident, $symbol:literal) => {
        *$library.get($symbol.as_bytes()).map_err(|error| missing($symbol, &error))?
    };
    (@get [optional] $library:ident, $symbol:literal) => {
        $library.get($symbol.as_bytes()).ok().map(|symbol| *symbol)
    };
}

functions! {
    get_platform_ids = "clGetPlatformIDs"(u32, *mut PlatformId, *mut u32) -> i32;
    get_platform_info = "clGetPlatformInfo"(PlatformId, u32, Size, *mut c_void, *mut Size) -> i32;
    get_device_ids = "clGetDeviceIDs"(PlatformId, u64, u32, *mut DeviceId, *mut u32) -> i32;
    get_device_info = "clGetDeviceInfo"(DeviceId, u32, Size, *mut c_void, *mut Size) -> i32;
    create_context = "clCreateContext"(*const isize, u32, *const DeviceId, Callback, *mut c_void, Code) -> RawContext;
    release_context = "clReleaseContext"(RawContext) -> i32;
    create_queue = "clCreateCommandQueue"(RawContext, DeviceId, u64, Code) -> RawQueue;
    #[optional]
    create_queue_with = "clCreateCommandQueueWithProperties"(RawContext, DeviceId, *const u64, Code) -> RawQueue;
    release_queue = "clReleaseCommandQueue"(RawQueue) -> i32;
    flush = "clFlush"(RawQueue) -> i32;
    finish = "clFinish"(RawQueue) -> i32;
    create_buffer = "clCreateBuffer"(RawContext, u64, Size, *mut c_void, Code) -> RawMem;
    release_mem = "clReleaseMemObject"(RawMem) -> i32;
    migrate = "clEnqueueMigrateMemObjects"(RawQueue, u32, *const RawMem, u64, u32, Events, *mut RawEvent) -> i32;
    read = "clEnqueueReadBuffer"
        (RawQueue, RawMem, u32, Size, Size, *mut c_void, u32, Events, *mut RawEvent) -> i32;
    write = "clEnqueueWriteBuffer"
        (RawQueue, RawMem, u32, Size, Size, *const c_void, u32, Events, *mut RawEvent) -> i32;
    read_rect = "clEnqueueReadBufferRect"
        (RawQueue, RawMem, u32, Sizes, Sizes, Sizes, Size, Size, Size, Size, *mut c_void, u32, Events, *mut RawEvent)
        -> i32;
    write_rect = "clEnqueueWriteBufferRect"
        (RawQueue, RawMem, u32, Sizes, Sizes, Sizes, Size, Size, Size, Size, *const c_void, u32, Events, *mut RawEvent)
        -> i32;
    copy = "clEnqueueCopyBuffer"(RawQueue, RawMem, RawMem, Size, Size, Size, u32, Events, *mut RawEvent) -> i32;
    fill = "clEnqueueFillBuffer"
        (RawQueue, RawMem, *const c_void, Size, Size, Size, u32, Events, *mut RawEvent) -> i32;
    map = "clEnqueueMapBuffer"
        (RawQueue, RawMem, u32, u64, Size, Size, u32, Events, *mut RawEvent, Code) -> *mut c_void;
    program_with_source = "clCreateProgramWithSource"
        (RawContext, u32, *const *const c_char, *const Size, Code) -> RawProgram;
    program_with_binary = "clCreateProgramWithBinary"
        (RawContext, u32, *const DeviceId, *const Size, *const *const u8, Code, Code) -> RawProgram;
    build_program = "clBuildProgram"
        (RawProgram, u32, *const DeviceId, *const c_char, Callback, *mut c_void) -> i32;
    get_program_info = "clGetProgramInfo"(RawProgram, u32, Size, *mut c_void, *mut Size) -> i32;
    get_build_info = "clGetProgramBuildInfo"(RawProgram, DeviceId, u32, Size, *mut c_void, *mut Size) -> i32;
    release_program = "clReleaseProgram"(RawProgram) -> i32;
    create_kernel = "clCreateKernel"(RawProgram, *const c_char, Code) -> RawKernel;
    release_kernel = "clReleaseKernel"(RawKernel) -> i32;
    set_arg = "clSetKernelArg"(RawKernel, u32, Size, *const c_void) -> i32;
    launch = "clEnqueueNDRangeKernel"
        (RawQueue, RawKernel, u32, *const Size, *const Size, *const Size, u32, Events, *mut RawEvent) -> i32;
    marker = "clEnqueueMarkerWithWaitList"(RawQueue, u32, Events, *mut RawEvent) -> i32;
    barrier = "clEnqueueBarrierWithWaitList"(RawQueue, u32, Events, *mut RawEvent) -> i32;
    create_user_event = "clCreateUserEvent"(RawContext, Code) -> RawEvent;
    set_user_event = "clSetUserEventStatus"(RawEvent, i32) -> i32;
    wait_for_events = "clWaitForEvents"(u32, Events) -> i32;
    get_event_info = "clGetEventInfo"(RawEvent, u32, Size, *mut c_void, *mut Size) -> i32;
    get_profiling_info = "clGetEventProfilingInfo"(RawEvent, u32, Size, *mut c_void, *mut Size) -> i32;
    #[optional]
    get_timers = "clGetDeviceAndHostTimer"(DeviceId, *mut u64, *mut u64) -> i32;
    retain_event = "clRetainEvent"(RawEvent) -> i32;
    release_event = "clReleaseEvent"(RawEvent) -> i32;
}

/// Names under which loaders are installed.
const NAMES: [&str; 2] = ["libOpenCL.so.1", "libOpenCL.so"];

impl Api {
    /// Opens the machine's OpenCL loader, or the library that `path` names. It is never closed: drivers start threads.
    pub(crate) fn open(path: Option<&str>) -> Result<&'static Api> {
        let mut causes = String::new();
        let names = path.as_slice();
        for name in if names.is_empty() { &NAMES[..] } else { names } {
            // SAFETY: loading a library runs its constructors; this one is the system's, or the user named it.
            match unsafe { Library::new(*name) } {
                Ok(library) => return Api::resolve(library).map(|api| &*Box::leak(Box::new(api))),
                Err(error) => {
                    let _ = write!(causes, "; {}", with_causes(&error));
                }
            }
        }
        let name = path.unwrap_or(NAMES[0]);
        Err(Error::unavailable(format!(
            "{name} was not found; install an OpenCL loader (on Debian: ocl-icd-libopencl1) and a driver for the device{causes}"
        )))
    }
}

fn missing(symbol: &str, error: &libloading::Error) -> Error {
    Error::unavailable(format!(
        "the OpenCL loader has no {symbol}; version 1.2 or later is needed ({})",
        with_causes(error)
    ))
}
