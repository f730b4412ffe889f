//! Rust types as elements of tensors.

use crate::hal::{self, DType, F8E4M3, F8E5M2};
use std::borrow::Cow;

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that is an element of a tensor: the numbers, [`f16`](half::f16), [`bf16`](half::bf16), [`F8E4M3`], [`F8E5M2`] and `bool`.
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
    ($($type:ty, |$bits:ident| $from:expr, |$value:ident| $float:expr;)*) => { $(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: DType = <$type as hal::Element>::DTYPE;
            type Raw = $type;

            #[inline]
            fn bits(self) -> u64 {
                hal::Element::bits(self)
            }

            #[inline]
            fn from_bits($bits: u64) -> $type {
                $from
            }

            #[inline]
            fn to_f64(self) -> f64 {
                let $value = self;
                $float
            }

            fn raw_slice(data: &[$type]) -> Cow<'_, [$type]> {
                Cow::Borrowed(data)
            }

            fn into_raw(data: Vec<$type>) -> Vec<$type> {
                data
            }

            fn from_raw(data: Vec<$type>) -> Vec<$type> {
                data
            }
        }
    )* };
}

elements! {
    f64, |bits| f64::from_bits(bits), |v| v;
    f32, |bits| f32::from_bits(bits as u32), |v| f64::from(v);
    half::f16, |bits| half::f16::from_bits(bits as u16), |v| v.to_f64();
    half::bf16, |bits| half::bf16::from_bits(bits as u16), |v| v.to_f64();
    F8E4M3, |bits| F8E4M3::from_bits(bits as u8), |v| v.to_f64();
    F8E5M2, |bits| F8E5M2::from_bits(bits as u8), |v| v.to_f64();
    i64, |bits| bits as i64, |v| v as f64;
    i32, |bits| bits as i32, |v| f64::from(v);
    i16, |bits| bits as i16, |v| f64::from(v);
    i8, |bits| bits as i8, |v| f64::from(v);
    u64, |bits| bits, |v| v as f64;
    u32, |bits| bits as u32, |v| f64::from(v);
    u16, |bits| bits as u16, |v| f64::from(v);
    u8, |bits| bits as u8, |v| f64::from(v);
}

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

/// Calls `$body` with `$type` as the Rust type of a dtype.
macro_rules! with_element {
    ($dtype:expr, $type:ident => $body:expr) => {{
        use crate::hal::DType;
        match $dtype {
            DType::F64 => {
                type $type = f64;
                $body
            }
            DType::F32 => {
                type $type = f32;
                $body
            }
            DType::F16 => {
                type $type = half::f16;
                $body
            }
            DType::BF16 => {
                type $type = half::bf16;
                $body
            }
            DType::F8E4M3 => {
                type $type = crate::hal::F8E4M3;
                $body
            }
            DType::F8E5M2 => {
                type $type = crate::hal::F8E5M2;
                $body
            }
            DType::I64 => {
                type $type = i64;
                $body
            }
            DType::I32 => {
                type $type = i32;
                $body
            }
            DType::I16 => {
                type $type = i16;
                $body
            }
            DType::I8 => {
                type $type = i8;
                $body
            }
            DType::U64 => {
                type $type = u64;
                $body
            }
            DType::U32 => {
                type $type = u32;
                $body
            }
            DType::U16 => {
                type $type = u16;
                $body
            }
            DType::U8 => {
                type $type = u8;
                $body
            }
            DType::Bool => {
                type $type = bool;
                $body
            }
        }
    }};
}

pub(crate) use with_element;

/// The bits of 1.
pub(crate) fn one(dtype: DType) -> u64 {
    match dtype {
        DType::F64 => Element::bits(1.0_f64),
        DType::F32 => Element::bits(1.0_f32),
        DType::F16 => Element::bits(half::f16::ONE),
        DType::BF16 => Element::bits(half::bf16::ONE),
        DType::F8E4M3 => Element::bits(F8E4M3::ONE),
        DType::F8E5M2 => Element::bits(F8E5M2::ONE),
        DType::I64
        | DType::I32
        | DType::I16
        | DType::I8
        | DType::U64
        | DType::U32
        | DType::U16
        | DType::U8
        | DType::Bool => 1,
    }
}
