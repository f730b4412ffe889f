//! The OpenCL backend, a plugin: every device of every platform that the machine's OpenCL loader knows.
//!
//! The loader is opened when the first question comes. A device gets a context of its own, a stream is an in-order queue, an event a
//! marker, and kernels are OpenCL C that [`thalweg_cstyle`] writes, compiled once for each variant and kept on disk.
//!
//! # Needs
//!
//! libOpenCL and a driver of OpenCL 1.2 or later. For a processor, PoCL is one: `apt-get install pocl-opencl-icd`. All settings are
//! rows in `config.rs`, and `docs/settings.md` lists them.
//!
//! # Map
//!
//! | module | what |
//! |---|---|
//! | `api` | the loader's functions through a table of our own |
//! | `platform`, `device` | what the machine has; `impl Device` |
//! | `memory`, `copy`, `peer` | buffers, copies, copies between contexts |
//! | `stream`, `event` | in-order queues, host callbacks, events |
//! | `kernel`, `launch`, `program` | compiled variants, launches, programs |
//! | `profile`, `clock` | times of commands while a profile runs; the device's clock beside the host's |
//! | `tune` | the tiles of a matrix product, measured once a device |
//! | `quiet` | keeps a driver's own messages off the terminal |

mod api;
mod clock;
mod config;
mod copy;
mod device;
mod event;
mod kernel;
mod launch;
mod memory;
mod peer;
mod platform;
mod profile;
mod program;
mod quiet;
mod run;
mod stream;
mod tune;

use api::{Api, Context};
use parking_lot::Mutex;
use platform::DeviceInfo;
use std::sync::{Arc, OnceLock};
use thalweg_hal::backend::{Backend, Properties};
use thalweg_hal::tables::Capability;
use thalweg_hal::{Error, Host, Result};

// PoCL hands out devices that another thread is still setting up when two ask for the first time at once.
static DISCOVERY: Mutex<()> = Mutex::new(());

/// What was found on this machine.
struct Found {
    api: &'static Api,
    devices: Vec<DeviceInfo>,
    // Contexts that outlive their devices, by ordinal.
    contexts: Vec<Mutex<Option<Arc<Context>>>>,
}

/// This backend.
pub(crate) struct OpenClBackend {
    host: Host,
    found: OnceLock<Result<Found>>,
}

impl OpenClBackend {
    fn found(&self) -> Result<&Found> {
        let look = || {
            let _alone = DISCOVERY.lock();
            let api = Api::open(config::LIBRARY.of(self.host).as_deref())?;
            let devices = platform::discover(api)?;
            let contexts = devices.iter().map(|_| Mutex::default()).collect();
            Ok(Found {
                api,
                devices,
                contexts,
            })
        };
        self.found.get_or_init(look).as_ref().map_err(Clone::clone)
    }

    fn info(&self, ordinal: u32) -> Result<(&Found, &DeviceInfo)> {
        let found = self.found()?;
        match found.devices.get(ordinal as usize) {
            Some(info) => Ok((found, info)),
            None => Err(Error::invalid_argument(format!(
                "opencl has no device {ordinal}; there are {}",
                found.devices.len()
            ))),
        }
    }
}

impl Backend for OpenClBackend {
    type Device = device::OpenClDevice;
    const NAME: &'static str = "opencl";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    fn start(host: Host) -> Result<OpenClBackend> {
        Ok(OpenClBackend {
            host,
            found: OnceLock::new(),
        })
    }

    fn driver(&self) -> String {
        self.found()
            .and_then(|found| platform::versions(found.api))
            .unwrap_or_default()
    }

    fn device_count(&self) -> Result<u32> {
        Ok(self.found()?.devices.len() as u32)
    }

    fn properties(&self, ordinal: u32) -> Result<Properties> {
        let (_, info) = self.info(ordinal)?;
        let shared = config::shares_memory(self.host, info);
        // f16 and bf16 are 16-bit integers in memory and f32 in between, as the IR defines them.
        let mut capabilities = vec![
            Capability::F16,
            Capability::BF16,
            Capability::F8,
            Capability::Timing,
            Capability::Deterministic,
        ];
        let further = [
            (info.fp64, Capability::F64),
            (shared, Capability::Map),
            (shared, Capability::Import),
            (shared, Capability::UnifiedMemory),
            (info.priorities, Capability::Priority),
        ];
        capabilities.extend(
            further
                .iter()
                .filter(|(has, _)| *has)
                .map(|(_, capability)| *capability),
        );
        let (major, minor) = info.opencl_version();
        Ok(Properties {
            name: info.name.clone(),
            arch: format!("OpenCL {major}.{minor}, {}", info.platform),
            id: info.pci.clone(),
            kind: info.kind,
            compute_units: info.compute_units,
            total_memory: info.memory,
            capabilities,
            priorities: if info.priorities { (-1, 1) } else { (0, 0) },
        })
    }

    fn is_available(&self, ordinal: u32) -> Result<()> {
        self.info(ordinal)?.1.check()
    }

    fn open(&self, ordinal: u32) -> Result<Self::Device> {
        let (found, info) = self.info(ordinal)?;
        info.check()?;
        let fresh = || Context::new(found.api, info.id).map(Arc::new);
        // The context of a processor holds its compiler, which takes half a second to start, and no memory of a device.
        let context = if config::shares_memory(self.host, info) {
            let mut kept = found.contexts[ordinal as usize].lock();
            match &*kept {
                Some(context) => Arc::clone(context),
                None => Arc::clone(kept.insert(fresh()?)),
            }
        } else {
            fresh()?
        };
        device::OpenClDevice::open(found.api, info, self.host, context)
    }
}

thalweg_hal::export_backend!(OpenClBackend);
thalweg_hal::note! { name: "opencl", kind: "gpu", needs: "libOpenCL.so.1" }
