//! Devices: opening, properties, synchronising.

use super::backend::Backend;
use super::error::{CallError, Error, Result};
use super::memory::Buffer;
use super::statistics::{self, MemoryStats};
use super::stream::{Stream, StreamHandle, in_callback};
use super::tag::Tag;
use super::waits::Watch;
use crate::loader::state::float;
use crate::said::{self, text};
use parking_lot::Mutex;
use std::any::Any;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock, Weak};
use thalweg_hal::Status;
use thalweg_hal::tables::{
    self, BackendApi, Capability, Context, Kind, MemoryInfo, MemoryRange, PropertyKey, Tables,
};

/// More than a pool has.
const MOST_RANGES: usize = 1 << 28;

/// How a device is opened.
///
/// ```
/// use thalweg_runtime::hal::DeviceOptions;
/// let options = DeviceOptions::new(0).memory_limit(8 << 30);
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceOptions {
    pub(super) ordinal: u32,
    memory_limit: u64,
    block_size: u64,
}

impl DeviceOptions {
    /// Device `ordinal` with the defaults: no limit but the device's, blocks of 1 GiB.
    pub const fn new(ordinal: u32) -> DeviceOptions {
        DeviceOptions {
            ordinal,
            memory_limit: 0,
            block_size: 0,
        }
    }

    /// Most bytes that the pool may reserve; 0 for no limit but the device's.
    #[must_use]
    pub const fn memory_limit(mut self, bytes: u64) -> DeviceOptions {
        self.memory_limit = bytes;
        self
    }

    /// Size in bytes of the blocks that the pool reserves; 0 for the default of 1 GiB.
    #[must_use]
    pub const fn block_size(mut self, bytes: u64) -> DeviceOptions {
        self.block_size = bytes;
        self
    }
}

/// What a device is; 0 stands for a number that does not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceProperties {
    /// Name for a person.
    pub name: String,
    /// Architecture or instruction set: `avx512`, `sm_90`, ….
    pub arch: String,
    /// PCI address or another stable id; may be empty.
    pub id: String,
    /// What kind of device.
    pub kind: Kind,
    /// Cores, multiprocessors or compute units.
    pub compute_units: u32,
    /// Memory of the device in bytes.
    pub total_memory: u64,
    /// What it can do.
    pub capabilities: Capabilities,
    /// Alignment of every allocation in bytes.
    pub alignment: u64,
    /// Lowest to highest priority of a stream.
    pub priorities: RangeInclusive<i32>,
}

/// A set of [`Capability`] bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Capabilities(u64);

impl Capabilities {
    /// Whether `capability` is in the set.
    pub const fn has(self, capability: Capability) -> bool {
        self.0 & capability.bit() != 0
    }

    /// The known ones in the set.
    pub fn iter(self) -> impl Iterator<Item = Capability> {
        Capability::ALL
            .into_iter()
            .map(|(capability, _)| capability)
            .filter(move |&capability| self.has(capability))
    }
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl DeviceProperties {
    pub(super) fn new(raw: &tables::DeviceProperties) -> DeviceProperties {
        DeviceProperties {
            name: text(&raw.name),
            arch: text(&raw.arch),
            id: text(&raw.id),
            kind: Kind::from_code(raw.kind),
            compute_units: raw.compute_units,
            total_memory: raw.total_memory,
            capabilities: Capabilities(raw.capabilities),
            alignment: if raw.alignment.is_power_of_two() {
                raw.alignment
            } else {
                1
            },
            priorities: said::priorities(raw.priority_low, raw.priority_high),
        }
    }
}

struct Inner {
    backend: Backend,
    // Copies of the backend's, one load nearer.
    api: BackendApi,
    tables: Tables,
    handle: u64,
    ordinal: u32,
    target: String,
    properties: DeviceProperties,
    default_stream: OnceLock<StreamHandle>,
    attached: Mutex<Vec<Weak<dyn Any + Send + Sync>>>,
    watch: Watch,
    /// Memory of the host that work may still write; it ends after the device is closed.
    written: Mutex<Vec<Box<dyn Send>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let (backend, handle, target) = (
            self.backend.clone(),
            self.handle,
            std::mem::take(&mut self.target),
        );
        let written = std::mem::take(self.written.get_mut());
        let close = move || {
            // SAFETY: plain call of a table; every object of the device held a reference to it and is gone.
            let code = unsafe { (backend.tables().device.close)(backend.context(), handle) };
            if code != 0 {
                tracing::error!("{}", backend.error(code, "close", &target, None));
            }
            drop(written);
        };
        // A stream cannot end from inside its own callback.
        if in_callback() {
            std::thread::spawn(close);
        } else {
            close();
        }
    }
}

/// An open device. Clones are the same device; it closes when the last clone and the last object made from it are gone.
///
/// ```
/// use thalweg_runtime::hal::{self, Capability};
/// let device = hal::device("cpu")?;
/// assert_eq!(device.target(), "cpu:0");
/// assert!(device.capability(Capability::Map) && device.properties().compute_units > 0);
/// # Ok::<(), thalweg_runtime::Error>(())
/// ```
#[derive(Clone)]
pub struct Device(Arc<Inner>);

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.0.target).finish()
    }
}

