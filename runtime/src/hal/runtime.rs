//! Backends by name and devices that are opened once.

use super::backend::Backend;
use super::device::{Device, DeviceOptions, DeviceProperties};
use super::statistics::MemoryStats;
use super::target::Target;
use crate::error::{Error, Result};
use crate::loader::Registry;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use thalweg_hal::tables::{Capability, Kind, MemoryInfo};

/// One device: open or not yet.
#[derive(Default)]
struct Slot {
    device: OnceLock<Device>,
    // For a device that is not open yet.
    limit: AtomicU64,
}

type Key = (String, u32);

/// The backends that were found, and the devices that are open. Each device is opened once, by the first call that needs
/// it; questions about it do not.
///
/// ```
/// use thalweg_runtime::hal::Runtime;
/// use thalweg_runtime::loader::{LoaderOptions, Registry};
/// let runtime = Runtime::new(Registry::new(LoaderOptions::default()));
/// let error = runtime.device_count("TPU").unwrap_err();
/// assert!(error.to_string().starts_with("there is no target \"TPU\""));
/// ```
pub struct Runtime {
    registry: Registry,
    backends: RwLock<BTreeMap<String, Backend>>,
    devices: RwLock<BTreeMap<Key, Arc<Slot>>>,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open: Vec<String> = self
            .open_devices()
            .iter()
            .map(|device| device.target().to_owned())
            .collect();
        f.debug_struct("Runtime")
            .field("targets", &self.targets())
            .field("open", &open)
            .finish()
    }
}

impl Runtime {
    /// The backends of `registry`, with no device open.
    pub fn new(registry: Registry) -> Runtime {
        Runtime {
            registry,
            backends: RwLock::default(),
            devices: RwLock::default(),
        }
    }

    /// What became of each plugin.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The names of the backends that may be used.
    pub fn targets(&self) -> Vec<String> {
        self.registry.targets()
    }

    /// The backend of this name, loaded now if it was not. Initialises no device.
    ///
    /// # Errors
    /// [`Error::NoSuchTarget`] with the targets that were found, [`Error::Load`].
    pub fn backend(&self, name: &str) -> Result<Backend> {
        if let Some(backend) = self.backends.read().get(name) {
            return Ok(backend.clone());
        }
        let backend = Backend::of(self.registry.get(name)?)?;
        self.backends.write().insert(name.into(), backend.clone());
        Ok(backend)
    }

    fn find(&self, backend: &str, id: i64) -> Result<(Backend, u32)> {
        let found = self.backend(backend)?;
        let count = found.device_count()?;
        match u32::try_from(id) {
            Ok(ordinal) if ordinal < count => Ok((found, ordinal)),
            _ => Err(Error::NoSuchDevice {
                target: backend.into(),
                id,
                count,
                found: self.targets(),
            }),
        }
    }

    /// The backend and ordinal that a text names, `auto` resolved.
    fn resolve(&self, target: &str) -> Result<(Backend, u32)> {
        match Target::parse(target)? {
            Target::Device { backend, id } => self.find(&backend, id.unwrap_or(0)),
            Target::Auto => self.best(),
        }
    }

    /// The first available device, graphics processors first, then other accelerators, then the CPU backend.
    fn best(&self) -> Result<(Backend, u32)> {
        self.registry.check_layers()?;
        let mut found: Option<(u32, Backend, u32)> = None;
        for name in self.targets() {
            let Ok(backend) = self.backend(&name) else {
                continue;
            };
            for ordinal in 0..backend.device_count().unwrap_or(0) {
                let (Ok(()), Ok(properties)) =
                    (backend.availability(ordinal), backend.device_properties(ordinal))
                else {
                    continue;
                };
                let rank = match (properties.kind, name.as_str()) {
                    (Kind::Gpu, _) => 3,
                    (Kind::Accelerator, _) => 2,
                    (Kind::Cpu, "cpu") => 1,
                    (Kind::Cpu, _) => 0,
                };
                if found.as_ref().is_none_or(|(best, ..)| rank > *best) {
                    found = Some((rank, backend.clone(), ordinal));
                }
            }
        }
        match found {
            Some((_, backend, ordinal)) => {
                tracing::info!(
                    "auto: {}:{ordinal} is the best device that is available",
                    backend.name()
                );
                Ok((backend, ordinal))
            }
            None => Err(Error::NoSuchTarget {
                asked: "auto".into(),
                found: self.targets(),
                reason: Some("no device of any backend is available; `thalweg doctor` says why".into()),
            }),
        }
    }

    /// Number of devices of a backend.
    ///
    /// # Errors
    /// [`Error::NoSuchTarget`], and [`Status::Unavailable`](thalweg_hal::Status::Unavailable) with why there can be none.
    pub fn device_count(&self, backend: &str) -> Result<u32> {
        Ok(self.backend(backend)?.device_count()?)
    }

