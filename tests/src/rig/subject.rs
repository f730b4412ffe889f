//! The backend under test.

use super::raw::Raw;
use std::path::Path;
use thalweg_hal::tables::{
    BackendApi, CoreTable, DeviceTable, Entry, EventTable, GraphTable, KernelTable, MemoryTable, StreamTable,
    Table,
};
use thalweg_hal::{Error, Result};

/// The tables of a backend; what it lacks is `None`.
#[derive(Clone, Copy)]
pub struct Tables {
    /// See [`CoreTable`].
    pub core: &'static CoreTable,
    /// See [`DeviceTable`].
    pub device: &'static DeviceTable,
    /// See [`MemoryTable`].
    pub memory: &'static MemoryTable,
    /// See [`StreamTable`].
    pub stream: &'static StreamTable,
    /// See [`EventTable`].
    pub event: &'static EventTable,
    /// See [`KernelTable`].
    pub kernel: Option<&'static KernelTable>,
    /// See [`GraphTable`].
    pub graph: Option<&'static GraphTable>,
}

impl Tables {
    /// Asks for every table.
    ///
    /// # Errors
    /// [`IncompatibleAbi`](thalweg_hal::Status::IncompatibleAbi) when a required one is missing.
    ///
    /// # Safety
    /// `api` was filled by an entry function.
    pub unsafe fn new(api: &BackendApi) -> Result<Tables> {
        fn required<T: Table>(table: Option<&'static T>) -> Result<&'static T> {
            table.ok_or_else(|| {
                let message = format!("the table `{}` is missing", T::ID.name());
                Error::new(thalweg_hal::Status::IncompatibleAbi, message)
            })
        }
        // SAFETY: the caller vouches for `api`.
        unsafe {
            Ok(Tables {
                core: required(table(api))?,
                device: required(table(api))?,
                memory: required(table(api))?,
                stream: required(table(api))?,
                event: required(table(api))?,
                kernel: table(api),
                graph: table(api),
            })
        }
    }
}

/// # Safety
/// `api` was filled by an entry function.
unsafe fn table<T: Table>(api: &BackendApi) -> Option<&'static T> {
    // SAFETY: the caller vouches for `api`; a table that is not null has the layout of its id and version.
    unsafe {
        (api.query_interface)(api.context, T::ID as u32, T::VERSION)
            .cast::<T>()
            .as_ref()
    }
}

/// A backend whose answers count as right.
#[derive(Clone, Copy)]
pub struct Oracle(Raw);

impl Oracle {
    /// Its tables.
    pub fn raw(self) -> Raw {
        self.0
    }
}

/// A backend under test.
pub struct Subject {
    name: String,
    api: BackendApi,
    raw: Raw,
    entry: Option<Entry>,
    oracle: Option<Oracle>,
}

impl Subject {
    /// A loaded backend; `name` is shown in the report.
    ///
    /// # Errors
    /// When a required table is missing.
    ///
    /// # Safety
    /// `api` was filled by an entry function and its backend is not shut down while the subject lives.
    pub unsafe fn new(name: impl Into<String>, api: BackendApi) -> Result<Subject> {
        // SAFETY: the caller vouches for `api`.
        let tables = unsafe { Tables::new(&api) }?;
        Ok(Subject {
            name: name.into(),
            api,
            raw: Raw::new(api.context, tables),
            entry: None,
            oracle: None,
        })
    }

    /// With its entry function, which the cases of negotiation call.
    ///
    /// # Safety
    /// `entry` is the entry function of the same plugin.
    pub unsafe fn with_entry(mut self, entry: Entry) -> Subject {
        self.entry = Some(entry);
        self
    }

    /// With a backend whose answers count as right.
    pub fn with_oracle(mut self, oracle: &Subject) -> Subject {
        self.oracle = Some(Oracle(oracle.raw));
        self
    }

    /// What the report calls it: the last part of a path.
    pub fn name_of(path: &Path) -> String {
        path.file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy()
            .into_owned()
    }

    /// Its name in the report.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its entry function handed over.
    pub fn api(&self) -> &BackendApi {
        &self.api
    }

    /// Its tables.
    pub fn raw(&self) -> Raw {
        self.raw
    }

    /// Its entry function, where it is known.
    pub fn entry(&self) -> Option<Entry> {
        self.entry
    }

    /// The backend whose answers count as right, if there is one.
    pub fn oracle(&self) -> Option<Oracle> {
        self.oracle
    }
}
