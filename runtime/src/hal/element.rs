//! Rust types that are elements.

use thalweg_hal::DType;
use thalweg_hal::f8::{F8E4M3, F8E5M2};

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
    ($($type:ty, $dtype:ident, |$value:ident| $bits:expr;)*) => { $(
        impl sealed::Sealed for $type {}
        // SAFETY: a plain number.
        unsafe impl Element for $type {
            const DTYPE: DType = DType::$dtype;
            #[inline]
            fn bits(self) -> u64 { let $value = self; $bits }
        }
    )* };
}

elements! {
    f64, F64, |v| v.to_bits();
    f32, F32, |v| u64::from(v.to_bits());
    half::f16, F16, |v| u64::from(v.to_bits());
    half::bf16, BF16, |v| u64::from(v.to_bits());
    F8E4M3, F8E4M3, |v| u64::from(v.to_bits());
    F8E5M2, F8E5M2, |v| u64::from(v.to_bits());
    i64, I64, |v| v as u64;
    i32, I32, |v| u64::from(v as u32);
    i16, I16, |v| u64::from(v as u16);
    i8, I8, |v| u64::from(v as u8);
    u64, U64, |v| v;
    u32, U32, |v| u64::from(v);
    u16, U16, |v| u64::from(v);
    u8, U8, |v| u64::from(v);
}
