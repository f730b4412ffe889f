//! The scalar ops on Rust's number types, exactly as the IR defines them.

use crate::isa::Isa;

/// Ops that every element type has.
pub(crate) trait Num: Copy + Default + PartialEq + PartialOrd + Send + Sync + 'static {
    /// A signed integer that orders values as max and min do; of 8 bits for those of 8, and otherwise 32 where they suffice.
    type Key: Copy + Ord + Into<i64>;
    const ZERO: Self;
    const ONE: Self;
    const IS_FLOAT: bool;
    /// The widest set that loops on it are compiled for. Integers of 16 bits, which models rarely compute with, have the baseline
    /// alone, so that the crate is compiled sooner.
    const WIDEST: Isa;
    /// The same of quotients: no set divides integers as vectors.
    const QUOTIENTS: Isa;
    /// Key of the least value that is not NaN, and of the greatest.
    const LEAST: Self::Key;
    const GREATEST: Self::Key;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    fn sign(self) -> Self;
    fn add(self, b: Self) -> Self;
    fn sub(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;
    fn div(self, b: Self) -> Self;
    fn rem(self, b: Self) -> Self;
    fn max(self, b: Self) -> Self;
    fn min(self, b: Self) -> Self;
    /// The key with NaN above everything (`TOP`) or below.
    fn key<const TOP: bool>(self) -> Self::Key;
    /// The value of a key; NaN where it is that of NaN.
    fn from_key(key: Self::Key) -> Self;
}

macro_rules! floats {
    ($($T:ident, $U:ident, $I:ident, $shift:literal;)*) => {$(
        impl Num for $T {
            type Key = $I;
            const IS_FLOAT: bool = true;
            const WIDEST: Isa = Isa::Avx512;
            const QUOTIENTS: Isa = Isa::Avx512;
            const ZERO: $T = 0.0;
            const ONE: $T = 1.0;
            const LEAST: $I = order($T::NEG_INFINITY.to_bits() as i64, $shift) as $I;
            const GREATEST: $I = $T::INFINITY.to_bits() as $I;
            #[inline(always)]
            fn neg(self) -> $T { -self }
            #[inline(always)]
            fn abs(self) -> $T { $T::from_bits(self.to_bits() & ($U::MAX >> 1)) }
            #[inline(always)]
            fn sign(self) -> $T {
                let s = if self > 0.0 { 1.0 } else { self };
                if self < 0.0 { -1.0 } else { s }
            }
            #[inline(always)]
            fn add(self, b: $T) -> $T { self + b }
            #[inline(always)]
            fn sub(self, b: $T) -> $T { self - b }
            #[inline(always)]
            fn mul(self, b: $T) -> $T { self * b }
            #[inline(always)]
            fn div(self, b: $T) -> $T { self / b }
            #[inline(always)]
            fn rem(self, b: $T) -> $T { self % b }
            #[inline(always)]
            fn max(self, b: $T) -> $T {
                let m = if self > b { self } else { b };
                let m = if self == b { $T::from_bits(self.to_bits() & b.to_bits()) } else { m };
                if self != self { self } else { m }
            }
            #[inline(always)]
            fn min(self, b: $T) -> $T {
                let m = if self < b { self } else { b };
                let m = if self == b { $T::from_bits(self.to_bits() | b.to_bits()) } else { m };
                if self != self { self } else { m }
            }
            #[inline(always)]
            fn key<const TOP: bool>(self) -> $I {
                let bits = self.to_bits() as $I;
                let key = bits ^ ((bits >> ($shift - 1)) & $I::MAX);
                if self != self { if TOP { $I::MAX } else { $I::MIN } } else { key }
            }
            #[inline(always)]
            fn from_key(key: $I) -> $T {
                $T::from_bits((key ^ ((key >> ($shift - 1)) & $I::MAX)) as $U)
            }
        }
    )*};
}

/// The order-preserving map of a sign-magnitude number of `width` bits, on sign-extended bits.
const fn order(bits: i64, width: u32) -> i64 {
    let bits = (bits << (64 - width)) >> (64 - width);
    bits ^ ((bits >> 63) & (i64::MAX >> (64 - width)))
}

floats! {
    f64, u64, i64, 64;
    f32, u32, i32, 32;
}