    /// Name of a device, for a person.
    ///
    /// # Errors
    /// [`Error::NoSuchTarget`], [`Error::NoSuchDevice`] with the valid range and the targets that were found.
    pub fn device_name(&self, backend: &str, id: i64) -> Result<String> {
        Ok(self.device_properties(backend, id)?.name)
    }

    /// What a device is.
    ///
    /// # Errors
    /// As [`Runtime::device_name`].
    pub fn device_properties(&self, backend: &str, id: i64) -> Result<DeviceProperties> {
        let (backend, ordinal) = self.find(backend, id)?;
        Ok(backend.device_properties(ordinal)?)
    }

    /// Whether a device can do something.
    ///
    /// # Errors
    /// As [`Runtime::device_name`].
    pub fn capability(&self, backend: &str, id: i64, capability: Capability) -> Result<bool> {
        Ok(self.device_properties(backend, id)?.capabilities.has(capability))
    }

    /// Why a target cannot be used, if it cannot: a device (`cuda:1`), or a backend (`cuda`), which needs one available
    /// device.
    ///
    /// # Errors
    /// The reason.
    pub fn availability(&self, target: &str) -> Result<()> {
        match Target::parse(target)? {
            Target::Device { backend, id: None } => {
                let (found, _) = self.find(&backend, 0)?;
                let mut reasons = (0..found.device_count()?).map(|ordinal| found.availability(ordinal));
                let first = reasons.next().unwrap_or(Ok(()));
                if first.is_ok() || reasons.any(|reason| reason.is_ok()) {
                    return Ok(());
                }
                Ok(first?)
            }
            _ => {
                let (backend, ordinal) = self.resolve(target)?;
                Ok(backend.availability(ordinal)?)
            }
        }
    }

    /// Whether a target can be used; [`Runtime::availability`] says why not.
    pub fn is_available(&self, target: &str) -> bool {
        self.availability(target).is_ok()
    }

    /// Whether a device is open: that of the text (`cpu:0`), or any of a backend (`cpu`). Loads nothing.
    ///
    /// # Errors
    /// [`Error::NoSuchTarget`] for a name that no plugin has, [`Error::DeviceName`] for a text that names no device.
    pub fn is_initialized(&self, target: &str) -> Result<bool> {
        let (backend, id) = match Target::parse(target)? {
            Target::Device { backend, id } => (backend, id),
            Target::Auto => return Ok(!self.open_devices().is_empty()),
        };
        if !self.targets().contains(&backend) {
            // Gives the reason.
            self.backend(&backend)?;
        }
        let devices = self.devices.read();
        let mut mine = devices
            .iter()
            .filter(|((name, ordinal), _)| *name == backend && id.is_none_or(|id| id == i64::from(*ordinal)));
        Ok(mine.any(|(_, slot)| slot.device.get().is_some()))
    }

    fn slot(&self, backend: &Backend, ordinal: u32) -> Arc<Slot> {
        let key = (backend.name().to_owned(), ordinal);
        if let Some(slot) = self.devices.read().get(&key) {
            return Arc::clone(slot);
        }
        Arc::clone(self.devices.write().entry(key).or_default())
    }

    fn open_devices(&self) -> Vec<Device> {
        self.devices
            .read()
            .values()
            .filter_map(|slot| slot.device.get().cloned())
            .collect()
    }

    /// The device, if it is open.
    fn peek(&self, target: &str) -> Result<Option<Device>> {
        let (backend, ordinal) = self.resolve(target)?;
        Ok(self.slot(&backend, ordinal).device.get().cloned())
    }

    /// The device that a text names, opened by the first call.
    ///
    /// # Errors
    /// [`Error::DeviceName`], [`Error::NoSuchTarget`], [`Error::NoSuchDevice`], and why it cannot be opened.
    pub fn device(&self, target: &str) -> Result<Device> {
        let (backend, ordinal) = self.resolve(target)?;
        let slot = self.slot(&backend, ordinal);
        if let Some(device) = slot.device.get() {
            return Ok(device.clone());
        }
        let options = DeviceOptions::new(ordinal).memory_limit(slot.limit.load(Ordering::Relaxed));
        let device = backend.open(&options)?;
        // Where another thread was first, its device is taken and this one closes.
        Ok(slot.device.get_or_init(|| device).clone())
    }

    /// Waits for all work of every open device.
    ///
    /// # Errors
    /// The first error that sticks to one of their streams, after all have been waited for.
    pub fn synchronize(&self) -> Result<()> {
        let results: Vec<_> = self.open_devices().iter().map(Device::synchronize).collect();
        Ok(results.into_iter().collect::<super::Result<()>>()?)
    }

