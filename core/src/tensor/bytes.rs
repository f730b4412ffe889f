//! Tensors and the bytes of their elements.

use super::shape::Shape;
use super::tag::OpTag;
use super::{Repr, Tensor};
use crate::context::Context;
use crate::error::Result;
use crate::exec;
use crate::hal::DType;

/// Little-endian bytes as they lie in memory, or the other way round.
fn swap_on_big_endian(data: &mut [u8], dtype: DType) {
    if cfg!(target_endian = "big") {
        data.chunks_exact_mut(dtype.size()).for_each(<[u8]>::reverse);
    }
}

impl Tensor {
    /// A tensor of the elements whose little-endian bytes are `data`, row-major; in this memory where the device shares it. What is
    /// no 0 is true.
    ///
    /// # Errors
    /// Memory does not suffice.
    #[track_caller]
    pub(crate) fn from_le_bytes(
        mut data: Vec<u8>,
        shape: Shape,
        dtype: DType,
        cx: &Context,
    ) -> Result<Tensor> {
        debug_assert_eq!(data.len(), shape.elements() * dtype.size());
        let tag = OpTag::new("from_bytes");
        swap_on_big_endian(&mut data, dtype);
        if dtype == DType::Bool {
            data.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        }
        Tensor::in_vec(data, (shape, dtype), cx, tag)
    }

    /// The little-endian bytes of the elements, row-major. Waits for them.
    ///
    /// # Errors
    /// The first error on the way to this tensor.
    #[track_caller]
    pub(crate) fn to_le_bytes(&self) -> Result<Vec<u8>> {
        let tag = OpTag::uncounted("to_bytes");
        if let Repr::Constant(constant) = &self.repr {
            let size = constant.ty.dtype.size();
            return Ok(constant.bits.to_le_bytes()[..size].repeat(constant.ty.shape.elements()));
        }
        let value = exec::evaluate(self, tag)?;
        let dtype = value.dtype;
        let mut data = exec::download_bytes(value, tag)?;
        swap_on_big_endian(&mut data, dtype);
        Ok(data)
    }
}
