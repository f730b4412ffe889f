//! A backend on one page: host memory and the kit's streams, and no kernels yet. Built as `libthalweg_shelf.so`, it is found in any
//! backend folder: `THALWEG_BACKEND_PATH=$PWD/target/release/examples thalweg devices`.

use thalweg_hal::backend::{Backend, Device, Properties, Source, Tag, Work};
use thalweg_hal::kit::{host_memory, queue::Queue};
use thalweg_hal::{Error, Host, Result, tables::Kind};

/// The backend.
pub struct Shelf;
/// Its only device.
pub struct ShelfDevice;

impl Backend for Shelf {
    type Device = ShelfDevice;
    const NAME: &'static str = "shelf";
    const VERSION: &'static str = "0.1.0";

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

thalweg_hal::export_backend!(Shelf);
thalweg_hal::note! { name: "shelf", kind: "cpu" }
