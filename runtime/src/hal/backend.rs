//! Backends: the tables of a plugin, and calls with their errors.

use super::device::{Device, DeviceOptions, DeviceProperties};
use super::error::{CallError, Error, Result};
use crate::loader::state::float;
use crate::said::{self, text};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use thalweg_hal::Status;
use thalweg_hal::tables::{self, BackendApi, Context, TableId, Tables};

/// Who a backend is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackendInfo {
    /// Target name: what stands before the colon of a device target.
    pub name: String,
    /// Version of the backend.
    pub version: String,
    /// Driver or runtime behind it, with its version; empty when there is none.
    pub driver: String,
}

struct Inner {
    api: BackendApi,
    tables: Tables,
    info: BackendInfo,
}

/// A backend: the entry to the devices of one driver. Clones are the same backend.
///
/// Loading a plugin gives one (see [`loader`](crate::loader)); it initialises no device.
#[derive(Clone)]
pub struct Backend(Arc<Inner>);

impl PartialEq for Backend {
    fn eq(&self, other: &Backend) -> bool {
        std::ptr::eq(self.0.tables.core, other.0.tables.core) && self.context() == other.context()
    }
}

impl Eq for Backend {}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Backend").field(&self.0.info).finish()
    }
}

impl Backend {
    /// Wraps what the entry function of a plugin handed over.
    ///
    /// # Errors
    /// [`Status::IncompatibleAbi`] when a required table is missing, and whatever [`CoreTable::info`](thalweg_hal::tables::CoreTable::info) returns.
    ///
    /// # Safety
    /// `api` was filled by an entry function that keeps the contract of [`thalweg_hal::tables`].
    pub unsafe fn from_api(api: BackendApi) -> Result<Backend> {
        let missing = |id: TableId| {
            Error::Call(Box::new(CallError {
                status: Status::IncompatibleAbi,
                op: "load".into(),
                target: "unnamed backend".into(),
                message: format!(
                    "the table `{}` is missing; rebuild the plugin against thalweg-hal {}.{}",
                    id.name(),
                    tables::ABI_MAJOR,
                    tables::ABI_MINOR
                ),
                location: None,
            }))
        };
        // SAFETY: the caller vouches for `api`.
        let tables = unsafe { Tables::of(&api) }.map_err(missing)?;
        let mut raw = tables::BackendInfo {
            name: [0; 32],
            version: [0; 32],
            driver: [0; 128],
        };
        // SAFETY: the table is the plugin's, and `raw` is writable.
        let code = unsafe { (tables.core.info)(api.context, &raw mut raw) };
        let mut inner = Inner {
            api,
            tables,
            info: BackendInfo {
                name: "unnamed backend".into(),
                version: String::new(),
                driver: String::new(),
            },
        };
        if code != 0 {
            let name = inner.info.name.clone();
            return Err(Backend(Arc::new(inner)).error(code, "info", &name, None));
        }
        inner.info = BackendInfo {
            name: text(&raw.name),
            version: text(&raw.version),
            driver: text(&raw.driver),
        };
        Ok(Backend(Arc::new(inner)))
    }

    /// A backend that the loader has loaded.
    ///
    /// # Errors
    /// As [`Backend::from_api`].
    pub fn of(loaded: &crate::loader::Backend) -> Result<Backend> {
        // SAFETY: the loader has called the entry function and checked what it handed over.
        unsafe { Backend::from_api(*loaded.api()) }
    }

    /// Who it is.
    pub fn info(&self) -> &BackendInfo {
        &self.0.info
    }

    /// The target name.
    pub fn name(&self) -> &str {
        &self.0.info.name
    }

    /// What the plugin handed over, for calls past this module.
    pub fn api(&self) -> &BackendApi {
        &self.0.api
    }

    /// The tables, for calls past this module.
    pub fn tables(&self) -> &Tables {
        &self.0.tables
    }

    /// First argument of every function of the tables.
    #[inline]
    pub fn context(&self) -> Context {
        self.0.api.context
    }

    /// Number of devices that the driver lists. Opens none.
    ///
    /// # Errors
    /// [`Status::Unavailable`] and why there can be none.
    pub fn device_count(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: plain call of a table; `count` is writable.
        let code =
            float::kept(|| unsafe { (self.0.tables.core.device_count)(self.context(), &raw mut count) });
        self.check(code, "device_count")?;
        said::count(count).map_err(|message| {
            Error::Call(Box::new(CallError {
                status: Status::Internal,
                op: "device_count".into(),
                target: self.name().into(),
                message,
                location: None,
            }))
        })
    }

    /// What device `ordinal` is. Initialises nothing.
    ///
    /// # Errors
    /// [`Status::InvalidArgument`] for an ordinal outside `0..device_count`.
    pub fn device_properties(&self, ordinal: u32) -> Result<DeviceProperties> {
        let mut raw = std::mem::MaybeUninit::<tables::DeviceProperties>::zeroed();
        // SAFETY: plain call of a table; `raw` is writable, and zeros are a valid value of it.
        let code = unsafe { (self.0.tables.device.properties)(self.context(), ordinal, raw.as_mut_ptr()) };
        self.check(code, "device_properties")?;
        // SAFETY: initialised by zeros and by the backend; every field takes any bits.
        Ok(DeviceProperties::new(&unsafe { raw.assume_init() }))
    }

    /// Whether device `ordinal` can be opened, and why not.
    ///
    /// # Errors
    /// [`Status::Unavailable`] with the reason; [`Status::InvalidArgument`] for an ordinal outside `0..device_count`.
    pub fn availability(&self, ordinal: u32) -> Result<()> {
        // SAFETY: plain call of a table.
        let code = unsafe { (self.0.tables.device.is_available)(self.context(), ordinal) };
        self.check(code, "is_available")
    }

    /// Opens a device. Each call gives a device of its own, with its own memory pool; it closes with the last object that was
    /// made from it.
    ///
    /// # Errors
    /// As [`Backend::availability`], and what the backend returns.
    pub fn open(&self, options: &DeviceOptions) -> Result<Device> {
        Device::open(self, options)
    }

    /// Finishes all work and frees everything; every later call on this backend is [`Status::Unavailable`].
    ///
    /// # Errors
    /// The first error that sticks to one of its streams.
    pub fn shutdown(&self) -> Result<()> {
        // SAFETY: plain call of a table.
        let code = unsafe { (self.0.tables.core.shutdown)(self.context()) };
        self.check(code, "shutdown")
    }

    fn check(&self, code: i32, op: &str) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        Err(self.error(code, op, self.name(), None))
    }

    /// The error of a code that a call of this thread just returned.
    #[cold]
    pub(super) fn error(
        &self,
        code: i32,
        op: &str,
        target: &str,
        location: Option<&'static Location<'static>>,
    ) -> Error {
        let (status, message) = match Status::from_code(code) {
            Some(status) => (status, self.last_error()),
            None => (
                Status::Internal,
                format!("unknown status {code}: {}", self.last_error()),
            ),
        };
        Error::Call(Box::new(CallError {
            status,
            op: op.into(),
            target: target.into(),
            message,
            location,
        }))
    }

    /// Text of the last error of the calling thread.
    pub fn last_error(&self) -> String {
        // SAFETY: the function is this backend's, and its context goes with it.
        unsafe { said::last_error(self.0.tables.core.last_error, self.context()) }.unwrap_or_default()
    }
}
