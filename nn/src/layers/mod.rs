//! Layers.

mod activation;
mod attention;
mod conv;
mod dense;
mod norm;
mod options;
mod pool;
mod recurrent;
mod sequential;

pub use activation::*;
pub use attention::{MultiHeadAttention, TransformerDecoderLayer, TransformerEncoderLayer};
pub use conv::{Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d};
pub use dense::{Dense, Embedding};
pub use norm::{BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RmsNorm};
pub use pool::{AvgPool2d, Flatten, GlobalAvgPool, MaxPool2d};
pub use recurrent::{Gru, Lstm};
pub use sequential::{BoxedLayer, Sequential};
