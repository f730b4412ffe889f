//! Unsigned numbers that order elements.

use super::quick::Quick;
use half::{bf16, f16};

/// An unsigned number that orders elements.
pub(super) trait Digits: Copy + Ord + Send + Sync + 'static {
    const BITS: u32;
    /// A key of vectors in the same order, whose greatest value is that of the greatest number or none.
    type Wide: Quick;
    /// The greatest one.
    const LAST: Self;
    /// The lower 32 bits, which are all of a number that has no more.
    fn low(self) -> u32;
    fn of_low(low: u32) -> Self;
    fn wide(self) -> Self::Wide;
    fn of_wide(key: Self::Wide) -> Self;
    /// The digit of `bits` bits from `shift` on.
    fn digit(self, shift: u32, bits: u32) -> usize;
}

macro_rules! keys {
    ($($t:ty: $wide:ty, $flip:expr;)*) => {$(
        impl Digits for $t {
            const BITS: u32 = <$t>::BITS;
            type Wide = $wide;
            const LAST: $t = <$t>::MAX;
            #[inline(always)]
            fn low(self) -> u32 {
                self as u32
            }
            #[inline(always)]
            fn of_low(low: u32) -> $t {
                low as $t
            }
            #[inline(always)]
            fn wide(self) -> $wide {
                (self ^ $flip) as $wide
            }
            #[inline(always)]
            fn of_wide(key: $wide) -> $t {
                key as $t ^ $flip
            }
            #[inline(always)]
            fn digit(self, shift: u32, bits: u32) -> usize {
                (self >> shift) as usize & ((1 << bits) - 1)
            }
        }
    )*};
}
keys! {
    u8: i32, 0;
    u16: i32, 0;
    u32: i32, 1 << 31;
    u64: i64, 1 << 63;
}

/// An element with its key.
pub(super) trait Sortable: Copy + Send + Sync + 'static {
    type Key: Digits;
    /// The key of zeros when sorting upwards.
    const ZERO: Self::Key;
    /// Rises in the order of the sort. NaN has the greatest key of all, which no number has.
    fn key(self, descending: bool) -> Self::Key;
    /// The element of a key; `+0` of that of zeros.
    fn of_key(key: Self::Key, descending: bool) -> Self;
    fn is_nan(self) -> bool;
    /// Whether it is the zero that its key does not give back.
    fn is_minus_zero(self) -> bool;
}

macro_rules! floats {
    ($($t:ty, $bits:ty;)*) => {$(
        impl Sortable for $t {
            type Key = $bits;
            const ZERO: $bits = 1 << (<$bits>::BITS - 1);
            #[inline(always)]
            fn of_key(key: $bits, descending: bool) -> $t {
                const TOP: $bits = 1 << (<$bits>::BITS - 1);
                let key = if descending { !key } else { key };
                <$t>::from_bits(if key & TOP == 0 { !key } else { key ^ TOP })
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            #[inline(always)]
            fn is_minus_zero(self) -> bool {
                self.to_bits() == 1 << (<$bits>::BITS - 1)
            }
            #[inline(always)]
            fn key(self, descending: bool) -> $bits {
                const TOP: $bits = 1 << (<$bits>::BITS - 1);
                let bits = self.to_bits();
                // Both zeros are one key.
                let bits = if bits == TOP { 0 } else { bits };
                let key = if bits & TOP == 0 { bits | TOP } else { !bits };
                match (self.is_nan(), descending) {
                    (true, _) => <$bits>::MAX,
                    (false, true) => !key,
                    (false, false) => key,
                }
            }
        }
    )*};
}
floats! {
    f64, u64;
    f32, u32;
    f16, u16;
    bf16, u16;
}

macro_rules! integers {
    ($($t:ty, $bits:ty, $flip:expr;)*) => {$(
        impl Sortable for $t {
            type Key = $bits;
            const ZERO: $bits = $flip;
            #[inline(always)]
            fn of_key(key: $bits, descending: bool) -> $t {
                (if descending { !key } else { key } ^ $flip) as $t
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }
            #[inline(always)]
            fn is_minus_zero(self) -> bool {
                false
            }
            #[inline(always)]
            fn key(self, descending: bool) -> $bits {
                let key = (self as $bits) ^ $flip;
                if descending { !key } else { key }
            }
        }
    )*};
}
integers! {
    i64, u64, 1 << 63;
    i32, u32, 1 << 31;
    i16, u16, 1 << 15;
    i8, u8, 1 << 7;
    u64, u64, 0;
    u32, u32, 0;
    u16, u16, 0;
    u8, u8, 0;
}
