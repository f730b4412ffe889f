//! Element types.

use crate::status::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// How the bits of a dtype are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// IEEE 754 binary64/32/16, bfloat16 or OCP E4M3 and E5M2.
    Float,
    /// Two's complement.
    Signed,
    /// Unsigned integer.
    Unsigned,
    /// One byte, 0 or 1.
    Bool,
}

macro_rules! dtypes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal, $size:literal, $class:ident;)*) => {
        /// The type of one element. The discriminant is the value that crosses the ABI.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum DType { $($(#[$doc])* $name = $code,)* }

        impl DType {
            /// Every dtype, in the order of the codes.
            pub const ALL: [DType; [$($code),*].len()] = [$(DType::$name),*];

            /// Bytes of one element.
            pub const fn size(self) -> usize {
                match self { $(DType::$name => $size,)* }
            }

            /// The name in texts: `f32`, `bool`, ….
            pub const fn name(self) -> &'static str {
                match self { $(DType::$name => $text,)* }
            }

            /// How its bits are read.
            pub const fn class(self) -> Class {
                match self { $(DType::$name => Class::$class,)* }
            }

            /// The dtype of an ABI code.
            pub const fn from_code(code: u32) -> Option<DType> {
                match code { $($code => Some(DType::$name),)* _ => None }
            }
        }

        impl FromStr for DType {
            type Err = Error;
            fn from_str(text: &str) -> Result<DType> {
                match text {
                    $($text => Ok(DType::$name),)*
                    _ => Err(Error::invalid_argument(format!("unknown dtype `{text}`"))),
                }
            }
        }
    };
}

dtypes! {
    /// IEEE binary64.
    F64 = 1, "f64", 8, Float;
    /// IEEE binary32.
    F32 = 2, "f32", 4, Float;
    /// IEEE binary16.
    F16 = 3, "f16", 2, Float;
    /// bfloat16.
    BF16 = 4, "bf16", 2, Float;
    /// 64-bit signed.
    I64 = 5, "i64", 8, Signed;
    /// 32-bit signed.
    I32 = 6, "i32", 4, Signed;
    /// 16-bit signed.
    I16 = 7, "i16", 2, Signed;
    /// 8-bit signed.
    I8 = 8, "i8", 1, Signed;
    /// 64-bit unsigned.
    U64 = 9, "u64", 8, Unsigned;
    /// 32-bit unsigned.
    U32 = 10, "u32", 4, Unsigned;
    /// 16-bit unsigned.
    U16 = 11, "u16", 2, Unsigned;
    /// 8-bit unsigned.
    U8 = 12, "u8", 1, Unsigned;
    /// Truth value: one byte, 0 or 1.
    Bool = 13, "bool", 1, Bool;
    /// OCP E4M3: 4 bits of exponent, 3 of mantissa, no infinity, up to 448. For storage.
    F8E4M3 = 14, "f8e4m3", 1, Float;
    /// OCP E5M2: 5 bits of exponent, 2 of mantissa, up to 57344. For storage.
    F8E5M2 = 15, "f8e5m2", 1, Float;
}

impl DType {
    /// f64, f32, f16, bf16, f8e4m3 or f8e5m2.
    pub const fn is_float(self) -> bool {
        matches!(self.class(), Class::Float)
    }

    /// f8e4m3 or f8e5m2: values are moved and cast, and nothing is computed in them.
    pub const fn is_storage(self) -> bool {
        matches!(self, DType::F8E4M3 | DType::F8E5M2)
    }

    /// A signed or unsigned integer.
    pub const fn is_integer(self) -> bool {
        matches!(self.class(), Class::Signed | Class::Unsigned)
    }

    /// The value that crosses the ABI.
    pub const fn code(self) -> u32 {
        self as u32
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
