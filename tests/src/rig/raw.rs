//! Calls with their errors.

use thalweg_hal::tables::{BackendApi, BackendInfo, Context, DeviceOptions, DeviceProperties, Tables};
use thalweg_hal::{Error, Result, Status};

/// The tables of a backend with the context that each call takes.
#[derive(Clone, Copy)]
pub struct Raw {
    /// First argument of every call.
    pub context: Context,
    /// The functions.
    pub tables: Tables,
}

// SAFETY: the contract lets every function be called from any thread.
unsafe impl Send for Raw {}
// SAFETY: as above.
unsafe impl Sync for Raw {}

impl Raw {
    /// What an entry function handed over.
    ///
    /// # Errors
    /// [`Status::IncompatibleAbi`] when a required table is missing.
    ///
    /// # Safety
    /// `api` was filled by an entry function.
    pub unsafe fn of(api: &BackendApi) -> Result<Raw> {
        // SAFETY: the caller vouches for `api`.
        let tables = unsafe { Tables::of(api) }.map_err(|id| {
            let message = format!("the table `{}` is missing", id.name());
            Error::new(Status::IncompatibleAbi, message)
        })?;
        let context = api.context;
        Ok(Raw { context, tables })
    }

    /// The error of a code that a call of this thread just returned.
    pub fn status(&self, code: i32) -> Result<()> {
        match Status::from_code(code) {
            Some(Status::Ok) => Ok(()),
            Some(status) => Err(Error::new(status, self.last_error())),
            None => Err(Error::internal(format!(
                "status {code} is none of the contract's: {}",
                self.last_error()
            ))),
        }
    }

    /// Text of the last error of this thread.
    pub fn last_error(&self) -> String {
        let mut buffer = vec![0_u8; 4096];
        // SAFETY: the buffer has the capacity that is passed.
        let len = unsafe { (self.tables.core.last_error)(self.context, buffer.as_mut_ptr(), buffer.len()) };
        buffer.truncate(len);
        String::from_utf8_lossy(&buffer).into_owned()
    }

    /// Calls that write one value: runs `call` with a place for it.
    pub fn out<T: Copy>(&self, start: T, call: impl FnOnce(*mut T) -> i32) -> Result<T> {
        let mut value = start;
        self.status(call(&raw mut value))?;
        Ok(value)
    }

    /// See [`thalweg_hal::tables::CoreTable::info`].
    pub fn info(&self) -> Result<BackendInfo> {
        let zero = BackendInfo {
            name: [0; 32],
            version: [0; 32],
            driver: [0; 128],
        };
        // SAFETY: the out pointer is writable.
        self.out(zero, |out| unsafe { (self.tables.core.info)(self.context, out) })
    }

    /// See [`thalweg_hal::tables::CoreTable::device_count`].
    pub fn device_count(&self) -> Result<u32> {
        // SAFETY: the out pointer is writable.
        self.out(0, |out| unsafe {
            (self.tables.core.device_count)(self.context, out)
        })
    }

    /// See [`thalweg_hal::tables::DeviceTable::properties`].
    pub fn properties(&self, ordinal: u32) -> Result<DeviceProperties> {
        let zero = DeviceProperties {
            name: [0; 128],
            arch: [0; 64],
            id: [0; 64],
            kind: 0,
            compute_units: 0,
            total_memory: 0,
            capabilities: 0,
            alignment: 0,
            priority_low: 0,
            priority_high: 0,
        };
        // SAFETY: the out pointer is writable.
        self.out(zero, |out| unsafe {
            (self.tables.device.properties)(self.context, ordinal, out)
        })
    }

    /// See [`thalweg_hal::tables::DeviceTable::open`].
    pub fn open(&self, options: &DeviceOptions) -> Result<u64> {
        // SAFETY: the options live through the call, the out pointer is writable.
        self.out(0, |out| unsafe {
            (self.tables.device.open)(self.context, options, out)
        })
    }

    /// See [`thalweg_hal::tables::DeviceTable::close`].
    pub fn close(&self, device: u64) -> Result<()> {
        // SAFETY: plain call.
        self.status(unsafe { (self.tables.device.close)(self.context, device) })
    }
}
