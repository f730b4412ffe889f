//! Rust types as elements.

use crate::dtype::{DType, types};
use crate::narrow::{bf16_from_f64, f16_from_f64};
use std::fmt::Debug;

/// The Rust type of a dtype.
///
/// ```
/// use thalweg_hal::{DType, Element};
/// assert_eq!((i16::DTYPE, (-2_i16).bits()), (DType::I16, 0xfffe));
/// assert_eq!(<half::f16 as Element>::from_bits(0x3c00).to_f64(), 1.0);
/// ```
pub trait Element: Copy + Default + PartialEq + Debug + Send + Sync + 'static {
    /// The dtype.
    const DTYPE: DType;

    /// The bits, zero-extended.
    fn bits(self) -> u64;

    /// The element of these bits; those of no bool but 0 mean `true`.
    fn from_bits(bits: u64) -> Self;

    /// The element as f64, rounded where f64 is too narrow.
    fn to_f64(self) -> f64;

    /// The element that a cast makes of `value`: a float rounds once, an integer saturates.
    fn from_f64(value: f64) -> Self;
}

macro_rules! elements {
    ($($name:ident $type:ident $class:ident;)*) => { $(
        impl Element for types::$type {
            const DTYPE: DType = DType::$name;
            elements!(@$class $type);
        }
    )* };
    (@Float $type:ident) => {
        #[inline]
        fn bits(self) -> u64 { self.to_bits().into() }
        #[inline]
        fn from_bits(bits: u64) -> Self { types::$type::from_bits(bits as _) }
        #[inline]
        fn to_f64(self) -> f64 { self.into() }
        #[inline]
        fn from_f64(value: f64) -> Self { elements!(@from $type value) }
    };
    (@from f64 $value:ident) => { $value };
    (@from f32 $value:ident) => { $value as f32 };
    (@from f16 $value:ident) => { f16_from_f64($value) };
    (@from bf16 $value:ident) => { bf16_from_f64($value) };
    (@from $type:ident $value:ident) => { types::$type::from_f64($value) };
    (@Signed $type:ident) => { elements!(@Unsigned $type); };
    (@Unsigned $type:ident) => {
        #[inline]
        fn bits(self) -> u64 { self as u64 & (u64::MAX >> (64 - $type::BITS)) }
        #[inline]
        fn from_bits(bits: u64) -> Self { bits as $type }
        #[inline]
        fn to_f64(self) -> f64 { self as f64 }
        #[inline]
        fn from_f64(value: f64) -> Self { value as $type }
    };
    (@Bool $type:ident) => {
        #[inline]
        fn bits(self) -> u64 { self.into() }
        #[inline]
        fn from_bits(bits: u64) -> Self { bits & 0xff != 0 }
        #[inline]
        fn to_f64(self) -> f64 { u8::from(self).into() }
        #[inline]
        fn from_f64(value: f64) -> Self { value != 0.0 }
    };
}

every_dtype!(elements);
