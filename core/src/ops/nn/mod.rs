//! What neural networks are made of.

mod adaptive;
mod attention;
mod batch_norm;
mod conv;
pub(crate) mod distance;
mod embedding;
mod fold;
mod interpolate;
mod loss;
mod norm;
mod pool;
mod shuffle;
pub(crate) mod softmax;
mod spatial;
mod windows;

#[cfg(test)]
mod tests;

pub use attention::AttentionOptions;
pub use batch_norm::BatchNorm;
pub use conv::{ConvOptions, ConvTransposeOptions};
pub use fold::FoldOptions;
pub use interpolate::{InterpolateOptions, Interpolation};
pub use loss::{ClassLossOptions, Reduction};
pub use pool::PoolOptions;
pub use spatial::{Padding, PerAxis};
