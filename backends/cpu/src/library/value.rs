//! Elements in memory and what they are combined in.

use crate::loops::num::Num;
use half::{bf16, f16};
use thalweg_hal::{DType, Error, Result};

/// An element type of scatter and scan.
pub(super) trait Value: Copy + Send + Sync + 'static {
    /// What it combines in: itself, or f32 for the short floats.
    type Acc: Num;
    fn widen(self) -> Self::Acc;
    fn narrow(acc: Self::Acc) -> Self;
}

macro_rules! plain {
    ($($t:ty)*) => {$(
        impl Value for $t {
            type Acc = $t;
            #[inline(always)]
            fn widen(self) -> $t {
                self
            }
            #[inline(always)]
            fn narrow(acc: $t) -> $t {
                acc
            }
        }
    )*};
}
plain!(f64 f32 i64 i32 i16 i8 u64 u32 u16 u8);

macro_rules! short {
    ($($t:ty)*) => {$(
        impl Value for $t {
            type Acc = f32;
            #[inline(always)]
            fn widen(self) -> f32 {
                self.to_f32()
            }
            #[inline(always)]
            fn narrow(acc: f32) -> $t {
                <$t>::from_f32(acc)
            }
        }
    )*};
}
short!(f16 bf16);

/// Evaluates an expression with the type that holds a dtype in memory; truth values and floats for storage are bytes.
macro_rules! with_value {
    ($dtype:expr, $T:ident => $go:expr) => {
        thalweg_hal::match_type!($dtype, $T => $go;
            thalweg_hal::DType::F64 => f64,
            thalweg_hal::DType::F32 => f32,
            thalweg_hal::DType::F16 => half::f16,
            thalweg_hal::DType::BF16 => half::bf16,
            thalweg_hal::DType::I64 => i64,
            thalweg_hal::DType::I32 => i32,
            thalweg_hal::DType::I16 => i16,
            thalweg_hal::DType::I8 => i8,
            thalweg_hal::DType::U64 => u64,
            thalweg_hal::DType::U32 => u32,
            thalweg_hal::DType::U16 => u16,
            thalweg_hal::DType::U8
            | thalweg_hal::DType::Bool
            | thalweg_hal::DType::F8E4M3
            | thalweg_hal::DType::F8E5M2 => u8,
        )
    };
}
pub(super) use with_value;

/// As [`with_value`], for sums and products: those of integers wrap, so unsigned numbers have the same bits as signed ones.
macro_rules! with_sum {
    ($dtype:expr, $T:ident => $go:expr) => {
        thalweg_hal::match_type!($dtype, $T => $go;
            thalweg_hal::DType::F64 => f64,
            thalweg_hal::DType::F32 => f32,
            thalweg_hal::DType::F16 => half::f16,
            thalweg_hal::DType::BF16 => half::bf16,
            thalweg_hal::DType::I64 | thalweg_hal::DType::U64 => i64,
            thalweg_hal::DType::I32 | thalweg_hal::DType::U32 => i32,
            thalweg_hal::DType::I16 | thalweg_hal::DType::U16 => i16,
            thalweg_hal::DType::I8
            | thalweg_hal::DType::U8
            | thalweg_hal::DType::Bool
            | thalweg_hal::DType::F8E4M3
            | thalweg_hal::DType::F8E5M2 => i8,
        )
    };
}
pub(super) use with_sum;

/// Whether combining elements of `dtype` in `Value::Acc` is combining them in `accumulate`: sums and products of integers
/// wrap to the same bits in any width, and maxima are one of the elements.
pub(super) fn accumulates(name: &str, dtype: DType, accumulate: DType, sums: bool) -> Result<()> {
    let same = match dtype {
        DType::F64 | DType::F32 => accumulate == dtype,
        DType::F16 | DType::BF16 => accumulate == DType::F32 || (!sums && accumulate == dtype),
        DType::Bool => accumulate == dtype && !sums,
        _ if dtype.is_storage() => false,
        _ => accumulate == dtype || (sums && accumulate.is_integer() && accumulate.size() >= dtype.size()),
    };
    if same {
        Ok(())
    } else {
        Err(Error::unsupported(format!(
            "{name} of {dtype} accumulated in {accumulate}; lower it"
        )))
    }
}
