//! What targets share: a device that holds tensors and computes nothing, so that no backend's code is instrumented.

use std::sync::LazyLock;
use thalweg::Context;
use thalweg::hal::Runtime;
use thalweg::loader::discover::Surroundings;
use thalweg::loader::{Embedded, LoaderOptions, Registry};
use thalweg_hal::backend::{Backend, Device, Properties, Source, Tag, Work};
use thalweg_hal::kit::{host_memory, queue::Queue};
use thalweg_hal::{Error, Host, Result, tables::Kind};

struct Shelf;
struct ShelfDevice;

impl Backend for Shelf {
    type Device = ShelfDevice;
    const NAME: &'static str = "shelf";
    const VERSION: &'static str = "0.0.0";

    fn start(_: Host) -> Result<Shelf> {
        Ok(Shelf)
    }

    fn device_count(&self) -> Result<u32> {
        Ok(1)
    }

    fn properties(&self, _: u32) -> Result<Properties> {
        Ok(Properties::of_host("a shelf", Kind::Cpu))
    }

    fn open(&self, _: u32) -> Result<ShelfDevice> {
        Ok(ShelfDevice)
    }
}

impl Device for ShelfDevice {
    type Kernel = ();

    thalweg_hal::host_memory!();
    thalweg_hal::queue_streams!();
    thalweg_hal::replay_graphs!();

    unsafe fn submit(&self, stream: &Queue, work: &Work<'_, Self>, tag: Tag<'_>) -> Result<()> {
        // SAFETY: the contract of both is the same.
        unsafe { host_memory::submit(stream, work, tag, |_| refused()) }
    }

    fn supports(&self, _: &Source<'_>) -> Result<()> {
        refused()
    }

    fn compile(&self, _: &Source<'_>, _: &str) -> Result<()> {
        refused()
    }
}

fn refused() -> Result<()> {
    Err(Error::unsupported("a shelf runs nothing"))
}

/// The context of the one device.
///
/// # Panics
/// The device does not open.
pub fn context() -> &'static Context {
    static CONTEXT: LazyLock<Context> = LazyLock::new(|| {
        let options = LoaderOptions::default();
        let registry = Registry::with(options, &[Embedded::of::<Shelf>()], &Surroundings::default());
        let device = Runtime::new(registry).device("shelf").expect("a shelf opens");
        Context::on(device)
    });
    &CONTEXT
}
