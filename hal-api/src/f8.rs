//! Floats of eight bits: rounded to nearest even, subnormals kept, beyond the largest number NaN or infinity.

use std::cmp::Ordering;
use std::fmt;

/// `bits` without their sign as f32 bits: the exponent moved to f32's bias, subnormals exact.
#[inline(always)]
const fn widened(size: u8, mantissa: u32, bias: u32) -> u32 {
    if size >> mantissa == 0 {
        // Of the floats that start here, the last bit is worth what a subnormal's is.
        let start = (127 + 24 - bias - mantissa) << 23;
        (f32::from_bits(start | size as u32) - f32::from_bits(start)).to_bits()
    } else {
        ((size as u32) << (23 - mantissa)) + ((127 - bias) << 23)
    }
}

/// The bits without sign that are nearest to `size`, which is no NaN and has none, as if the exponents went on for ever.
#[inline(always)]
const fn nearest(size: u32, mantissa: u32, bias: u32) -> u32 {
    let cut = 23 - mantissa;
    if size < (128 - bias) << 23 {
        let start = (127 + 24 - bias - mantissa) << 23;
        (f32::from_bits(size) + f32::from_bits(start)).to_bits() - start
    } else {
        (size + (1 << (cut - 1)) - 1 + (size >> cut & 1) - ((127 - bias) << 23)) >> cut
    }
}

macro_rules! floats {
    ($($(#[$doc:meta])* $name:ident: $mantissa:literal, $bias:literal, $past:literal, $nan:literal, $one:literal;)*) => { $(
        $(#[$doc])*
        ///
        /// ```
        #[doc = concat!("use thalweg_hal::f8::", stringify!($name), ";")]
        #[doc = concat!("assert_eq!(", stringify!($name), "::from_f32(1.05).to_f32(), ", stringify!($name), "::ONE.to_f32());")]
        /// ```
        #[derive(Clone, Copy, Default)]
        #[repr(transparent)]
        pub struct $name(u8);

        impl $name {
            /// One.
            pub const ONE: $name = $name($one);
            /// Not a number.
            pub const NAN: $name = $name($nan);
            /// The largest number.
            pub const MAX: $name = $name($past - 1);

            /// The float with these bits.
            #[inline]
            pub const fn from_bits(bits: u8) -> $name {
                $name(bits)
            }

            /// The bits.
            #[inline]
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// `value` rounded to nearest even.
            #[inline]
            pub const fn from_f32(value: f32) -> $name {
                let (bits, size) = (value.to_bits(), value.to_bits() & 0x7fff_ffff);
                let near = if size > 0x7f80_0000 { $nan } else { nearest(size, $mantissa, $bias) };
                let near = if size <= 0x7f80_0000 && near > $past { $past } else { near };
                $name((bits >> 24 & 0x80) as u8 | near as u8)
            }

            /// `value` rounded once, to nearest even.
            #[inline]
            pub fn from_f64(value: f64) -> $name {
                $name::from_f32(crate::narrow::odd_from_f64(value))
            }

            /// The exact value.
            #[inline]
            pub const fn to_f32(self) -> f32 {
                let size = self.0 & 0x7f;
                let wide = match () {
                    () if size > $past || $past == $nan && size == $nan => 0x7fc0_0000,
                    () if size == $past => 0x7f80_0000,
                    () => widened(size, $mantissa, $bias),
                };
                f32::from_bits((self.0 as u32 & 0x80) << 24 | wide)
            }

            /// The exact value.
            #[inline]
            pub fn to_f64(self) -> f64 {
                self.to_f32().into()
            }

            /// Whether it is not a number.
            #[inline]
            pub const fn is_nan(self) -> bool {
                self.to_f32().is_nan()
            }
        }

        impl From<$name> for f32 {
            fn from(value: $name) -> f32 {
                value.to_f32()
            }
        }

        impl From<$name> for f64 {
            fn from(value: $name) -> f64 {
                value.to_f64()
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &$name) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &$name) -> Option<Ordering> {
                self.to_f32().partial_cmp(&other.to_f32())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.to_f32(), f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.to_f32(), f)
            }
        }
    )* };
}

floats! {
    /// Four bits of exponent and three of mantissa, no infinity (OCP E4M3, "e4m3fn"): up to 448, in steps of 2⁻⁹ at zero.
    /// What would round to more is NaN.
    F8E4M3: 3, 7, 0x7f, 0x7f, 0x38;
    /// Five bits of exponent and two of mantissa (OCP E5M2): up to 57344, in steps of 2⁻¹⁶ at zero.
    F8E5M2: 2, 15, 0x7c, 0x7e, 0x3c;
}

#[cfg(test)]
mod tests;
