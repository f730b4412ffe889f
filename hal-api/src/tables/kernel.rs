//! Compiling kernels.

use super::{Context, Source};
use crate::status::Str;

/// Arguments of [`KernelTable::compile`] and [`KernelTable::supports`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CompileArgs {
    /// Device handle.
    pub device: u64,
    /// What to compile.
    pub source: Source,
    /// Options as `key=value` lines; unknown ones are an error. Empty for the defaults.
    pub options: Str,
}

/// Arguments of [`KernelTable::load_binary`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BinaryArgs {
    /// Device handle.
    pub device: u64,
    /// What the binary was compiled from.
    pub source: Source,
    /// First byte.
    pub ptr: *const u8,
    /// Bytes.
    pub len: usize,
}

/// Kernels. A device without this table moves memory and nothing else.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KernelTable {
    /// Success when [`KernelTable::compile`] would accept the source; otherwise `Unsupported` and why.
    pub supports: unsafe extern "C" fn(context: Context, args: *const CompileArgs) -> i32,
    /// Compiles for the device.
    pub compile: unsafe extern "C" fn(context: Context, args: *const CompileArgs, out: *mut u64) -> i32,
    /// Frees a kernel; work that was submitted with it goes on.
    pub release: unsafe extern "C" fn(context: Context, kernel: u64) -> i32,
    /// Copies the compiled form to `buffer` (at most `capacity` bytes) and writes its full length. Good for the same device,
    /// driver and backend version only.
    pub export_binary: unsafe extern "C" fn(
        context: Context,
        kernel: u64,
        buffer: *mut u8,
        capacity: usize,
        len: *mut usize,
    ) -> i32,
    /// A kernel from what [`KernelTable::export_binary`] wrote; `CompileFailed` when it does not fit.
    pub load_binary: unsafe extern "C" fn(context: Context, args: *const BinaryArgs, out: *mut u64) -> i32,
}
