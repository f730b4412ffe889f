//! Losses.

mod binary;
mod class;
mod distance;
mod regression;

pub use class::ClassLossOptions;

use crate::graph::Type;
use crate::hal::DType;
use crate::ops::checked::wide;
use crate::ops::{broadcast, cast, float_of, promote};
use crate::tensor::Tensor;
use crate::tensor::failure::Refusal;
use crate::tensor::tag::OpTag;

/// What becomes of the losses of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Reduction {
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// They stay.
    None,
}

impl Reduction {
    /// The losses as the result, in `dtype`.
    fn of(self, losses: &Tensor, dtype: DType, tag: OpTag) -> Tensor {
        let result = match self {
            Reduction::Mean => losses.mean(),
            Reduction::Sum => losses.sum(),
            Reduction::None => losses.clone(),
        };
        cast(&result, dtype, tag)
    }
}

/// The floating dtype of a loss of two tensors that broadcast.
fn joined(a: Type, b: Type) -> Result<DType, Refusal> {
    broadcast(&[a.shape, b.shape])?;
    Ok(float_of(promote(a.dtype, b.dtype)?))
}

fn widened<const N: usize>(tensors: [&Tensor; N], dtype: DType, tag: OpTag) -> [Tensor; N] {
    tensors.map(|tensor| cast(tensor, wide(dtype), tag))
}
