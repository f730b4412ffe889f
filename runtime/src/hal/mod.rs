//! The hardware: devices, memory, streams, events, kernels and graphs of every backend.
//!
//! [`Backend`] and [`Device`] and what is made from a device ([`Buffer`], [`Stream`], [`Event`], [`Kernel`], [`Graph`]) are
//! safe handles to a backend's objects: they keep their device open, free what they own when dropped, and turn every status
//! into an [`Error`] that names the op, the device and what to do. Work is asynchronous; streams are in order, and
//! unordered among each other but for events.
//!
//! A [`Runtime`] finds the backends and opens each device once, when it is first needed. The functions of this module ask
//! the process's own, [`runtime`]; questions initialise nothing.
//!
//! ```
//! use thalweg_runtime::hal;
//! let device = hal::device("cpu")?;
//! let stream = device.default_stream()?;
//! let buffer = hal::Buffer::from_slice(&stream, &[1.0_f32, 2.0])?;
//! assert_eq!(buffer.download::<f32>(&stream)?, [1.0, 2.0]);
//! # Ok::<(), thalweg_runtime::Error>(())
//! ```

mod backend;
mod batch;
mod device;
mod element;
mod error;
mod event;
mod graph;
mod kernel;
mod memory;
mod process;
mod profile;
mod program;
#[cfg(feature = "layers")]
mod replay;
mod runtime;
mod scope;
pub mod statistics;
mod stream;
mod tag;
mod target;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod waits;
mod work;

pub use backend::{Backend, BackendInfo};
pub use device::{Capabilities, Device, DeviceOptions, DeviceProperties};
pub use element::Element;
pub use error::{CallError, Error, OutOfMemory, Result};
pub use event::Event;
pub use graph::{Graph, Node};
pub use kernel::{Kernel, Source};
pub use memory::Buffer;
pub use process::{
    availability, capability, current_stream, default_stream, device, device_count, device_name,
    device_properties, empty_cache, is_available, is_initialized, max_memory_allocated, max_memory_reserved,
    mem_get_info, memory_allocated, memory_reserved, memory_stats, memory_summary,
    reset_max_memory_allocated, reset_max_memory_reserved, reset_peak_memory_stats, runtime, set_layers,
    set_memory_limit, synchronize, targets,
};
pub use profile::{HardwareCounter, Profile, ProfileKinds};
pub use program::{
    Builder as ProgramBuilder, Operand as ProgramOperand, Program, Scalar as ProgramScalar,
    Slots as ProgramSlots,
};
pub use runtime::Runtime;
pub use scope::{StreamScope, stream_scope};
pub use statistics::MemoryStats;
pub use stream::{Stream, WeakStream};
pub use tag::Tag;
pub use target::Target;
pub use thalweg_hal::dtype::types;
pub use thalweg_hal::every_dtype;
pub use thalweg_hal::f8::*;
pub use thalweg_hal::tables::{
    Capability, KernelPart, Kind, MemoryInfo, ProfileFlag, ProfileKind, ProfileRecord, PropertyKey, Tables,
};
pub use thalweg_hal::{DType, Status, ir, library};
pub use waits::{Waited, Waits};
pub use work::{Arg, Copy, Fill, Launch, Packet, Place};
