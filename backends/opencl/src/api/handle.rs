//! Owned OpenCL objects: dropping releases them. The driver keeps what queued work still uses.

use super::table::{Api, DeviceId, RawContext, RawEvent, RawKernel, RawMem, RawProgram, RawQueue};
use super::{check, codes, error, info};
use std::ffi::c_void;
use thalweg_hal::{Error, Result};

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident($raw:ident) by $release:ident;)*) => { $(
        $(#[$doc])*
        pub(crate) struct $name {
            raw: $raw,
            api: &'static Api,
        }

        impl $name {
            /// Takes what `call` created, unless it returned an error.
            ///
            /// # Safety
            /// With a code of success the caller owns `raw`.
            pub(crate) unsafe fn own(api: &'static Api, call: &str, raw: $raw, code: i32) -> Result<$name> {
                check(call, code)?;
                if raw.0.is_null() {
                    return Err(Error::internal(format!("{call} returned nothing and no error")));
                }
                Ok($name { raw, api })
            }

            /// The object.
            #[inline]
            pub(crate) fn raw(&self) -> $raw {
                self.raw
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: owned, and not used after this.
                unsafe { (self.api.$release)(self.raw) };
            }
        }
    )* };
}

handles! {
    /// A context of one device.
    Context(RawContext) by release_context;
    /// An in-order queue.
    CommandQueue(RawQueue) by release_queue;
    /// A buffer.
    Mem(RawMem) by release_mem;
    /// A built program.
    Program(RawProgram) by release_program;
    /// A kernel with its arguments; one thread at a time may set them.
    Kernel(RawKernel) by release_kernel;
    /// The end of one command.
    Event(RawEvent) by release_event;
}

impl Context {
    /// A context of `device`.
    pub(crate) fn new(api: &'static Api, device: DeviceId) -> Result<Context> {
        let mut code = 0;
        // SAFETY: one device is passed; no properties, no callback.
        unsafe {
            let raw = (api.create_context)(
                std::ptr::null(),
                1,
                &raw const device,
                None,
                std::ptr::null_mut(),
                &raw mut code,
            );
            Context::own(api, "clCreateContext", raw, code)
        }
    }

    /// A buffer; `host` as `flags` ask for it.
    ///
    /// # Safety
    /// With `USE_HOST_PTR`, `host` stays valid as long as the buffer; with `COPY_HOST_PTR`, for this call.
    pub(crate) unsafe fn buffer(&self, flags: u64, bytes: usize, host: *mut c_void) -> Result<Mem> {
        let mut code = 0;
        // SAFETY: the caller vouches for `host`.
        unsafe {
            let raw = (self.api.create_buffer)(self.raw, flags, bytes, host, &raw mut code);
            Mem::own(self.api, "clCreateBuffer", raw, code).map_err(|error| match code {
                // For a buffer this is lack of memory, for a launch it is not.
                codes::OUT_OF_RESOURCES => Error::out_of_memory(error.message),
                _ => error,
            })
        }
    }

    /// An event that the host completes.
    pub(crate) fn user_event(&self) -> Result<Event> {
        let mut code = 0;
        // SAFETY: plain call.
        unsafe {
            let raw = (self.api.create_user_event)(self.raw, &raw mut code);
            Event::own(self.api, "clCreateUserEvent", raw, code)
        }
    }
}

impl Event {
    /// 0 when the command is done, below when it failed, above while it is under way.
    pub(crate) fn status(&self) -> i32 {
        let mut status = 0_i32;
        // SAFETY: the out value has the size that is passed.
        let code = unsafe {
            (self.api.get_event_info)(
                self.raw,
                codes::EVENT_COMMAND_EXECUTION_STATUS,
                size_of::<i32>(),
                (&raw mut status).cast(),
                std::ptr::null_mut(),
            )
        };
        if code == codes::SUCCESS { status } else { code }
    }

    /// Whether the command has ended, one way or the other.
    pub(crate) fn is_done(&self) -> bool {
        self.status() <= codes::COMPLETE
    }

    /// Waits until the command has ended; how it ended is its status.
    pub(crate) fn wait(&self) {
        // SAFETY: one event is passed.
        unsafe { (self.api.wait_for_events)(1, &raw const self.raw) };
    }

    /// Completes a user event.
    pub(crate) fn complete(&self) {
        // SAFETY: plain call.
        unsafe { (self.api.set_user_event)(self.raw, codes::COMPLETE) };
    }

    /// When the command ended, in nanoseconds of the device's clock.
    pub(crate) fn end_time(&self) -> Result<u64> {
        self.time(codes::PROFILING_COMMAND_END)
    }

    /// One of the times of a command that has ended, in nanoseconds of the device's clock.
    pub(crate) fn time(&self, key: u32) -> Result<u64> {
        let mut time = 0_u64;
        // SAFETY: the out value has the size that is passed.
        let code = unsafe {
            (self.api.get_profiling_info)(
                self.raw,
                key,
                size_of::<u64>(),
                (&raw mut time).cast(),
                std::ptr::null_mut(),
            )
        };
        check("clGetEventProfilingInfo", code).map_err(|error| Error::unsupported(error.message))?;
        Ok(time)
    }
}

impl Clone for Event {
    fn clone(&self) -> Event {
        // SAFETY: plain call; the new owner releases it.
        unsafe { (self.api.retain_event)(self.raw) };
        Event {
            raw: self.raw,
            api: self.api,
        }
    }
}

impl Program {
    /// One value of the program.
    pub(crate) fn info(&self, key: u32) -> Result<Vec<u8>> {
        info("clGetProgramInfo", |len, out, got| {
            // SAFETY: the buffer has the length that is passed.
            unsafe { (self.api.get_program_info)(self.raw, key, len, out.cast(), got) }
        })
    }

    /// The device's code of a program that was built for one device.
    pub(crate) fn binary(&self) -> Result<Vec<u8>> {
        let sizes = self.info(codes::PROGRAM_BINARY_SIZES)?;
        let size = sizes
            .first_chunk()
            .map_or(0, |bytes| usize::from_ne_bytes(*bytes));
        let mut binary = vec![0_u8; size];
        let mut place = binary.as_mut_ptr();
        // SAFETY: one device, so one pointer, to as many bytes as were announced.
        let code = unsafe {
            (self.api.get_program_info)(
                self.raw,
                codes::PROGRAM_BINARIES,
                size_of::<*mut u8>(),
                (&raw mut place).cast(),
                std::ptr::null_mut(),
            )
        };
        check("clGetProgramInfo", code)?;
        Ok(binary)
    }

    /// One of its kernels.
    pub(crate) fn kernel(&self, name: &std::ffi::CStr) -> Result<Kernel> {
        let mut code = 0;
        // SAFETY: the name ends with a zero.
        unsafe {
            let raw = (self.api.create_kernel)(self.raw, name.as_ptr(), &raw mut code);
            Kernel::own(self.api, "clCreateKernel", raw, code)
        }
    }
}

impl Kernel {
    /// Sets an argument of `bytes` bytes.
    ///
    /// # Safety
    /// `value` is readable for that many bytes, and nobody else sets arguments of this kernel or launches it now.
    #[inline]
    pub(crate) unsafe fn set(&self, index: u32, bytes: usize, value: *const c_void) -> Result<()> {
        // SAFETY: the caller vouches for it.
        match unsafe { (self.api.set_arg)(self.raw, index, bytes, value) } {
            codes::SUCCESS => Ok(()),
            code => Err(error(&format!("clSetKernelArg of argument {index}"), code)),
        }
    }
}
