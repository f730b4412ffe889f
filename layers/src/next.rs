//! The tables that a layer stands over.

use std::ffi::c_void;
use std::ops::Deref;
use thalweg_hal::tables::{BackendApi, Tables};
use thalweg_hal::{Error, Result, Status};

/// The tables of the backend or of the layer below.
#[derive(Clone, Copy)]
pub(crate) struct Next {
    pub(crate) api: BackendApi,
    tables: Tables,
}

impl Deref for Next {
    type Target = Tables;

    fn deref(&self) -> &Tables {
        &self.tables
    }
}

impl Next {
    /// # Safety
    /// `api` was filled by a function that keeps the contract of the tables.
    pub(crate) unsafe fn new(api: &BackendApi) -> Result<Next> {
        // SAFETY: the caller vouches for `api`.
        let tables = unsafe { Tables::of(api) }.map_err(|id| {
            let message = format!("the table `{}` is missing below the layer", id.name());
            Error::new(Status::IncompatibleAbi, message)
        })?;
        Ok(Next { api: *api, tables })
    }

    /// The answer of what is below to a question for a table.
    pub(crate) fn query(&self, table: u32, version: u32) -> *const c_void {
        // SAFETY: the function and its own context.
        unsafe { (self.api.query_interface)(self.api.context, table, version) }
    }
}
