//! Host memory, the kit's streams and graphs, no kernels. The configuration key `<name>.panic` says where it panics.

use thalweg_hal::backend::{Backend, Copy, Device, Fill, Place, Properties, Region, Source, Tag, Work};
use thalweg_hal::kit::host_device::memory_info;
use thalweg_hal::kit::queue::{Job, Queue};
use thalweg_hal::kit::replay::OwnedWork;
use thalweg_hal::tables::{Capability, Kind, MemoryInfo};
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
            name: "tiny".into(),
            arch: std::env::consts::ARCH.into(),
            id: String::new(),
            kind: Kind::Cpu,
            compute_units: 1,
            total_memory: 0,
            capabilities: vec![Capability::Map],
            priorities: (0, 0),
        })
    }

    fn open(&self, _: u32) -> Result<TinyDevice> {
        Ok(TinyDevice)
    }
}

/// Memory in units that are aligned to 512 bytes.
#[derive(Clone)]
#[repr(align(512))]
pub struct Unit {
    _bytes: [u8; 512],
}

/// A piece of host memory.
pub struct Chunk(*mut Unit, usize);

// SAFETY: the streams' order says who touches the memory.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: made by `reserve` from a boxed slice of this length.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.0, self.1)) });
    }
}

fn address(region: &Region<'_, TinyDevice>) -> *mut u8 {
    region.chunk.0.cast::<u8>().wrapping_add(region.offset as usize)
}

fn end(place: &Place<'_, TinyDevice>) -> *mut u8 {
    match place {
        Place::Host(ptr) => *ptr,
        Place::Device(_, region) => address(region),
    }
}

/// # Safety
/// As [`Device::submit`].
unsafe fn execute(work: &Work<'_, TinyDevice>) -> Result<()> {
    match work {
        Work::Copy(Copy {
            dst,
            src,
            width,
            rows,
        }) => {
            for row in 0..*rows as usize {
                let to = end(&dst.0).wrapping_add(row * dst.1 as usize);
                let from = end(&src.0).wrapping_add(row * src.1 as usize);
                // SAFETY: rows of two ends that do not overlap.
                unsafe { to.copy_from_nonoverlapping(from, *width as usize) }
            }
        }
        Work::Fill(Fill { region, pattern, .. }) => {
            for at in 0..region.bytes as usize {
                // SAFETY: inside the region.
                unsafe { address(region).add(at).write(pattern[at % 8]) }
            }
        }
        Work::Launch(_) => return Err(Error::unsupported("tiny runs no kernels")),
        Work::Callback(callback) => callback.call()?,
    }
    Ok(())
}

impl Device for TinyDevice {
    type Chunk = Chunk;
    type Kernel = ();

    thalweg_hal::queue_streams!();
    thalweg_hal::replay_graphs!();

    fn reserve(&self, bytes: u64) -> Result<Chunk> {
        let units = vec![Unit { _bytes: [0; 512] }; bytes.div_ceil(512) as usize];
        let len = units.len();
        Ok(Chunk(Box::into_raw(units.into_boxed_slice()).cast(), len))
    }

    fn map(&self, chunk: &Chunk) -> Result<*mut u8> {
        Ok(chunk.0.cast())
    }

    fn memory_info(&self) -> Result<MemoryInfo> {
        memory_info()
    }

    unsafe fn submit(&self, stream: &Queue, work: &Work<'_, Self>, tag: Tag<'_>) -> Result<()> {
        let tag = tag.to_owned();
        let describe = Box::new(move || tag.to_string());
        if let Work::Callback(callback) = *work {
            return stream.push(Job {
                run: Box::new(move || callback.call()),
                describe,
            });
        }
        let work = OwnedWork::new(work)?;
        // SAFETY: the caller vouches for the memory until the stream has passed the work.
        let run = Box::new(move || unsafe { work.with(|work| execute(work)) });
        stream.push(Job { run, describe })
    }

    fn supports(&self, _: &Source<'_>) -> Result<()> {
        Err(Error::unsupported("tiny runs no kernels"))
    }

    fn compile(&self, source: &Source<'_>, _: &str) -> Result<()> {
        self.supports(source)
    }
}
