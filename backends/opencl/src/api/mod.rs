//! The OpenCL functions that the backend calls, found in the machine's loader when they are first needed.

pub(crate) mod codes;
mod handle;
mod table;

pub(crate) use handle::{CommandQueue, Context, Event, Kernel, Mem, Program};
pub(crate) use table::{Api, DeviceId, PlatformId, RawEvent, RawMem, RawQueue};

use thalweg_hal::{Error, Result, Status};

/// The error of a call that returned `code`.
pub(crate) fn error(call: &str, code: i32) -> Error {
    let status = match code {
        codes::DEVICE_NOT_AVAILABLE | codes::INVALID_COMMAND_QUEUE => Status::DeviceLost,
        codes::COMPILER_NOT_AVAILABLE | codes::DEVICE_NOT_FOUND | codes::PLATFORM_NOT_FOUND => {
            Status::Unavailable
        }
        codes::MEM_OBJECT_ALLOCATION_FAILURE | codes::OUT_OF_HOST_MEMORY | codes::INVALID_BUFFER_SIZE => {
            Status::OutOfMemory
        }
        codes::BUILD_PROGRAM_FAILURE => Status::CompileFailed,
        _ => Status::LaunchFailed,
    };
    Error::new(status, format!("{call} returned {} ({code})", codes::name(code)))
}

/// An error unless `code` is success.
#[inline]
pub(crate) fn check(call: &str, code: i32) -> Result<()> {
    if code == codes::SUCCESS {
        Ok(())
    } else {
        Err(error(call, code))
    }
}

/// The result of a call that asks for a value: how long it is, then the bytes.
pub(crate) fn info(call: &str, mut ask: impl FnMut(usize, *mut u8, *mut usize) -> i32) -> Result<Vec<u8>> {
    let mut len = 0;
    check(call, ask(0, std::ptr::null_mut(), &raw mut len))?;
    let mut bytes = vec![0; len];
    if len > 0 {
        check(call, ask(len, bytes.as_mut_ptr(), std::ptr::null_mut()))?;
    }
    Ok(bytes)
}

/// The text of an answer, without the zero that ends it.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}
