//! Pooling and flattening.

use crate::{Layer, Module};
use thalweg::Tensor;
use thalweg::observe::parts;
use thalweg::ops::PoolOptions;

macro_rules! pools {
    ($($(#[$doc:meta])* $name:ident $op:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Module)]
        pub struct $name {
            /// Size, stride, padding.
            pub options: PoolOptions,
        }

        impl $name {
            /// Windows of `size` along each axis, beside each other; other windows by [`PoolOptions`] in the field.
            pub fn new(size: usize) -> $name {
                $name {
                    options: PoolOptions::new(size),
                }
            }
        }

        impl Layer for $name {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Tensor {
                let _scope = parts::enter(self);
                x.$op(self.options)
            }
        }
    )* };
}

pools! {
    /// Greatest element of each window of `[n, c, l]`.
    MaxPool1d max_pool1d;
    /// Greatest element of each window of `[n, c, h, w]`.
    MaxPool2d max_pool2d;
    /// Greatest element of each window of `[n, c, d, h, w]`.
    MaxPool3d max_pool3d;
    /// Mean of each window of `[n, c, l]`.
    AvgPool1d avg_pool1d;
    /// Mean of each window of `[n, c, h, w]`.
    AvgPool2d avg_pool2d;
    /// Mean of each window of `[n, c, d, h, w]`.
    AvgPool3d avg_pool3d;
}

macro_rules! whole {
    ($($(#[$doc:meta])* $name:ident: |$x:ident| $value:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, Module)]
        pub struct $name;

        impl Layer for $name {
            #[track_caller]
            fn forward(&self, $x: &Tensor) -> Tensor {
                let _scope = parts::enter(self);
                $value
            }
        }
    )* };
}
pub(super) use whole;

whole! {
    /// Mean over all places of each channel: `[n, c, ..]` to `[n, c]`.
    GlobalAvgPool: |x| x.global_avg_pool();
    /// Greatest element of each channel: `[n, c, ..]` to `[n, c]`.
    GlobalMaxPool: |x| x.global_max_pool();
    /// `[n, ..]` to `[n, elements]`.
    Flatten: |x| x.flatten_axes(1, -1);
}
