//! Memory: one caching pool per device, copies, statistics.

use super::{Context, Tag};
use std::ffi::c_void;

/// Arguments of [`MemoryTable::alloc`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AllocArgs {
    /// Device handle.
    pub device: u64,
    /// Bytes; 0 gives a valid buffer of no bytes.
    pub bytes: u64,
    /// Stream that will use the memory first; 0 for the device at large. Memory that was freed while a stream still used
    /// it comes back to that stream at once and to others when the stream has passed that point.
    pub stream: u64,
    /// Op that asks, for messages; may be null.
    pub tag: *const Tag,
}

/// Arguments of [`MemoryTable::import`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ImportArgs {
    /// Device handle.
    pub device: u64,
    /// Host address; aligned to 1 byte at least.
    pub ptr: *mut c_void,
    /// Bytes that are readable and writable until `release` is called.
    pub bytes: u64,
    /// Called once when the device no longer uses the memory; may be null.
    pub release: Option<unsafe extern "C" fn(data: *mut c_void)>,
    /// Argument of `release`.
    pub data: *mut c_void,
}

/// One end of a copy: a buffer, or host memory when `buffer` is 0.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Place {
    /// Buffer handle, or 0.
    pub buffer: u64,
    /// Host address when `buffer` is 0.
    pub host: *mut c_void,
    /// Offset in bytes.
    pub offset: u64,
    /// Bytes from one row to the next; not read when `rows` is 1.
    pub pitch: u64,
}

/// A copy of `rows` rows of `width` bytes, in stream order. Host memory must stay valid and untouched until the stream
/// has passed the copy. Source and destination must not overlap. The stream belongs to the device of either buffer.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Copy {
    /// Destination.
    pub dst: Place,
    /// Source.
    pub src: Place,
    /// Bytes of one row.
    pub width: u64,
    /// Number of rows.
    pub rows: u64,
}

/// Fills `bytes` bytes at `offset` with a pattern of 1, 2, 4 or 8 bytes, in stream order.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Fill {
    /// Buffer handle.
    pub buffer: u64,
    /// Offset in bytes, a multiple of `pattern_bytes`.
    pub offset: u64,
    /// Bytes, a multiple of `pattern_bytes`.
    pub bytes: u64,
    /// The low `pattern_bytes` bytes are repeated, least significant first.
    pub pattern: u64,
    /// 1, 2, 4 or 8.
    pub pattern_bytes: u32,
    /// 0.
    pub reserved: u32,
}

/// True figures of a device's pool. All sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct MemoryStatistics {
    /// Reserved from the device.
    pub reserved: u64,
    /// In use by buffers, in multiples of 512.
    pub allocated: u64,
    /// Reserved and neither allocated nor waiting for a stream.
    pub idle: u64,
    /// Freed by the user while a stream still used it, and not yet reusable everywhere.
    pub eager_free: u64,
    /// Peak of `reserved`.
    pub max_reserved: u64,
    /// Peak of `allocated`.
    pub max_allocated: u64,
    /// Largest block that could be handed out without reserving.
    pub largest_free: u64,
    /// Limit on `reserved`; 0 for none.
    pub limit: u64,
    /// Buffers alive.
    pub live: u64,
    /// Allocations so far.
    pub allocations: u64,
    /// Frees so far.
    pub frees: u64,
    /// Blocks reserved from the device so far.
    pub reserves: u64,
    /// Allocations that succeeded only after cached blocks had been given back.
    pub retries: u64,
    /// Allocations that failed for lack of memory.
    pub out_of_memory: u64,
}

/// What a [`MemoryRange`] is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum MemoryUse {
    /// A buffer lies in it.
    Allocated = 1,
    /// It may be handed out.
    Idle = 2,
    /// The user has freed it, and a stream may still use it.
    EagerFree = 3,
}

impl MemoryUse {
    /// Every use of this version with its name.
    pub const ALL: [(MemoryUse, &'static str); 3] = [
        (MemoryUse::Allocated, "allocated"),
        (MemoryUse::Idle, "idle"),
        (MemoryUse::EagerFree, "eager free"),
    ];

    /// The use of a code.
    pub const fn from_code(code: u32) -> Option<MemoryUse> {
        if code == 0 || code as usize > MemoryUse::ALL.len() {
            return None;
        }
        Some(MemoryUse::ALL[code as usize - 1].0)
    }

    /// `allocated`, `idle`, ….
    pub const fn name(self) -> &'static str {
        MemoryUse::ALL[self as usize - 1].1
    }
}

/// A part of a block that the pool has reserved from the device. The ranges of a block follow each other without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct MemoryRange {
    /// Number of the block while it lives.
    pub block: u64,
    /// Bytes of the whole block.
    pub block_bytes: u64,
    /// Where the range starts in the block, in bytes.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// Handle of the buffer in it; 0 for none.
    pub buffer: u64,
    /// A [`MemoryUse`].
    pub usage: u32,
    /// 0.
    pub reserved: u32,
}

/// Memory of the device as its driver or the operating system sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct MemoryInfo {
    /// Bytes that are free.
    pub free: u64,
    /// Bytes in all.
    pub total: u64,
}

/// Memory.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MemoryTable {
    /// A buffer of at least `bytes` bytes, aligned to the device's alignment, with unspecified contents.
    pub alloc: unsafe extern "C" fn(context: Context, args: *const AllocArgs, out: *mut u64) -> i32,
    /// Gives a buffer back. Work that was submitted before may still use it: the pool waits for the streams that do.
    pub free: unsafe extern "C" fn(context: Context, buffer: u64) -> i32,
    /// Makes host memory a buffer without copying; `Unsupported` where the device cannot reach it.
    pub import: unsafe extern "C" fn(context: Context, args: *const ImportArgs, out: *mut u64) -> i32,
    /// Host address of a buffer for as long as it lives; the caller orders its accesses with the streams'.
    /// `Unsupported` without [`Capability::Map`](super::Capability::Map).
    pub map: unsafe extern "C" fn(context: Context, buffer: u64, out: *mut *mut c_void) -> i32,
    /// Bytes of a buffer as they were asked for.
    pub size: unsafe extern "C" fn(context: Context, buffer: u64, out: *mut u64) -> i32,
    /// Gives cached blocks back to the device; writes the number of bytes.
    pub trim: unsafe extern "C" fn(context: Context, device: u64, out: *mut u64) -> i32,
    /// The pool's figures.
    pub statistics: unsafe extern "C" fn(context: Context, device: u64, out: *mut MemoryStatistics) -> i32,
    /// The ranges of the pool, block by block. Writes the first `capacity` of them to `out` and to `len` how many there are; with a
    /// capacity of 0, `out` may be null.
    pub ranges: unsafe extern "C" fn(
        context: Context,
        device: u64,
        out: *mut MemoryRange,
        capacity: usize,
        len: *mut usize,
    ) -> i32,
    /// Sets both peaks to the present values.
    pub reset_peaks: unsafe extern "C" fn(context: Context, device: u64) -> i32,
    /// Changes the limit on reserved bytes; 0 for none. What is reserved already stays.
    pub set_limit: unsafe extern "C" fn(context: Context, device: u64, bytes: u64) -> i32,
    /// Free and total memory of the device.
    pub info: unsafe extern "C" fn(context: Context, device: u64, out: *mut MemoryInfo) -> i32,
}
