//! The scalar ops and reductions: one row each.

use crate::dtype::DType;
use std::fmt;

/// Which dtypes an op takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// f64, f32, f16, bf16.
    Float,
    /// Floats and integers.
    Number,
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

macro_rules! ops {
    ($(#[$top:meta])* $kind:ident { $($(#[$doc:meta])* $name:ident = $code:literal, $text:literal, $arity:literal, $accepts:ident, $returns:ident;)* }) => {
        $(#[$top])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum $kind { $($(#[$doc])* $name = $code,)* }

        impl $kind {
            /// Every op, in the order of the codes.
            pub const ALL: &'static [$kind] = &[$($kind::$name),*];

            /// The name in the text form.
            pub const fn name(self) -> &'static str {
                match self { $($kind::$name => $text,)* }
            }

            /// Number of arguments.
            pub const fn arity(self) -> usize {
                match self { $($kind::$name => $arity,)* }
            }

            /// Which dtypes it takes.
            pub const fn accepts(self) -> Accepts {
                match self { $($kind::$name => Accepts::$accepts,)* }
            }

            /// What it returns.
            pub const fn returns(self) -> Returns {
                match self { $($kind::$name => Returns::$returns,)* }
            }

            /// The op of an ABI code.
            pub const fn from_code(code: u32) -> Option<$kind> {
                match code { $($code => Some($kind::$name),)* _ => None }
            }

            /// The op of a name in the text form.
            pub fn from_name(name: &str) -> Option<$kind> {
                match name { $($text => Some($kind::$name),)* _ => None }
            }

            /// The value that crosses the ABI.
            pub const fn code(self) -> u32 { self as u32 }
        }

        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.name()) }
        }
    };
}

ops! {
    /// An op on scalars. Arguments have one dtype, but for the condition of `Select`.
    ScalarOp {
        /// `-x`.
        Neg = 1, "neg", 1, Number, Same;
        /// `|x|`; `MIN` stays `MIN`.
        Abs = 2, "abs", 1, Number, Same;
        /// -1, 0 or 1; NaN stays NaN, a signed zero stays itself.
        Sign = 3, "sign", 1, Number, Same;
        /// Bitwise complement; logical for bool.
        Not = 4, "not", 1, Bits, Same;
        /// Largest integral value not above x.
        Floor = 5, "floor", 1, Float, Same;
        /// Smallest integral value not below x.
        Ceil = 6, "ceil", 1, Float, Same;
        /// Integral part.
        Trunc = 7, "trunc", 1, Float, Same;
        /// Nearest integral value, ties to even.
        Round = 8, "round", 1, Float, Same;
        /// Correctly rounded square root.
        Sqrt = 9, "sqrt", 1, Float, Same;
        /// e^x.
        Exp = 10, "exp", 1, Float, Same;
        /// e^x - 1.
        Expm1 = 11, "expm1", 1, Float, Same;
        /// Natural logarithm.
        Log = 12, "log", 1, Float, Same;
        /// ln(1 + x).
        Log1p = 13, "log1p", 1, Float, Same;
        /// Sine of radians.
        Sin = 14, "sin", 1, Float, Same;
        /// Cosine of radians.
        Cos = 15, "cos", 1, Float, Same;
        /// Hyperbolic tangent.
        Tanh = 16, "tanh", 1, Float, Same;
        /// Error function.
        Erf = 17, "erf", 1, Float, Same;
        /// `a + b`.
        Add = 32, "add", 2, Number, Same;
        /// `a - b`.
        Sub = 33, "sub", 2, Number, Same;
        /// `a * b`.
        Mul = 34, "mul", 2, Number, Same;
        /// `a / b`.
        Div = 35, "div", 2, Number, Same;
        /// Remainder with the sign of `a` (C's `fmod` and `%`).
        Rem = 36, "rem", 2, Number, Same;
        /// `a` to the power `b`, as C's `pow`.
        Pow = 37, "pow", 2, Float, Same;
        /// Angle of the point (b, a), as C's `atan2(a, b)`.
        Atan2 = 38, "atan2", 2, Float, Same;
        /// The greater; NaN if either is NaN.
        Max = 39, "max", 2, Any, Same;
        /// The lesser; NaN if either is NaN.
        Min = 40, "min", 2, Any, Same;
        /// Bitwise and.
        And = 41, "and", 2, Bits, Same;
        /// Bitwise or.
        Or = 42, "or", 2, Bits, Same;
        /// Bitwise exclusive or.
        Xor = 43, "xor", 2, Bits, Same;
        /// Left shift; 0 when the unsigned value of `b` is the width or more.
        Shl = 44, "shl", 2, Integer, Same;
        /// Right shift, arithmetic for signed dtypes; a shift by the width or more fills with the sign bit (0 if unsigned).
        Shr = 45, "shr", 2, Integer, Same;
        /// `a == b`.
        Eq = 46, "eq", 2, Any, Bool;
        /// `a != b`.
        Ne = 47, "ne", 2, Any, Bool;
        /// `a < b`.
        Lt = 48, "lt", 2, Any, Bool;
        /// `a <= b`.
        Le = 49, "le", 2, Any, Bool;
        /// `a * b + c` rounded once.
        Fma = 64, "fma", 3, Float, Same;
        /// `if a { b } else { c }`; `a` is bool, `b` and `c` have one dtype.
        Select = 65, "select", 3, Moved, Same;
    }
}

ops! {
    /// A reduction over the inner space. Sums and products take 32- and 64-bit dtypes: cast first, so that the dtype of
    /// the accumulator is explicit.
    ReduceOp {
        /// Sum; 0 over nothing.
        Sum = 1, "sum", 1, Number, Same;
        /// Product; 1 over nothing.
        Prod = 2, "prod", 1, Number, Same;
        /// Maximum, NaN wins; -inf, MIN or false over nothing.
        Max = 3, "max", 1, Any, Same;
        /// Minimum, NaN wins; inf, MAX or true over nothing.
        Min = 4, "min", 1, Any, Same;
        /// Row-major inner index of the first maximum (of the first NaN if there is one); -1 over nothing.
        ArgMax = 5, "argmax", 1, Any, Index;
        /// Row-major inner index of the first minimum (of the first NaN if there is one); -1 over nothing.
        ArgMin = 6, "argmin", 1, Any, Index;
    }
}

impl ReduceOp {
    /// Whether this reduction takes `dtype`.
    pub const fn takes(self, dtype: DType) -> bool {
        match self {
            ReduceOp::Sum | ReduceOp::Prod => {
                matches!(
                    dtype,
                    DType::F64 | DType::F32 | DType::I64 | DType::I32 | DType::U64 | DType::U32
                )
            }
            ReduceOp::Max | ReduceOp::Min | ReduceOp::ArgMax | ReduceOp::ArgMin => !dtype.is_storage(),
        }
    }
}
