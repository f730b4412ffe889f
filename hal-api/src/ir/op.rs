//! The scalar ops and reductions: one row each.

use super::facts::{Accepts, Cost, Mixed, Operands, Returns, Rounding, Slope};
use crate::dtype::{Class, DType};
use crate::element::Element;
use crate::narrow::float_bits;
use std::fmt;

/// Defines ops. The columns after the name of the text form are [`Operands`], [`Accepts`] `->` [`Returns`], [`Rounding`],
/// [`Cost`], [`Mixed`] and [`Slope`].
macro_rules! scalar_ops {
    ($(#[$top:meta])* $kind:ident { $($(#[$doc:meta])* $name:ident = $code:literal, $text:literal, $operands:ident, $accepts:ident -> $returns:ident, $rounding:ident $(($ulps:literal))?, $cost:ident, $mixed:ident, $slope:ident;)* }) => {
        coded! { $(#[$top])* $kind { $($(#[$doc])* $name = $code, $text, $accepts -> $returns, $mixed, $slope;)* } }

        impl $kind {
            const fn operands(self) -> Operands {
                match self { $($kind::$name => Operands::$operands,)* }
            }

            /// How exact its result is.
            pub const fn rounding(self) -> Rounding {
                match self { $($kind::$name => Rounding::$rounding $(($ulps))?,)* }
            }

            /// What it costs.
            pub const fn cost(self) -> Cost {
                match self { $($kind::$name => Cost::$cost,)* }
            }
        }
    };
}

/// Defines reductions. The columns after the name of the text form are [`Accepts`] `->` [`Returns`], the scalar op that
/// combines, [`Mixed`] and [`Slope`].
macro_rules! reduce_ops {
    ($(#[$top:meta])* $kind:ident { $($(#[$doc:meta])* $name:ident = $code:literal, $text:literal, $accepts:ident -> $returns:ident, $combines:ident, $mixed:ident, $slope:ident;)* }) => {
        coded! { $(#[$top])* $kind { $($(#[$doc])* $name = $code, $text, $accepts -> $returns, $mixed, $slope;)* } }

        impl $kind {
            /// The scalar op that combines two values. Of those that return an index, the values beside the indices.
            pub const fn combines(self) -> ScalarOp {
                match self { $($kind::$name => ScalarOp::$combines,)* }
            }
        }
    };
}

/// What scalar ops and reductions have alike: an enum with codes and names.
macro_rules! coded {
    ($(#[$top:meta])* $kind:ident { $($(#[$doc:meta])* $name:ident = $code:literal, $text:literal, $accepts:ident -> $returns:ident, $mixed:ident, $slope:ident;)* }) => {
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

            /// Which dtypes it takes.
            pub const fn accepts(self) -> Accepts {
                match self { $($kind::$name => Accepts::$accepts,)* }
            }

            /// What it returns.
            pub const fn returns(self) -> Returns {
                match self { $($kind::$name => Returns::$returns,)* }
            }

            /// What mixed precision does with it.
            pub const fn mixed(self) -> Mixed {
                match self { $($kind::$name => Mixed::$mixed,)* }
            }

            /// Where it has a derivative.
            pub const fn slope(self) -> Slope {
                match self { $($kind::$name => Slope::$slope,)* }
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

scalar_ops! {
    /// An op on scalars. Arguments have one dtype, but for the condition of `Select`.
    ScalarOp {
        /// `-x`.
        Neg = 1, "neg", Unary, Number -> Same, Exact, Step, Narrow, Everywhere;
        /// `|x|`; `MIN` stays `MIN`.
        Abs = 2, "abs", Unary, Number -> Same, Exact, Step, Narrow, Everywhere;
        /// -1, 0 or 1; NaN stays NaN, a signed zero stays itself.
        Sign = 3, "sign", Unary, Number -> Same, Exact, Step, Narrow, Flat;
        /// Bitwise complement; logical for bool.
        Not = 4, "not", Unary, Bits -> Same, Exact, Step, Narrow, Flat;
        /// Largest integral value not above x.
        Floor = 5, "floor", Unary, Float -> Same, Exact, Step, Narrow, Flat;
        /// Smallest integral value not below x.
        Ceil = 6, "ceil", Unary, Float -> Same, Exact, Step, Narrow, Flat;
        /// Integral part.
        Trunc = 7, "trunc", Unary, Float -> Same, Exact, Step, Narrow, Flat;
        /// Nearest integral value, ties to even.
        Round = 8, "round", Unary, Float -> Same, Exact, Step, Narrow, Flat;
        /// Correctly rounded square root.
        Sqrt = 9, "sqrt", Unary, Float -> Same, Ulps(0), Quotient, Narrow, Positive;
        /// e^x.
        Exp = 10, "exp", Unary, Float -> Same, Ulps(3), Function, Full, Everywhere;
        /// e^x - 1.
        Expm1 = 11, "expm1", Unary, Float -> Same, Ulps(3), LongFunction, Full, Everywhere;
        /// Natural logarithm.
        Log = 12, "log", Unary, Float -> Same, Ulps(3), Function, Full, Positive;
        /// ln(1 + x).
        Log1p = 13, "log1p", Unary, Float -> Same, Ulps(2), LongFunction, Full, Positive;
        /// Sine of radians.
        Sin = 14, "sin", Unary, Float -> Same, Ulps(4), LongFunction, Narrow, Everywhere;
        /// Cosine of radians.
        Cos = 15, "cos", Unary, Float -> Same, Ulps(4), LongFunction, Narrow, Everywhere;
        /// Hyperbolic tangent.
        Tanh = 16, "tanh", Unary, Float -> Same, Ulps(5), Function, Narrow, Everywhere;
        /// Error function.
        Erf = 17, "erf", Unary, Float -> Same, Ulps(16), Function, Narrow, Everywhere;
        /// Cube root, of negative numbers too.
        Cbrt = 18, "cbrt", Unary, Float -> Same, Ulps(2), LongFunction, Narrow, Positive;
        /// `a + b`.
        Add = 32, "add", Commuting, Number -> Same, Ulps(0), Step, Narrow, Everywhere;
        /// `a - b`.
        Sub = 33, "sub", Binary, Number -> Same, Ulps(0), Step, Narrow, Everywhere;
        /// `a * b`.
        Mul = 34, "mul", Commuting, Number -> Same, Ulps(0), Step, Narrow, Everywhere;
        /// `a / b`.
        Div = 35, "div", Binary, Number -> Same, Ulps(0), Quotient, Narrow, Everywhere;
        /// Remainder with the sign of `a` (C's `fmod` and `%`).
        Rem = 36, "rem", Binary, Number -> Same, Ulps(0), Remainder, Narrow, Everywhere;
        /// `a` to the power `b`, as C's `pow`.
        Pow = 37, "pow", Binary, Float -> Same, Ulps(16), Power, Full, Everywhere;
        /// Angle of the point (b, a), as C's `atan2(a, b)`.
        Atan2 = 38, "atan2", Binary, Float -> Same, Ulps(6), Power, Narrow, Everywhere;
        /// The greater; NaN if either is NaN.
        Max = 39, "max", Commuting, Any -> Same, Exact, Step, Narrow, Everywhere;
        /// The lesser; NaN if either is NaN.
        Min = 40, "min", Commuting, Any -> Same, Exact, Step, Narrow, Everywhere;
        /// Bitwise and.
        And = 41, "and", Commuting, Bits -> Same, Exact, Step, Narrow, Flat;
        /// Bitwise or.
        Or = 42, "or", Commuting, Bits -> Same, Exact, Step, Narrow, Flat;
        /// Bitwise exclusive or.
        Xor = 43, "xor", Commuting, Bits -> Same, Exact, Step, Narrow, Flat;
        /// Left shift; 0 when the unsigned value of `b` is the width or more.
        Shl = 44, "shl", Binary, Integer -> Same, Exact, Step, Narrow, Flat;
        /// Right shift, arithmetic for signed dtypes; a shift by the width or more fills with the sign bit (0 if unsigned).
        Shr = 45, "shr", Binary, Integer -> Same, Exact, Step, Narrow, Flat;
        /// `a == b`.
        Eq = 46, "eq", Commuting, Any -> Bool, Exact, Step, Narrow, Flat;
        /// `a != b`.
        Ne = 47, "ne", Commuting, Any -> Bool, Exact, Step, Narrow, Flat;
        /// `a < b`.
        Lt = 48, "lt", Binary, Any -> Bool, Exact, Step, Narrow, Flat;
        /// `a <= b`.
        Le = 49, "le", Binary, Any -> Bool, Exact, Step, Narrow, Flat;
        /// `a * b + c` rounded once.
        Fma = 64, "fma", Ternary, Float -> Same, Ulps(0), Step, Narrow, Everywhere;
        /// `if a { b } else { c }`; `a` is bool, `b` and `c` have one dtype.
        Select = 65, "select", Ternary, Moved -> Same, Exact, Step, Kept, Everywhere;
    }
}

reduce_ops! {
    /// A reduction over the inner space. Sums and products take 32- and 64-bit dtypes: cast first, so that the dtype of
    /// the accumulator is explicit.
    ReduceOp {
        /// Sum; 0 over nothing.
        Sum = 1, "sum", Wide -> Same, Add, Full, Everywhere;
        /// Product; 1 over nothing.
        Prod = 2, "prod", Wide -> Same, Mul, Full, Everywhere;
        /// Maximum, NaN wins; -inf, MIN or false over nothing.
        Max = 3, "max", Any -> Same, Max, Kept, Everywhere;
        /// Minimum, NaN wins; inf, MAX or true over nothing.
        Min = 4, "min", Any -> Same, Min, Kept, Everywhere;
        /// Row-major inner index of the first maximum (of the first NaN if there is one); -1 over nothing.
        ArgMax = 5, "argmax", Any -> Index, Max, Kept, Flat;
        /// Row-major inner index of the first minimum (of the first NaN if there is one); -1 over nothing.
        ArgMin = 6, "argmin", Any -> Index, Min, Kept, Flat;
    }
}

impl ScalarOp {
    /// Number of arguments.
    pub const fn arity(self) -> usize {
        match self.operands() {
            Operands::Unary => 1,
            Operands::Binary | Operands::Commuting => 2,
            Operands::Ternary => 3,
        }
    }

    /// Whether the order of its two arguments changes no bit but those of NaN.
    pub const fn commutes(self) -> bool {
        matches!(self.operands(), Operands::Commuting)
    }

    /// Whether a result may lie between two values of its dtype. An op on f16 or bf16 that computes in f32 rounds then.
    pub const fn rounds(self) -> bool {
        matches!(self.rounding(), Rounding::Ulps(_))
    }
}

impl ReduceOp {
    /// Whether this reduction takes `dtype`.
    pub const fn takes(self, dtype: DType) -> bool {
        self.accepts().takes(dtype)
    }

    /// Whether values are summed or multiplied, so that they round on the way and their order matters.
    pub const fn rounds(self) -> bool {
        self.combines().rounds()
    }

    /// Bits of the value that changes nothing when it is combined: what the reduction gives over nothing, but for an index.
    pub fn identity(self, dtype: DType) -> u64 {
        let width = 8 * dtype.size() as u32;
        let (all, top) = (u64::MAX >> (64 - width), 1_u64 << (width - 1));
        let infinity = float_bits(dtype, f64::INFINITY);
        let one = for_dtype!(dtype, T => <T as Element>::from_f64(1.0).bits());
        match (self, dtype.class()) {
            (ReduceOp::Sum, _) => 0,
            (ReduceOp::Prod, _) => one,
            (ReduceOp::Max | ReduceOp::ArgMax, Class::Float) => infinity | top,
            (ReduceOp::Max | ReduceOp::ArgMax, Class::Signed) => top,
            (ReduceOp::Max | ReduceOp::ArgMax, Class::Unsigned | Class::Bool) => 0,
            (ReduceOp::Min | ReduceOp::ArgMin, Class::Float) => infinity,
            (ReduceOp::Min | ReduceOp::ArgMin, Class::Signed) => top - 1,
            (ReduceOp::Min | ReduceOp::ArgMin, Class::Unsigned) => all,
            (ReduceOp::Min | ReduceOp::ArgMin, Class::Bool) => 1,
        }
    }
}
