//! The tables that a layer stands over.

use std::ffi::c_void;
use thalweg_hal::tables::{
    BackendApi, CoreTable, DeviceTable, EventTable, KernelTable, MemoryTable, ProfileTable, ProgramTable,
    StreamTable, Table, TableId,
};
use thalweg_hal::{Error, Result, Status};

/// The tables of the backend or of the layer below.
#[derive(Clone, Copy)]
pub(crate) struct Next {
    pub(crate) api: BackendApi,
    pub(crate) core: &'static CoreTable,
    pub(crate) device: &'static DeviceTable,
    pub(crate) memory: &'static MemoryTable,
    pub(crate) stream: &'static StreamTable,
    pub(crate) event: &'static EventTable,
    pub(crate) kernel: Option<&'static KernelTable>,
    pub(crate) program: Option<&'static ProgramTable>,
    pub(crate) profile: Option<&'static ProfileTable>,
}

impl Next {
    /// # Safety
    /// `api` was filled by a function that keeps the contract of the tables.
    pub(crate) unsafe fn new(api: &BackendApi) -> Result<Next> {
        fn required<T: Table>(table: Option<&'static T>) -> Result<&'static T> {
            let missing = || format!("the table `{}` is missing below the layer", T::ID.name());
            table.ok_or_else(|| Error::new(Status::IncompatibleAbi, missing()))
        }
        // SAFETY: the caller vouches for `api`.
        unsafe {
            Ok(Next {
                api: *api,
                core: required(table(api))?,
                device: required(table(api))?,
                memory: required(table(api))?,
                stream: required(table(api))?,
                event: required(table(api))?,
                kernel: table(api),
                program: table(api),
                profile: table(api),
            })
        }
    }

    /// Whether there is a table.
    pub(crate) fn has(&self, id: TableId) -> bool {
        match id {
            TableId::Core | TableId::Device | TableId::Memory | TableId::Stream | TableId::Event => true,
            TableId::Kernel => self.kernel.is_some(),
            TableId::Program => self.program.is_some(),
            TableId::Profile => self.profile.is_some(),
        }
    }

    /// The answer of what is below to a question for a table.
    pub(crate) fn query(&self, table: u32, version: u32) -> *const c_void {
        // SAFETY: the function and its own context.
        unsafe { (self.api.query_interface)(self.api.context, table, version) }
    }
}

/// # Safety
/// As [`Next::new`].
unsafe fn table<T: Table>(api: &BackendApi) -> Option<&'static T> {
    // SAFETY: the caller vouches for `api`; a table that is not null has the layout of its id and version.
    unsafe {
        (api.query_interface)(api.context, T::ID as u32, T::VERSION)
            .cast::<T>()
            .as_ref()
    }
}