    /// The pool's figures; all 0 for a device that is not open.
    ///
    /// # Errors
    /// As [`Runtime::device`].
    pub fn memory_stats(&self, target: &str) -> Result<MemoryStats> {
        match self.peek(target)? {
            Some(device) => Ok(device.memory_stats()?),
            None => Ok(MemoryStats::default()),
        }
    }

    /// Sets the peaks to the present values; nothing to do for a device that is not open.
    ///
    /// # Errors
    /// As [`Runtime::device`].
    pub fn reset_peak_memory_stats(&self, target: &str) -> Result<()> {
        match self.peek(target)? {
            Some(device) => Ok(device.reset_peak_memory_stats()?),
            None => Ok(()),
        }
    }

    /// Gives cached memory back to the device; returns the number of bytes.
    ///
    /// # Errors
    /// As [`Runtime::device`].
    pub fn empty_cache(&self, target: &str) -> Result<u64> {
        match self.peek(target)? {
            Some(device) => Ok(device.empty_cache()?),
            None => Ok(0),
        }
    }

    /// Free and total bytes as the driver or the operating system sees them. Opens the device: only an open one knows.
    ///
    /// # Errors
    /// As [`Runtime::device`].
    pub fn mem_get_info(&self, target: &str) -> Result<MemoryInfo> {
        Ok(self.device(target)?.mem_get_info()?)
    }

    /// Changes the limit on reserved bytes, 0 for none, now or when the device is opened.
    ///
    /// # Errors
    /// As [`Runtime::device`].
    pub fn set_memory_limit(&self, target: &str, bytes: u64) -> Result<()> {
        let (backend, ordinal) = self.resolve(target)?;
        let slot = self.slot(&backend, ordinal);
        slot.limit.store(bytes, Ordering::Relaxed);
        match slot.device.get() {
            Some(device) => Ok(device.set_memory_limit(bytes)?),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::testing::Double;
    use crate::loader::{Embedded, LoaderOptions, discover::Surroundings};

    fn runtime() -> Runtime {
        let (embedded, nowhere) = ([Embedded::of::<Double>()], Surroundings::default());
        let options = LoaderOptions {
            development: false,
            ..LoaderOptions::default()
        };
        Runtime::new(Registry::with(options, &embedded, &nowhere))
    }

    #[test]
    fn questions_initialise_nothing_and_wrong_ones_name_the_range() {
        let runtime = runtime();
        assert!(!runtime.is_initialized("double").unwrap());
        assert_eq!(runtime.device_count("double").unwrap(), 3);
        assert_eq!(runtime.device_name("double", 1).unwrap(), "double 1");
        assert!(runtime.capability("double", 0, Capability::Map).unwrap());
        for id in [-1, 3, i64::MAX] {
            let error = runtime.device_name("double", id).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("double has no device {id}; valid are 0 to 2; targets found: double")
            );
            assert!(matches!(error, Error::NoSuchDevice { id: at, count: 3, .. } if at == id));
        }
        let error = runtime.device_count("TPU").unwrap_err();
        assert_eq!(error.to_string(), "there is no target \"TPU\"; found: double");
        assert!(matches!(
            runtime.is_initialized("TPU"),
            Err(Error::NoSuchTarget { .. })
        ));
        runtime.availability("double").unwrap();
        assert!(runtime.is_available("double:0") && !runtime.is_available("double:1"));
        let error = runtime.availability("double:1").unwrap_err();
        assert!(error.to_string().contains("device 1 is switched off"), "{error}");
        assert_eq!(runtime.memory_stats("double").unwrap(), MemoryStats::default());
        assert_eq!(runtime.empty_cache("double").unwrap(), 0);
        runtime.reset_peak_memory_stats("double").unwrap();
        runtime.synchronize().unwrap();
        assert!(!runtime.is_initialized("double").unwrap());
    }

    #[test]
    fn a_device_is_opened_once_with_the_limit_set_before() {
        let runtime = runtime();
        runtime.set_memory_limit("double", 1 << 20).unwrap();
        assert!(!runtime.is_initialized("double").unwrap());
        let device = runtime.device("double:0").unwrap();
        assert!(runtime.is_initialized("double").unwrap() && runtime.is_initialized("double:0").unwrap());
        assert!(!runtime.is_initialized("double:1").unwrap());
        assert_eq!(runtime.device("double").unwrap(), device);
        assert_eq!(runtime.device("auto").unwrap(), device);
        assert_eq!(runtime.memory_stats("double").unwrap().limit, 1 << 20);
        runtime.set_memory_limit("double", 0).unwrap();
        assert_eq!(device.memory_stats().unwrap().limit, 0);
        assert!(runtime.mem_get_info("double").unwrap().total > 0);
        assert!(runtime.device("double:1").is_err() && !runtime.is_initialized("double:1").unwrap());
        runtime.synchronize().unwrap();
    }
}
