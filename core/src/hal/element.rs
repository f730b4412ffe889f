//! Rust types that are elements.

use thalweg_hal::dtype::types;
use thalweg_hal::{DType, every_dtype};

mod sealed {
    pub trait Sealed {}
}

/// A Rust type whose every bit pattern is an element of a dtype.
///
/// # Safety
/// The type has no padding and no invalid bit patterns, and its size is the dtype's.
pub unsafe trait Element: sealed::Sealed + std::marker::Copy + Send + Sync + 'static {
    /// The dtype.
    const DTYPE: DType;

    /// The bits, zero-extended: the form of scalar arguments and of fill patterns.
    fn bits(self) -> u64;
}

macro_rules! elements {
    ($($name:ident $type:ident $class:ident;)*) => { $( elements!(@$class $type); )* };
    // Not every byte is a truth value.
    (@Bool $type:ident) => {};
    (@$class:ident $type:ident) => {
        impl sealed::Sealed for types::$type {}
        // SAFETY: a plain number.
        unsafe impl Element for types::$type {
            const DTYPE: DType = <types::$type as thalweg_hal::Element>::DTYPE;
            #[inline]
            fn bits(self) -> u64 { thalweg_hal::Element::bits(self) }
        }
    };
}

every_dtype!(elements);