impl PartialEq for Device {
    #[inline]
    fn eq(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Device {}

impl Device {
    #[track_caller]
    pub(super) fn open(backend: &Backend, options: &DeviceOptions) -> Result<Device> {
        let properties = backend.device_properties(options.ordinal)?;
        let target = format!("{}:{}", backend.name(), options.ordinal);
        let raw = tables::DeviceOptions {
            ordinal: options.ordinal,
            reserved: 0,
            memory_limit: options.memory_limit,
            block_size: options.block_size,
        };
        let mut handle = 0;
        let open = backend.tables().device.open;
        // SAFETY: plain call of a table; `handle` is writable.
        let code = float::kept(|| unsafe { open(backend.context(), &raw const raw, &raw mut handle) });
        if code != 0 {
            return Err(backend.error(code, "open", &target, Some(std::panic::Location::caller())));
        }
        Ok(Device(Arc::new(Inner {
            backend: backend.clone(),
            api: *backend.api(),
            tables: *backend.tables(),
            handle,
            ordinal: options.ordinal,
            target,
            properties,
            default_stream: OnceLock::new(),
            attached: Mutex::default(),
            watch: Watch::default(),
            written: Mutex::default(),
        })))
    }

    /// Its backend.
    pub fn backend(&self) -> &Backend {
        &self.0.backend
    }

    #[inline]
    pub(super) fn tables(&self) -> &Tables {
        &self.0.tables
    }

    #[inline]
    pub(super) fn context(&self) -> Context {
        self.0.api.context
    }

    /// What a layer above keeps for this device, such as its compiled kernels: the one of type `T` that lives, or what `make`
    /// makes. The device holds it weakly, so it lives as long as the layer's own references.
    pub fn attached<T: Any + Send + Sync>(&self, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        let mut attached = self.0.attached.lock();
        let present = attached.iter().filter_map(Weak::upgrade);
        if let Some(present) = present.filter_map(|any| any.downcast().ok()).next() {
            return present;
        }
        let made = make();
        attached.retain(|weak| weak.strong_count() > 0);
        let any: Arc<dyn Any + Send + Sync> = Arc::clone(&made) as _;
        attached.push(Arc::downgrade(&any));
        made
    }

    pub(super) fn watch(&self) -> &Watch {
        &self.0.watch
    }

    /// Keeps memory that work may still write until the device is closed.
    pub(super) fn keep(&self, written: impl Send + 'static) {
        self.0.written.lock().push(Box::new(written));
    }

    /// Its handle in the tables.
    #[inline]
    pub fn handle(&self) -> u64 {
        self.0.handle
    }

    /// Its number on its backend.
    pub fn ordinal(&self) -> u32 {
        self.0.ordinal
    }

    /// `cpu:0`, `cuda:1`, ….
    pub fn target(&self) -> &str {
        &self.0.target
    }

    /// What it is.
    pub fn properties(&self) -> &DeviceProperties {
        &self.0.properties
    }

    /// Whether it can do something.
    pub fn capability(&self, capability: Capability) -> bool {
        self.0.properties.capabilities.has(capability)
    }

    #[inline]
    pub(super) fn check(&self, code: i32, tag: &Tag<'_>) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        Err(self.error(code, tag))
    }

    /// The error of a code that a call of this thread just returned.
    #[cold]
    pub(super) fn error(&self, code: i32, tag: &Tag<'_>) -> Error {
        self.0
            .backend
            .error(code, tag.op(), &self.0.target, tag.location())
    }

    /// An error that a check of this module found.
    #[cold]
    pub(super) fn refuse(&self, status: Status, message: impl Into<String>, tag: &Tag<'_>) -> Error {
        Error::Call(Box::new(CallError {
            status,
            op: tag.op().into(),
            target: self.0.target.clone(),
            message: message.into(),
            location: tag.location(),
        }))
    }

    /// One number that is not in [`DeviceProperties`], in the key's unit.
    ///
    /// # Errors
    /// [`Status::Unsupported`] where it does not apply.
    #[track_caller]
    pub fn query(&self, key: PropertyKey) -> Result<u64> {
        let mut value = 0;
        // SAFETY: plain call of a table; `value` is writable.
        let code = unsafe {
            (self.tables().device.query)(self.context(), self.0.handle, key as u32, &raw mut value)
        };
        self.check(code, &Tag::new("query"))?;
        Ok(value)
    }

    /// Whether the device still works.
    ///
    /// # Errors
    /// [`Status::DeviceLost`] and why.
    #[track_caller]
    pub fn status(&self) -> Result<()> {
        // SAFETY: plain call of a table.
        let code = unsafe { (self.tables().device.status)(self.context(), self.0.handle) };
        self.check(code, &Tag::new("status"))
    }

    /// The stream that work goes to where no other is chosen.
    ///
    /// # Errors
    /// What the backend returns when the stream is made, by the first call.
    #[track_caller]
    pub fn default_stream(&self) -> Result<Stream> {
        if let Some(&handle) = self.0.default_stream.get() {
            return Ok(Stream::borrowed(handle, self));
        }
        let priorities = &self.0.properties.priorities;
        let handle = StreamHandle::create(self, 0.clamp(*priorities.start(), *priorities.end()))?;
        if self.0.default_stream.set(handle).is_err() {
            // Another thread was first.
            handle.destroy(self);
        }
        Ok(Stream::borrowed(
            *self.0.default_stream.get_or_init(|| handle),
            self,
        ))
    }

    /// A new stream; see [`Stream::new`].
    ///
    /// # Errors
    /// What the backend returns.
    #[track_caller]
    pub fn create_stream(&self) -> Result<Stream> {
        Stream::new(self)
    }

    /// Memory for `bytes` bytes; see [`Buffer::alloc`].
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](super::Error::OutOfMemory).
    #[track_caller]
    pub fn alloc(&self, bytes: u64) -> Result<Buffer> {
        Buffer::alloc(self, bytes)
    }

    /// The pool's figures.
    ///
    /// # Errors
    /// What the backend returns.
    #[track_caller]
    pub fn memory_stats(&self) -> Result<MemoryStats> {
        let mut stats = MemoryStats::default();
        // SAFETY: plain call of a table; `stats` is writable.
        let code =
            unsafe { (self.tables().memory.statistics)(self.context(), self.0.handle, &raw mut stats) };
        self.check(code, &Tag::new("memory_stats"))?;
        Ok(stats)
    }

    /// The ranges of the pool's blocks, block by block.
    ///
    /// # Errors
    /// What the backend returns; more ranges than a pool has.
    #[track_caller]
    pub fn memory_ranges(&self) -> Result<Vec<MemoryRange>> {
        let tag = Tag::new("memory_ranges");
        let mut ranges: Vec<MemoryRange> = Vec::new();
        loop {
            let (mut len, room) = (0, ranges.len());
            let out = match room {
                0 => std::ptr::null_mut(),
                _ => ranges.as_mut_ptr(),
            };
            // SAFETY: there is room for `room` ranges; `len` is writable.
            let code = unsafe {
                (self.tables().memory.ranges)(self.context(), self.0.handle, out, room, &raw mut len)
            };
            self.check(code, &tag)?;
            if len <= room {
                ranges.truncate(len);
                return Ok(ranges);
            }
            if len > MOST_RANGES {
                let told = format!("the backend tells of {len} ranges; a pool has at most {MOST_RANGES}");
                return Err(self.refuse(Status::Internal, told, &tag));
            }
            // Others may allocate meanwhile.
            ranges.resize(len + len / 8 + 8, MemoryRange::default());
        }
    }

    /// The pool's figures as a table; see [`statistics::summary`].
    ///
    /// # Errors
    /// What the backend returns.
    #[track_caller]
    pub fn memory_summary(&self) -> Result<String> {
        Ok(statistics::summary(&self.memory_stats()?))
    }

    /// Sets the peaks of allocated and reserved memory to the present values.
    ///
    /// # Errors
    /// What the backend returns.
    #[track_caller]
    pub fn reset_peak_memory_stats(&self) -> Result<()> {
        // SAFETY: plain call of a table.
        let code = unsafe { (self.tables().memory.reset_peaks)(self.context(), self.0.handle) };
        self.check(code, &Tag::new("reset_peak_memory_stats"))
    }

    /// Gives cached memory back to the device; returns the number of bytes.
    ///
    /// # Errors
    /// What the backend returns.
    #[track_caller]
    pub fn empty_cache(&self) -> Result<u64> {
        let mut bytes = 0;
        // SAFETY: plain call of a table; `bytes` is writable.
        let code = unsafe { (self.tables().memory.trim)(self.context(), self.0.handle, &raw mut bytes) };
        self.check(code, &Tag::new("empty_cache"))?;
        Ok(bytes)
    }

    /// Free and total bytes of the device as its driver or the operating system sees them.
    ///
    /// # Errors
    /// What the backend returns.
    #[track_caller]
    pub fn mem_get_info(&self) -> Result<MemoryInfo> {
        let mut info = MemoryInfo::default();
        // SAFETY: plain call of a table; `info` is writable.
        let code = unsafe { (self.tables().memory.info)(self.context(), self.0.handle, &raw mut info) };
        self.check(code, &Tag::new("mem_get_info"))?;
        Ok(info)
    }

    /// Changes the limit on reserved bytes; 0 for none. What is reserved already stays.
    ///
    /// # Errors
    /// What the backend returns.
    #[track_caller]
    pub fn set_memory_limit(&self, bytes: u64) -> Result<()> {
        // SAFETY: plain call of a table.
        let code = unsafe { (self.tables().memory.set_limit)(self.context(), self.0.handle, bytes) };
        self.check(code, &Tag::new("set_memory_limit"))
    }
}