macro_rules! integers {
    ($($T:ident, $K:ident, $widest:expr, $bias:expr, $abs:expr, $sign:expr;)*) => {$(
        impl Num for $T {
            type Key = $K;
            const IS_FLOAT: bool = false;
            const WIDEST: Isa = $widest;
            const QUOTIENTS: Isa = Isa::Baseline;
            const ZERO: $T = 0;
            const ONE: $T = 1;
            const LEAST: $K = ($T::MIN as $K).wrapping_sub($bias);
            const GREATEST: $K = ($T::MAX as $K).wrapping_sub($bias);
            #[inline(always)]
            fn neg(self) -> $T { self.wrapping_neg() }
            #[inline(always)]
            fn abs(self) -> $T { let f: fn($T) -> $T = $abs; f(self) }
            #[inline(always)]
            fn sign(self) -> $T { let f: fn($T) -> $T = $sign; f(self) }
            #[inline(always)]
            fn add(self, b: $T) -> $T { self.wrapping_add(b) }
            #[inline(always)]
            fn sub(self, b: $T) -> $T { self.wrapping_sub(b) }
            #[inline(always)]
            fn mul(self, b: $T) -> $T { self.wrapping_mul(b) }
            #[inline(always)]
            fn div(self, b: $T) -> $T { if b == 0 { 0 } else { self.wrapping_div(b) } }
            #[inline(always)]
            fn rem(self, b: $T) -> $T { if b == 0 { 0 } else { self.wrapping_rem(b) } }
            #[inline(always)]
            fn max(self, b: $T) -> $T { if self > b { self } else { b } }
            #[inline(always)]
            fn min(self, b: $T) -> $T { if self < b { self } else { b } }
            #[inline(always)]
            fn key<const TOP: bool>(self) -> $K { (self as $K).wrapping_sub($bias) }
            #[inline(always)]
            fn from_key(key: $K) -> $T { key.wrapping_add($bias) as $T }
        }
    )*};
}

integers! {
    i64, i64, Isa::Avx2, 0, i64::wrapping_abs, i64::signum;
    i32, i32, Isa::Avx2, 0, i32::wrapping_abs, i32::signum;
    i16, i32, Isa::Baseline, 0, i16::wrapping_abs, i16::signum;
    i8, i8, Isa::Avx2, 0, i8::wrapping_abs, i8::signum;
    u64, i64, Isa::Avx2, i64::MIN, |x| x, |x| u64::from(x != 0);
    u32, i32, Isa::Avx2, i32::MIN, |x| x, |x| u32::from(x != 0);
    u16, i32, Isa::Baseline, 0, |x| x, |x| u16::from(x != 0);
    u8, i8, Isa::Avx2, i8::MIN, |x| x, |x| u8::from(x != 0);
}

/// Integer-only ops.
pub(crate) trait Int: Num {
    fn shl(self, b: Self) -> Self;
    fn shr(self, b: Self) -> Self;
    fn and(self, b: Self) -> Self;
    fn or(self, b: Self) -> Self;
    fn xor(self, b: Self) -> Self;
    fn not(self) -> Self;
}

macro_rules! bits {
    ($($T:ident, $U:ident, $fill:expr;)*) => {$(
        impl Int for $T {
            #[inline(always)]
            fn shl(self, b: $T) -> $T {
                let by = b as $U;
                if by < $U::BITS as $U { self << (by as u32 & ($U::BITS - 1)) } else { 0 }
            }
            #[inline(always)]
            fn shr(self, b: $T) -> $T {
                let by = b as $U;
                let f: fn($T) -> $T = $fill;
                if by < $U::BITS as $U { self >> (by as u32 & ($U::BITS - 1)) } else { f(self) }
            }
            #[inline(always)]
            fn and(self, b: $T) -> $T { self & b }
            #[inline(always)]
            fn or(self, b: $T) -> $T { self | b }
            #[inline(always)]
            fn xor(self, b: $T) -> $T { self ^ b }
            #[inline(always)]
            fn not(self) -> $T { !self }
        }
    )*};
}

bits! {
    i64, u64, |x| x >> 63;
    i32, u32, |x| x >> 31;
    i16, u16, |x| x >> 15;
    i8, u8, |x| x >> 7;
    u64, u64, |_| 0;
    u32, u32, |_| 0;
    u16, u16, |_| 0;
    u8, u8, |_| 0;
}

/// Float-only ops.
pub(crate) trait Float: Num {
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn trunc(self) -> Self;
    fn round(self) -> Self;
    fn sqrt(self) -> Self;
    fn fma(self, b: Self, c: Self) -> Self;
}

macro_rules! rounding {
    ($($T:ident)*) => {$(
        impl Float for $T {
            #[inline(always)]
            fn floor(self) -> $T { $T::floor(self) }
            #[inline(always)]
            fn ceil(self) -> $T { $T::ceil(self) }
            #[inline(always)]
            fn trunc(self) -> $T { $T::trunc(self) }
            #[inline(always)]
            fn round(self) -> $T { $T::round_ties_even(self) }
            #[inline(always)]
            fn sqrt(self) -> $T { $T::sqrt(self) }
            #[inline(always)]
            fn fma(self, b: $T, c: $T) -> $T { $T::mul_add(self, b, c) }
        }
    )*};
}

rounding! { f32 f64 }
