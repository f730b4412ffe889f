//! Conversion between dtypes.

use super::promotion::cast;
use crate::hal::DType;
use crate::tensor::Tensor;
use crate::tensor::tag::OpTag;

impl Tensor {
    /// The same values in another dtype; the tensor itself where it has it.
    ///
    /// To a float rounds to nearest, ties to even. A float to an integer drops the fraction, saturates, and NaN becomes 0
    /// (C, and so PyTorch and NumPy, leave those undefined). Between integers the low bits stay. To bool is `x != 0`.
    ///
    /// ```
    /// # use thalweg::{Context, DType, Tensor};
    /// # let cx = Context::new("cpu")?;
    /// let x = Tensor::from_slice(&[1.7_f32, -1.0, f32::NAN], [3], &cx);
    /// assert_eq!(x.cast(DType::U8).to_vec::<u8>()?, [1, 0, 0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn cast(&self, dtype: DType) -> Tensor {
        cast(self, dtype, OpTag::new("cast"))
    }
}
