//! Streams and the work that is submitted to them.

use super::{Context, Copy, Fill};
use crate::status::Str;
use std::ffi::c_void;

/// Arguments of [`StreamTable::create`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct StreamArgs {
    /// Device handle.
    pub device: u64,
    /// Between the device's `priority_low` and `priority_high`; higher runs first.
    pub priority: i32,
    /// 0.
    pub reserved: u32,
}

/// Where work comes from. Shown in errors and profiles, copied when the work outlives the call.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Tag {
    /// The op that the user wrote.
    pub op: Str,
    /// Source file of the user's call.
    pub file: Str,
    /// Line of the user's call; 0 if unknown.
    pub line: u32,
    /// Node of the graph that this came from; 0 if none.
    pub node: u32,
}

/// One buffer argument of a launch.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Binding {
    /// Buffer handle.
    pub buffer: u64,
    /// Offset in bytes of the element at index 0, a multiple of the element size.
    pub offset: u64,
    /// For strided parameters one stride per axis of the parameter's level, in elements; null otherwise.
    pub strides: *const i64,
    /// Elements from one gather index to the next; read when the kernel gathers from this parameter.
    pub gather_stride: i64,
    /// Number of valid gather indices.
    pub gather_extent: u64,
}

/// One launch of a kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Launch {
    /// Kernel handle.
    pub kernel: u64,
    /// Extents of the outer axes, then of the inner ones.
    pub extents: *const u64,
    /// Number of extents: the kernel's outer and inner rank together.
    pub extent_count: usize,
    /// One for each parameter.
    pub bindings: *const Binding,
    /// Number of bindings.
    pub binding_count: usize,
    /// Bits of the scalar arguments, zero-extended.
    pub scalars: *const u64,
    /// Number of scalars.
    pub scalar_count: usize,
}

/// What a [`Packet`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum PacketKind {
    /// `launch` is read.
    Launch = 1,
    /// `copy` is read.
    Copy = 2,
    /// `fill` is read.
    Fill = 3,
}

/// One piece of work.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Packet {
    /// A [`PacketKind`] code.
    pub kind: u32,
    /// 0.
    pub reserved: u32,
    /// Where it comes from; may be null.
    pub tag: *const Tag,
    /// Read when `kind` is [`PacketKind::Launch`].
    pub launch: *const Launch,
    /// Read when `kind` is [`PacketKind::Copy`].
    pub copy: *const Copy,
    /// Read when `kind` is [`PacketKind::Fill`].
    pub fill: *const Fill,
}

/// Arguments of [`StreamTable::wait_event`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WaitEventArgs {
    /// Stream handle.
    pub stream: u64,
    /// Event handle.
    pub event: u64,
}

/// Arguments of [`StreamTable::callback`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CallbackArgs {
    /// Stream handle.
    pub stream: u64,
    /// Called once, in stream order, from a thread of the backend or from inside a call that waits for the stream, but not
    /// from inside [`StreamTable::callback`], as it may block. It must not call the backend and must not unwind. A status
    /// other than 0 becomes the stream's error.
    pub function: Option<unsafe extern "C" fn(data: *mut c_void) -> i32>,
    /// Its argument.
    pub data: *mut c_void,
}

/// Streams. Work on one stream runs in order; streams are unordered but for events.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct StreamTable {
    /// A new stream.
    pub create: unsafe extern "C" fn(context: Context, args: *const StreamArgs, out: *mut u64) -> i32,
    /// Waits for the stream's work and ends it.
    pub destroy: unsafe extern "C" fn(context: Context, stream: u64) -> i32,
    /// Submits one launch. `tag` may be null.
    pub launch:
        unsafe extern "C" fn(context: Context, stream: u64, launch: *const Launch, tag: *const Tag) -> i32,
    /// Submits `count` packets. All are checked before the first is submitted.
    pub submit:
        unsafe extern "C" fn(context: Context, stream: u64, packets: *const Packet, count: usize) -> i32,
    /// Writes 1 when all work is done, 0 otherwise. Reports no error of the work.
    pub query: unsafe extern "C" fn(context: Context, stream: u64, out: *mut u32) -> i32,
    /// Later work of the stream waits for the work that the event's last record covers; an event that was never recorded
    /// holds nothing up.
    pub wait_event: unsafe extern "C" fn(context: Context, args: *const WaitEventArgs) -> i32,
    /// Calls a function of the host in stream order.
    pub callback: unsafe extern "C" fn(context: Context, args: *const CallbackArgs) -> i32,
    /// Waits for all work. The first error of that work is reported once, here.
    pub synchronize: unsafe extern "C" fn(context: Context, stream: u64) -> i32,
}
