//! The reference backend, a plugin: the interpreter that defines the kernel IR, and the crate to copy for a new backend.
//!
//! It is slow and obvious. Memory is the host's, streams, events and programs are the kit's, and a kernel is interpreted element by element in
//! f64. Every other backend is compared with it by the conformance kit.
//!
//! `cargo xtask new-backend NAME` copies this crate, and the copy passes the kit from the start. Replace memory, streams, compile and
//! launch by those of your device, one at a time. `docs/writing-a-backend.md` says in which order.
//!
//! # Map
//!
//! | module | what |
//! |---|---|
//! | this one | `impl Backend`: name, devices, properties, `open` |
//! | `device` | `impl Device`: memory, streams, what a kernel is compiled into, launches |

mod device;
mod kernel;

use thalweg_hal::backend::{Backend, Properties};
use thalweg_hal::tables::{Capability, Kind};
use thalweg_hal::{Host, Result};

/// This backend.
pub struct ReferenceBackend;

impl Backend for ReferenceBackend {
    type Device = device::Reference;
    const NAME: &'static str = "reference";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    fn start(_host: Host) -> Result<Self> {
        Ok(ReferenceBackend)
    }

    fn device_count(&self) -> Result<u32> {
        Ok(1)
    }

    fn properties(&self, _ordinal: u32) -> Result<Properties> {
        Ok(Properties {
            capabilities: vec![
                Capability::F64,
                Capability::F16,
                Capability::BF16,
                Capability::F8,
                Capability::Map,
                Capability::Import,
                Capability::UnifiedMemory,
                Capability::Timing,
                Capability::Deterministic,
            ],
            ..Properties::of_host("interpreter of the kernel IR", Kind::Cpu)
        })
    }

    fn open(&self, _ordinal: u32) -> Result<Self::Device> {
        Ok(device::Reference::new())
    }
}

thalweg_hal::export_backend!(ReferenceBackend);
thalweg_hal::note! { name: "reference", kind: "cpu" }

#[cfg(test)]
mod tests;
