//! Pooling and flattening.

use crate::{Layer, Module};
use thalweg::Tensor;
use thalweg::ops::PoolOptions;

/// Greatest element of each window of `[n, c, h, w]`.
#[derive(Clone, Copy, Debug, Module)]
pub struct MaxPool2d {
    /// Size, stride, padding.
    pub options: PoolOptions,
}

impl MaxPool2d {
    /// Windows of `size` by `size` beside each other.
    pub fn new(size: usize) -> MaxPool2d {
        MaxPool2d {
            options: PoolOptions::new(size),
        }
    }
}

impl Layer for MaxPool2d {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        x.max_pool2d(self.options)
    }
}

/// Mean of each window of `[n, c, h, w]`.
#[derive(Clone, Copy, Debug, Module)]
pub struct AvgPool2d {
    /// Size, stride, padding.
    pub options: PoolOptions,
}

impl AvgPool2d {
    /// Windows of `size` by `size` beside each other.
    pub fn new(size: usize) -> AvgPool2d {
        AvgPool2d {
            options: PoolOptions::new(size),
        }
    }
}

impl Layer for AvgPool2d {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        x.avg_pool2d(self.options)
    }
}

/// Mean over all places of each channel: `[n, c, ..]` to `[n, c, 1..]`.
#[derive(Clone, Copy, Debug, Default, Module)]
pub struct GlobalAvgPool;

impl Layer for GlobalAvgPool {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        x.global_avg_pool()
    }
}

/// `[n, ..]` to `[n, elements]`.
#[derive(Clone, Copy, Debug, Default, Module)]
pub struct Flatten;

impl Layer for Flatten {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        x.flatten_axes(1, -1)
    }
}
