//! Options of ops as settings of layers.

use crate::module::{Mapper, Module, Part, Visitor};
use std::hash::{DefaultHasher, Hash, Hasher};
use thalweg::ops::{ConvOptions, ConvTransposeOptions, PoolOptions};

macro_rules! options {
    ($($type:ty),*) => { $(
        impl Module for $type {
            fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
                let mut hasher = DefaultHasher::new();
                self.hash(&mut hasher);
                visitor.leaf(Part::Setting(hasher.finish()));
            }

            fn map(&self, _: &mut Mapper<'_>) -> $type {
                *self
            }

            fn set_training(&mut self, _: bool) {}
        }
    )* };
}

options!(ConvOptions, ConvTransposeOptions, PoolOptions);
