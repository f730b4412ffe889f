//! Layers.

mod activation;
mod attention;
mod conv;
mod dense;
mod dropout;
mod norm;
mod pool;
mod quantized;
mod recurrent;
mod sequential;
mod transformer;

pub use activation::*;
pub use attention::MultiHeadAttention;
pub use conv::{Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d};
pub use dense::{Dense, Embedding};
pub use dropout::Dropout;
pub use norm::{BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RmsNorm};
pub use pool::{
    AvgPool1d, AvgPool2d, AvgPool3d, Flatten, GlobalAvgPool, GlobalMaxPool, MaxPool1d, MaxPool2d, MaxPool3d,
};
pub use quantized::{Calibration, QuantizedConv2d, QuantizedDense};
pub use recurrent::{Gru, Lstm};
pub use sequential::{BoxedLayer, Sequential};
pub use transformer::{TransformerDecoderLayer, TransformerEncoderLayer};
