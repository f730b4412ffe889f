//! What a row of an op says. A column has no default, so that a new row answers each question.

use crate::dtype::DType;

/// Which dtypes an op takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// f64, f32, f16, bf16.
    Float,
    /// Floats and integers.
    Number,
    /// Floats and integers of 32 and 64 bits.
    Wide,
    /// Integers.
    Integer,
    /// Integers and bool.
    Bits,
    /// Every dtype but those for storage.
    Any,
    /// Every dtype: values are moved.
    Moved,
}

impl Accepts {
    /// Whether `dtype` is in the class.
    pub const fn takes(self, dtype: DType) -> bool {
        match self {
            Accepts::Moved => true,
            _ if dtype.is_storage() => false,
            Accepts::Float => dtype.is_float(),
            Accepts::Number => dtype.is_float() || dtype.is_integer(),
            Accepts::Wide => dtype.size() >= 4,
            Accepts::Integer => dtype.is_integer(),
            Accepts::Bits => !dtype.is_float(),
            Accepts::Any => true,
        }
    }
}

/// The dtype that an op returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// That of its (last) argument.
    Same,
    /// bool.
    Bool,
    /// i64.
    Index,
}

/// How many operands an op has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operands {
    /// One.
    Unary,
    /// Two.
    Binary,
    /// Two, and their order changes no bit but those of NaN.
    Commuting,
    /// Three.
    Ternary,
}

/// What lies between the exact result and the one that a backend returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Nothing: the exact result is a value of the dtype. An op on f16 that computes in f32 needs no rounding afterwards.
    Exact,
    /// Rounding, and at most so many units in the last place of f32 and f64; 0 where the result is correctly rounded.
    /// f16 and bf16 may err by one unit where this is not 0.
    Ulps(u8),
}

/// What an op costs beside an addition, roughly, on any device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// About one instruction: cheaper to compute again than to store.
    Step,
    /// A quotient or a root.
    Quotient,
    /// A function of the C library, by a short polynomial.
    Function,
    /// A function with a longer polynomial or more than one case.
    LongFunction,
    /// A function of two numbers.
    Power,
    /// A remainder of floats.
    Remainder,
}

impl Cost {
    /// Whether devices compute it by a function of the C library.
    pub const fn is_function(self) -> bool {
        match self {
            Cost::Function | Cost::LongFunction | Cost::Power => true,
            Cost::Step | Cost::Quotient | Cost::Remainder => false,
        }
    }
}

/// What mixed precision does with an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mixed {
    /// It may run on floats of 16 bits.
    Narrow,
    /// It loses too much in 16 bits: f32 at least.
    Full,
    /// It chooses among its operands: the dtype stays.
    Kept,
}

/// Where an op has a derivative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slope {
    /// Nowhere, or it is 0.
    Flat,
    /// Almost everywhere.
    Everywhere,
    /// For positive operands; what holds elsewhere the op's gradient says.
    Positive,
}
