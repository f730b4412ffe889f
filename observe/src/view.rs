//! What is made of recordings: one file each.

pub(crate) mod kernels;
pub(crate) mod memory;
pub(crate) mod metrics;
pub(crate) mod ops;
pub(crate) mod stacks;
pub(crate) mod steps;
pub(crate) mod timeline;
