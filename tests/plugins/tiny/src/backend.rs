//! Host memory, the kit's streams, no kernels. The configuration key `<name>.panic` says where it panics.

use thalweg_hal::backend::{Backend, Device, Properties, Source, Tag, Work};
use thalweg_hal::kit::host_memory;
use thalweg_hal::kit::queue::Queue;
use thalweg_hal::tables::{Capability, Kind};
use thalweg_hal::{Error, Host, Result};

/// The target's name, set when the plugin is built.
pub const NAME: &str = match option_env!("THALWEG_TINY_NAME") {
    Some(name) => name,
    None => "tiny",
};

/// The backend.
pub struct Tiny {
    host: Host,
}

impl Tiny {
    fn panic_in(&self, place: &str) {
        let wanted = self.host.config(&format!("{NAME}.panic"));
        assert!(wanted.as_deref() != Some(place), "tiny panics in {place}");
    }
}

/// The device.
pub struct TinyDevice;

impl Backend for Tiny {
    type Device = TinyDevice;
    const NAME: &'static str = NAME;
    const VERSION: &'static str = "1.2.3";

    fn start(host: Host) -> Result<Tiny> {
        let tiny = Tiny { host };
        tiny.panic_in("start");
        Ok(tiny)
    }

    fn device_count(&self) -> Result<u32> {
        self.panic_in("device_count");
        Ok(1)
    }

    fn properties(&self, _: u32) -> Result<Properties> {
        self.panic_in("properties");
        Ok(Properties {
            total_memory: 0,
            capabilities: vec![Capability::Map],
            ..Properties::of_host("tiny", Kind::Cpu)
        })
    }

    fn open(&self, _: u32) -> Result<TinyDevice> {
        Ok(TinyDevice)
    }
}

impl Device for TinyDevice {
    type Kernel = ();

    thalweg_hal::host_memory!();
    thalweg_hal::queue_streams!();

    unsafe fn submit(&self, stream: &Queue, work: &Work<'_, Self>, tag: Tag<'_>) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe {
            host_memory::submit(stream, work, tag, |_| {
                Err(Error::unsupported("tiny runs no kernels"))
            })
        }
    }

    fn supports(&self, _: &Source<'_>) -> Result<()> {
        Err(Error::unsupported("tiny runs no kernels"))
    }

    fn compile(&self, source: &Source<'_>, _: &str) -> Result<()> {
        self.supports(source)
    }
}
