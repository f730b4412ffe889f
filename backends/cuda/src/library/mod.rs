//! Matrix products by cuBLASLt.

mod after;
mod call;
mod epilogue;
mod shape;

pub(crate) use call::{Call, Product};

use crate::api::Lt;
use crate::api::lt::RawHandle;
use crate::context::Context;
use std::sync::Arc;
use thalweg_hal::Result;

/// A handle of cuBLASLt in a context.
pub(crate) struct Handle {
    pub(crate) api: &'static Lt,
    pub(crate) raw: RawHandle,
    pub(crate) context: Arc<Context>,
    /// Whether products of f32 may use TF32.
    pub(crate) tf32: bool,
    /// Compute capability, 90 for 9.0.
    pub(crate) sm: u32,
}

impl Handle {
    /// A handle; the context is current.
    pub(crate) fn new(api: &'static Lt, context: &Arc<Context>, tf32: bool, sm: u32) -> Result<Handle> {
        let mut raw = RawHandle(std::ptr::null_mut());
        // SAFETY: plain call.
        Lt::check("cublasLtCreate", unsafe { (api.create)(&raw mut raw) })?;
        Ok(Handle {
            api,
            raw,
            context: Arc::clone(context),
            tf32,
            sm,
        })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            // SAFETY: owned; the device's streams are done.
            unsafe { (self.api.destroy)(self.raw) };
        }
    }
}
