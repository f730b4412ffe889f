//! Rust types as elements of tensors.

use crate::hal::{self, DType};
use std::borrow::Cow;
use thalweg_hal::dtype::types;
use thalweg_hal::{every_dtype, for_dtype};

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that is an element of a tensor: those of [`types`].
pub trait Element:
    sealed::Sealed + Copy + Default + PartialEq + std::fmt::Debug + Send + Sync + 'static
{
    /// The dtype.
    const DTYPE: DType;
    /// What it is in memory.
    #[doc(hidden)]
    type Raw: hal::Element;

    /// The bits, zero-extended.
    fn bits(self) -> u64;

    /// The element of these bits; those of no bool but 0 mean `true`.
    fn from_bits(bits: u64) -> Self;

    /// The element as f64, rounded where f64 is too narrow.
    fn to_f64(self) -> f64;

    #[doc(hidden)]
    fn raw_slice(data: &[Self]) -> Cow<'_, [Self::Raw]>;

    #[doc(hidden)]
    fn into_raw(data: Vec<Self>) -> Vec<Self::Raw>;

    #[doc(hidden)]
    fn from_raw(data: Vec<Self::Raw>) -> Vec<Self>;
}

macro_rules! elements {
    ($($name:ident $type:ident $class:ident;)*) => { $( elements!(@$class $type); )* };
    // In memory it is a byte: a type of its own, below.
    (@Bool $type:ident) => {};
    (@$class:ident $type:ident) => {
        impl sealed::Sealed for types::$type {}
        impl Element for types::$type {
            const DTYPE: DType = <types::$type as thalweg_hal::Element>::DTYPE;
            type Raw = types::$type;

            #[inline]
            fn bits(self) -> u64 {
                thalweg_hal::Element::bits(self)
            }

            #[inline]
            fn from_bits(bits: u64) -> types::$type {
                thalweg_hal::Element::from_bits(bits)
            }

            #[inline]
            fn to_f64(self) -> f64 {
                thalweg_hal::Element::to_f64(self)
            }

            fn raw_slice(data: &[types::$type]) -> Cow<'_, [types::$type]> {
                Cow::Borrowed(data)
            }

            fn into_raw(data: Vec<types::$type>) -> Vec<types::$type> {
                data
            }

            fn from_raw(data: Vec<types::$type>) -> Vec<types::$type> {
                data
            }
        }
    };
}

every_dtype!(elements);

impl sealed::Sealed for bool {}
impl Element for bool {
    const DTYPE: DType = DType::Bool;
    type Raw = u8;

    #[inline]
    fn bits(self) -> u64 {
        u64::from(self)
    }

    #[inline]
    fn from_bits(bits: u64) -> bool {
        bits & 0xff != 0
    }

    fn to_f64(self) -> f64 {
        f64::from(u8::from(self))
    }

    fn raw_slice(data: &[bool]) -> Cow<'_, [u8]> {
        Cow::Owned(data.iter().map(|&element| u8::from(element)).collect())
    }

    fn into_raw(data: Vec<bool>) -> Vec<u8> {
        data.into_iter().map(u8::from).collect()
    }

    fn from_raw(data: Vec<u8>) -> Vec<bool> {
        data.into_iter().map(|element| element != 0).collect()
    }
}

/// The elements of these bits as f64, rounded where that is too narrow.
pub(crate) fn numbers(dtype: DType, elements: &[u64]) -> Vec<f64> {
    for_dtype!(dtype, T => elements.iter().map(|&bits| <T as Element>::from_bits(bits).to_f64()).collect())
}

/// The elements in these bytes, the lowest first.
pub(crate) fn of_bytes(dtype: DType, bytes: &[u8]) -> Vec<u64> {
    match dtype.size() {
        1 => bytes.iter().copied().map(u64::from).collect(),
        2 => bytes
            .as_chunks()
            .0
            .iter()
            .map(|&bytes| u16::from_le_bytes(bytes).into())
            .collect(),
        4 => bytes
            .as_chunks()
            .0
            .iter()
            .map(|&bytes| u32::from_le_bytes(bytes).into())
            .collect(),
        _ => bytes
            .as_chunks()
            .0
            .iter()
            .map(|&bytes| u64::from_le_bytes(bytes))
            .collect(),
    }
}

/// The bits of 1.
pub(crate) fn one(dtype: DType) -> u64 {
    for_dtype!(dtype, T => <T as thalweg_hal::Element>::from_f64(1.0).bits())
}
