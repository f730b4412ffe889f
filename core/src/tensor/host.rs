//! Tensors in memory that somebody else keeps.

use super::Tensor;
use super::create::imported;
use super::shape::Shape;
use super::tag::OpTag;
use crate::context::Context;
use crate::error::Result;
use crate::hal::{Buffer, Capability, DType};
use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;

type Owner = Arc<dyn Any + Send + Sync>;

unsafe extern "C" fn release(owner: *mut c_void) {
    // SAFETY: `from_host` passes a box of the owner, and release is called once.
    drop(unsafe { Box::from_raw(owner.cast::<Owner>()) });
}

impl Tensor {
    /// A tensor in the host's memory, which `owner` keeps; `None` where the device cannot use it in place.
    ///
    /// # Safety
    /// Row-major elements of the shape lie at `ptr`, as the host has them, in memory that is readable and writable as long as
    /// `owner` lives, and that nobody writes.
    #[track_caller]
    pub(crate) unsafe fn from_host(
        ptr: *mut u8,
        owner: Owner,
        shape: Shape,
        dtype: DType,
        cx: &Context,
    ) -> Option<Result<Tensor>> {
        let aligned = (ptr as usize).is_multiple_of(dtype.size());
        if shape.elements() == 0 || !aligned || !cx.device().capability(Capability::Import) {
            return None;
        }
        let bytes = (shape.elements() * dtype.size()) as u64;
        let owner = Box::into_raw(Box::new(owner)).cast::<c_void>();
        // SAFETY: the caller vouches for the memory, which the owner keeps until it is released.
        match unsafe { Buffer::import(cx.device(), ptr, bytes, Some(release), owner) } {
            Ok(buffer) => Some(Ok(imported(buffer, shape, dtype, cx, OpTag::new("from_host")))),
            Err(error) => {
                // SAFETY: a failed import does not release; the box is still ours.
                unsafe { release(owner) };
                Some(Err(error.into()))
            }
        }
    }

    /// Other elements of a value's buffer.
    #[cfg(feature = "dlpack")]
    pub(crate) fn viewed(self, layout: super::layout::Layout) -> Tensor {
        match self.repr {
            super::Repr::Value(value) => Tensor::from_value(super::Value { layout, ..value }),
            _ => self,
        }
    }
}
