//! Element types.

use crate::status::{Error, Result};
use crate::tables::Capability;
use std::fmt;
use std::str::FromStr;

/// How the bits of a dtype are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Sign, exponent and mantissa, as IEEE 754 and its shorter kin have them.
    Float,
    /// Two's complement.
    Signed,
    /// Unsigned integer.
    Unsigned,
    /// One byte, 0 or 1.
    Bool,
}

/// What a dtype is, beside its code, name, size and class: the columns of its row.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Facts {
    /// Bits of mantissa that are stored; 0 for what is no float.
    pub mantissa: u32,
    /// Whether it is a float that has infinity; one that has not rounds what is too large to NaN.
    pub infinite: bool,
    /// Whether its values are moved and cast, and nothing is computed in them.
    pub storage: bool,
    /// The dtype that its arithmetic computes in before it rounds: itself, or f32 for narrower floats.
    pub computed: DType,
    /// The dtype that its sums are taken in: as wide as 32 bits at least.
    pub summed: DType,
    /// What a device without it lacks; every device with kernels has the others.
    pub capability: Option<Capability>,
    /// The name in printed tensors of other frameworks.
    pub long: &'static str,
    /// The name in files of NumPy; none where NumPy has no such type.
    pub numpy: Option<&'static str>,
    /// The name in files of safetensors.
    pub safetensors: &'static str,
    /// The code of its kind in DLPack.
    pub dlpack: u8,
}

impl Facts {
    /// What most dtypes have in common.
    const fn of(dtype: DType) -> Facts {
        Facts {
            mantissa: 0,
            infinite: dtype.is_float(),
            storage: false,
            computed: dtype,
            summed: dtype,
            capability: None,
            long: "",
            numpy: None,
            safetensors: "",
            dlpack: 0,
        }
    }
}

/// The Rust types of elements under one roof; `for_dtype!` and `every_dtype!` name them.
pub mod types {
    pub use crate::f8::*;
    pub use core::primitive::{bool, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64};
    pub use half::{bf16, f16};
}

/// Evaluates an expression with the Rust type that belongs to a value under a name, where not every dtype takes part or the
/// value is no [`DType`]. After `else` comes what all other values give.
///
/// ```
/// use thalweg_hal::{DType, match_type};
/// let widest = |dtype: DType| match_type!(dtype, T => T::MAX as u64; DType::U8 => u8, DType::U16 => u16; else 0);
/// assert_eq!([DType::U8, DType::U16, DType::F32].map(widest), [255, 65535, 0]);
/// ```
#[macro_export]
macro_rules! match_type {
    ($value:expr, $t:ident => $body:expr; $($($pattern:pat_param)|+ => $type:ty),+ $(,)? $(; else $other:expr)?) => {
        match $value {
            $($($pattern)|+ => {
                type $t = $type;
                $body
            })+
            $(_ => $other,)?
        }
    };
}

