//! The CUDA backend, a plugin: every NVIDIA GPU that the machine's driver knows.
//!
//! It has been compiled by NVRTC and run over a stand-in for the driver, and not yet on hardware.
//!
//! Driver and compiler are opened when the first question comes. A machine without them is one row that says so. A device is its
//! primary context, streams and events are the driver's, and a program of several nodes is a graph of the driver. Kernels are CUDA C
//! that [`thalweg_cstyle`] writes and NVRTC compiles, once for each variant and kept on disk. Matrix products go to cuBLASLt where it
//! is found and takes them.
//!
//! # Needs
//!
//! A GPU of compute capability 8.0 or later, driver 525 or later, and NVRTC. `THALWEG_CUDA_LIBRARIES` names folders of libraries that
//! the system does not find. All settings are rows in `config.rs`, and `docs/settings.md` lists them.
//!
//! # Map
//!
//! | module | what |
//! |---|---|
//! | `api` | the driver, NVRTC, cuBLASLt and CUPTI through tables of our own |
//! | `platform`, `context`, `device` | what the machine has; primary contexts; `impl Device` |
//! | `memory`, `stage`, `copy` | reserved memory; pinned slots; copies in pieces |
//! | `stream`, `flight`, `event`, `gate` | streams, what of their work is under way, events, and host work that waits at a number |
//! | `kernel`, `launch`, `library` | compiled variants, launches, cuBLASLt |
//! | `program`, `graph` | programs as graphs of the driver |
//! | `times`, `activity` | while a profile runs: events before and after work; what CUPTI tells of it |

mod activity;
mod api;
mod config;
mod context;
mod copy;
mod device;
mod event;
mod flight;
mod gate;
mod graph;
mod kernel;
mod launch;
mod library;
mod memory;
mod platform;
mod program;
mod stage;
mod stream;
mod times;

use api::{Driver, Nvrtc, Search};
use platform::DeviceInfo;
use std::sync::OnceLock;
use thalweg_hal::backend::{Backend, Properties};
use thalweg_hal::tables::{Capability, Kind};
use thalweg_hal::{Error, Host, Result};

/// What was found on this machine.
struct Found {
    driver: &'static Driver,
    version: i32,
    devices: Vec<DeviceInfo>,
}

/// This backend.
pub(crate) struct CudaBackend {
    host: Host,
    found: OnceLock<Result<Found>>,
    nvrtc: OnceLock<Result<&'static Nvrtc>>,
}

/// Streams take priorities from 0 to this: what every device of compute capability 8.0 and later has.
const HIGHEST: i32 = 5;

impl CudaBackend {
    fn search(&self) -> Search {
        Search::new(config::LIBRARIES.of(self.host).as_deref())
    }

    fn found(&self) -> Result<&Found> {
        let look = || {
            let (driver, version) = Driver::open(&self.search())?;
            let devices = platform::discover(driver)?;
            Ok(Found {
                driver,
                version,
                devices,
            })
        };
        self.found.get_or_init(look).as_ref().map_err(Clone::clone)
    }

    fn nvrtc(&self) -> Result<&'static Nvrtc> {
        let version = self.found()?.version;
        let open = || Nvrtc::open(&self.search(), version);
        self.nvrtc.get_or_init(open).clone()
    }

    fn info(&self, ordinal: u32) -> Result<(&Found, &DeviceInfo)> {
        let found = self.found()?;
        match found.devices.get(ordinal as usize) {
            Some(info) => Ok((found, info)),
            None => Err(Error::invalid_argument(format!(
                "cuda has no device {ordinal}; there are {}",
                found.devices.len()
            ))),
        }
    }
}

impl Backend for CudaBackend {
    type Device = device::CudaDevice;
    const NAME: &'static str = "cuda";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    fn start(host: Host) -> Result<CudaBackend> {
        Ok(CudaBackend {
            host,
            found: OnceLock::new(),
            nvrtc: OnceLock::new(),
        })
    }

    fn driver(&self) -> String {
        let Ok(found) = self.found() else {
            return String::new();
        };
        let compiler = match self.nvrtc() {
            Ok(nvrtc) => format!("NVRTC {}", nvrtc.version_text()),
            Err(_) => "no NVRTC".into(),
        };
        format!("CUDA {}, {compiler}", api::driver::dotted(found.version))
    }

    fn device_count(&self) -> Result<u32> {
        Ok(self.found()?.devices.len() as u32)
    }

    fn properties(&self, ordinal: u32) -> Result<Properties> {
        let (_, info) = self.info(ordinal)?;
        // f16 and bf16 are 16-bit integers in memory and f32 in between, as the IR defines them.
        let mut capabilities = vec![
            Capability::F64,
            Capability::F16,
            Capability::BF16,
            Capability::F8,
            Capability::Import,
            Capability::Timing,
            Capability::Priority,
            Capability::Deterministic,
        ];
        capabilities.extend(info.integrated.then_some(Capability::UnifiedMemory));
        Ok(Properties {
            name: info.name.clone(),
            arch: format!("sm_{}", info.sm),
            // Short enough for both: `0000:65:00.0 GPU-…`.
            id: format!("{} {}", info.pci, info.uuid),
            kind: Kind::Gpu,
            compute_units: info.multiprocessors,
            total_memory: info.memory,
            capabilities,
            priorities: (0, HIGHEST),
        })
    }

    fn is_available(&self, ordinal: u32) -> Result<()> {
        let (_, info) = self.info(ordinal)?;
        info.check()?;
        self.nvrtc()?.arch(info.sm).map(drop)
    }

    fn open(&self, ordinal: u32) -> Result<Self::Device> {
        let (found, info) = self.info(ordinal)?;
        info.check()?;
        device::CudaDevice::open(
            (found.driver, found.version),
            self.nvrtc()?,
            &self.search(),
            info,
            self.host,
        )
    }
}

thalweg_hal::export_backend!(CudaBackend);
thalweg_hal::note! { name: "cuda", kind: "gpu", needs: "libcuda.so.1, libnvrtc.so" }
