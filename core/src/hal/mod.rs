//! The hardware: devices, memory, streams, events, kernels and graphs of every backend.
//!
//! [`Backend`] and [`Device`] and what is made from a device ([`Buffer`], [`Stream`], [`Event`], [`Kernel`], [`Graph`]) are
//! safe handles to a backend's objects: they keep their device open, free what they own when dropped, and turn every status
//! into an [`Error`] that names the op, the device and what to do. Work is asynchronous; streams are in order, and
//! unordered among each other but for events.

mod backend;
mod device;
mod error;
mod event;
mod graph;
mod kernel;
pub mod memory;
mod stream;
mod tag;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod work;

pub use backend::{Backend, BackendInfo, Tables};
pub use device::{Capabilities, Device, DeviceOptions, DeviceProperties};
pub use error::{CallError, Error, OutOfMemory, Result};
pub use event::Event;
pub use graph::{Graph, Node};
pub use kernel::{Kernel, Source};
pub use memory::{Buffer, Element, MemoryStats};
pub use stream::Stream;
pub use tag::Tag;
pub use thalweg_hal::tables::{Capability, Kind, MemoryInfo, PropertyKey};
pub use thalweg_hal::{DType, Status, ir, library};
pub use work::{Arg, Copy, Fill, Launch, Packet, Place};
