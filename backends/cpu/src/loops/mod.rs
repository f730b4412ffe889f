//! Vector loops: every scalar op over one block, for every element type and instruction set.
//!
//! A loop reads whole blocks or single values (`Form`) and writes a block. Results depend on the element alone, never
//! on its place in the block.

mod casts;
mod chosen;
mod elementwise;
pub(crate) mod num;
mod philox;
mod reduce;
mod tables;

pub(crate) use casts::{cast, load_f8, load_half, odd, round_half, store_f8, store_half};
pub(crate) use chosen::{ChosenFn, ChosenWindows, chosen_of};
pub(crate) use elementwise::{LoopFn, copy, fill};
pub(crate) use philox::philox;
pub(crate) use reduce::{
    Best, CHUNK, LANES, LONG, LineFn, Lines, Reduction, SEGMENT, SLACK, WindowsFn, reduction,
};
#[cfg(test)]
pub(crate) use tables::FUNCTIONS;
pub(crate) use tables::{binary, fma, from_the_end, select, unary};

use thalweg_hal::DType;

/// How a value stands in a block: f16 and bf16 are widened to f32, floats of 8 bits are their bits, bool is a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    F64,
    F32,
    I64,
    I32,
    I16,
    I8,
    U64,
    U32,
    U16,
    U8,
    Bool,
}

impl Held {
    pub(crate) fn of(dtype: DType) -> Held {
        match dtype {
            DType::F64 => Held::F64,
            DType::F32 | DType::F16 | DType::BF16 => Held::F32,
            DType::I64 => Held::I64,
            DType::I32 => Held::I32,
            DType::I16 => Held::I16,
            DType::I8 => Held::I8,
            DType::U64 => Held::U64,
            DType::U32 => Held::U32,
            DType::U16 => Held::U16,
            DType::U8 | DType::F8E4M3 | DType::F8E5M2 => Held::U8,
            DType::Bool => Held::Bool,
        }
    }

    pub(crate) fn size(self) -> usize {
        match self {
            Held::F64 | Held::I64 | Held::U64 => 8,
            Held::F32 | Held::I32 | Held::U32 => 4,
            Held::I16 | Held::U16 => 2,
            Held::I8 | Held::U8 | Held::Bool => 1,
        }
    }
}

/// Evaluates `$go` with `$T` as the Rust type of a `Held`.
macro_rules! with_type {
    ($held:expr, $T:ident => $go:expr) => {
        thalweg_hal::match_type!($held, $T => $go;
            $crate::loops::Held::F64 => f64,
            $crate::loops::Held::F32 => f32,
            $crate::loops::Held::I64 => i64,
            $crate::loops::Held::I32 => i32,
            $crate::loops::Held::I16 => i16,
            $crate::loops::Held::I8 => i8,
            $crate::loops::Held::U64 => u64,
            $crate::loops::Held::U32 => u32,
            $crate::loops::Held::U16 => u16,
            $crate::loops::Held::U8 | $crate::loops::Held::Bool => u8,
        )
    };
}
pub(crate) use with_type;

/// As [`with_type`], for what an integer's sign does not matter to: loops are compiled for those without one.
macro_rules! with_bits {
    ($held:expr, $T:ident => $go:expr) => {
        thalweg_hal::match_type!($held, $T => $go;
            $crate::loops::Held::F64 => f64,
            $crate::loops::Held::F32 => f32,
            $crate::loops::Held::I64 | $crate::loops::Held::U64 => u64,
            $crate::loops::Held::I32 | $crate::loops::Held::U32 => u32,
            $crate::loops::Held::I16 | $crate::loops::Held::U16 => u16,
            $crate::loops::Held::I8 | $crate::loops::Held::U8 | $crate::loops::Held::Bool => u8,
        )
    };
}
pub(crate) use with_bits;

/// As [`with_bits`], of integers and bool; the function around it returns `None` for floats.
macro_rules! with_word {
    ($held:expr, $T:ident => $go:expr) => {
        thalweg_hal::match_type!($held, $T => $go;
            $crate::loops::Held::I64 | $crate::loops::Held::U64 => u64,
            $crate::loops::Held::I32 | $crate::loops::Held::U32 => u32,
            $crate::loops::Held::I16 | $crate::loops::Held::U16 => u16,
            $crate::loops::Held::I8 | $crate::loops::Held::U8 | $crate::loops::Held::Bool => u8;
            else return None)
    };
}
pub(crate) use with_word;
