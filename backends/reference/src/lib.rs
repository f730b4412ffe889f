//! The reference backend: the living definition of the kernel IR, slow and obvious, and the crate to copy for a new
//! backend. Memory is the host's, streams, events and programs are the kit's, and a kernel is interpreted.

mod device;
mod interpret;
mod scalar;

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
        Ok(device::Reference)
    }
}

thalweg_hal::export_backend!(ReferenceBackend);
thalweg_hal::note! { name: "reference", kind: "cpu" }

#[cfg(test)]
mod tests;