macro_rules! dtypes {
    ($d:tt $($(#[$doc:meta])* $name:ident = $code:literal, $text:literal, $type:ident, $class:ident { $($fact:ident: $value:expr),* };)*) => {
        /// The type of one element. The discriminant is the value that crosses the ABI.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum DType { $($(#[$doc])* $name = $code,)* }

        impl DType {
            /// Every dtype, in the order of the codes.
            pub const ALL: [DType; [$($code),*].len()] = [$(DType::$name),*];

            /// Bytes of one element.
            pub const fn size(self) -> usize {
                match self { $(DType::$name => size_of::<types::$type>(),)* }
            }

            /// The name in texts: `f32`, `bool`, ….
            pub const fn name(self) -> &'static str {
                match self { $(DType::$name => $text,)* }
            }

            /// How its bits are read.
            pub const fn class(self) -> Class {
                match self { $(DType::$name => Class::$class,)* }
            }

            /// The other columns of its row.
            pub const fn facts(self) -> &'static Facts {
                match self { $(DType::$name => const {
                    &Facts { $($fact: $value,)* ..Facts::of(DType::$name) }
                },)* }
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

        /// Evaluates an expression with the Rust type of a dtype under a name.
        ///
        /// ```
        /// use thalweg_hal::{DType, for_dtype};
        /// let bytes = |dtype: DType| for_dtype!(dtype, T => size_of::<T>());
        /// assert_eq!((bytes(DType::F16), bytes(DType::I64)), (2, 8));
        /// ```
        #[macro_export]
        macro_rules! for_dtype {
            ($d dtype:expr, $d t:ident => $d body:expr) => {
                match $d dtype {
                    $($crate::DType::$name => {
                        type $d t = $crate::dtype::types::$type;
                        $d body
                    })*
                }
            };
        }

        /// Calls a macro with a row for each dtype: its name in [`DType`], its Rust type in [`types`] and its [`Class`].
        ///
        /// ```
        /// macro_rules! names {
        ///     ($($name:ident $type:ident $class:ident;)*) => { [$(stringify!($type)),*] };
        /// }
        /// assert_eq!(thalweg_hal::every_dtype!(names)[..3], ["f64", "f32", "f16"]);
        /// ```
        #[macro_export]
        macro_rules! every_dtype {
            ($d call:ident) => {
                $d call! { $($name $type $class;)* }
            };
        }
    };
}

dtypes! { $
    /// IEEE binary64.
    F64 = 1, "f64", f64, Float {
        mantissa: 52, capability: Some(Capability::F64),
        long: "Float64", numpy: Some("<f8"), safetensors: "F64", dlpack: 2
    };
    /// IEEE binary32.
    F32 = 2, "f32", f32, Float {
        mantissa: 23, long: "Float32", numpy: Some("<f4"), safetensors: "F32", dlpack: 2
    };
    /// IEEE binary16.
    F16 = 3, "f16", f16, Float {
        mantissa: 10, computed: DType::F32, summed: DType::F32, capability: Some(Capability::F16),
        long: "Float16", numpy: Some("<f2"), safetensors: "F16", dlpack: 2
    };
    /// bfloat16.
    BF16 = 4, "bf16", bf16, Float {
        mantissa: 7, computed: DType::F32, summed: DType::F32, capability: Some(Capability::BF16),
        long: "BFloat16", numpy: Some("<V2"), safetensors: "BF16", dlpack: 4
    };
    /// 64-bit signed.
    I64 = 5, "i64", i64, Signed {
        long: "Int64", numpy: Some("<i8"), safetensors: "I64"
    };
    /// 32-bit signed.
    I32 = 6, "i32", i32, Signed {
        long: "Int32", numpy: Some("<i4"), safetensors: "I32"
    };
    /// 16-bit signed.
    I16 = 7, "i16", i16, Signed {
        summed: DType::I32, long: "Int16", numpy: Some("<i2"), safetensors: "I16"
    };
    /// 8-bit signed.
    I8 = 8, "i8", i8, Signed {
        summed: DType::I32, long: "Int8", numpy: Some("|i1"), safetensors: "I8"
    };
    /// 64-bit unsigned.
    U64 = 9, "u64", u64, Unsigned {
        long: "UInt64", numpy: Some("<u8"), safetensors: "U64", dlpack: 1
    };
    /// 32-bit unsigned.
    U32 = 10, "u32", u32, Unsigned {
        long: "UInt32", numpy: Some("<u4"), safetensors: "U32", dlpack: 1
    };
    /// 16-bit unsigned.
    U16 = 11, "u16", u16, Unsigned {
        summed: DType::U32, long: "UInt16", numpy: Some("<u2"), safetensors: "U16", dlpack: 1
    };
    /// 8-bit unsigned.
    U8 = 12, "u8", u8, Unsigned {
        summed: DType::U32, long: "UInt8", numpy: Some("|u1"), safetensors: "U8", dlpack: 1
    };
    /// Truth value: one byte, 0 or 1.
    Bool = 13, "bool", bool, Bool {
        long: "Bool", numpy: Some("|b1"), safetensors: "BOOL", dlpack: 6
    };
    /// OCP E4M3: 4 bits of exponent, 3 of mantissa, no infinity, up to 448. For storage.
    F8E4M3 = 14, "f8e4m3", F8E4M3, Float {
        mantissa: 3, infinite: false, storage: true, computed: DType::F32, capability: Some(Capability::F8),
        long: "Float8_e4m3fn", safetensors: "F8_E4M3", dlpack: 10
    };
    /// OCP E5M2: 5 bits of exponent, 2 of mantissa, up to 57344. For storage.
    F8E5M2 = 15, "f8e5m2", F8E5M2, Float {
        mantissa: 2, storage: true, computed: DType::F32, capability: Some(Capability::F8),
        long: "Float8_e5m2", safetensors: "F8_E5M2", dlpack: 12
    };
}

impl DType {
    /// A float of any width.
    pub const fn is_float(self) -> bool {
        matches!(self.class(), Class::Float)
    }

    /// Whether its values are moved and cast, and nothing is computed in them.
    pub const fn is_storage(self) -> bool {
        self.facts().storage
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
