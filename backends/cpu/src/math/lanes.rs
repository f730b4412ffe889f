//! What the functions of f32 are written over.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// A number of f32, or what stands for one: the values of a generated kernel.
///
/// Every implementation computes the bits of `f32`, but for those of NaN.
pub(crate) trait Lanes:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Neg<Output = Self>
{
    /// Its bits, with the arithmetic of `i32`, wrapping.
    type Bits: Copy;
    /// The answer of a comparison.
    type Mask: Copy;
    /// A constant for computing with `self`.
    fn splat(self, c: f32) -> Self;
    /// `self * b + c`, rounded once.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// `c - self * b`, rounded once.
    fn taken_from(self, b: Self, c: Self) -> Self;
    /// `self < b`.
    fn less(self, b: Self) -> Self::Mask;
    /// `self <= b`.
    fn at_most(self, b: Self) -> Self::Mask;
    /// `self == b`.
    fn equals(self, b: Self) -> Self::Mask;
    /// `if mask { a } else { b }`.
    fn choose(mask: Self::Mask, a: Self, b: Self) -> Self;
    /// Without its sign.
    fn magnitude(self) -> Self;
    /// With the sign of `sign`, for a number that has no sign or the same.
    fn signed_as(self, sign: Self) -> Self;
    fn bits(self) -> Self::Bits;
    fn from_bits(bits: Self::Bits) -> Self;
    /// `a - b`.
    fn minus(a: Self::Bits, b: Self::Bits) -> Self::Bits;
    /// `a - c`.
    fn minus_constant(a: Self::Bits, c: i32) -> Self::Bits;
    /// `a & c`.
    fn and_constant(a: Self::Bits, c: i32) -> Self::Bits;
    /// `a << N`.
    fn shift_left<const N: u8>(a: Self::Bits) -> Self::Bits;
    /// `a >> N`, arithmetic.
    fn shift_right<const N: u8>(a: Self::Bits) -> Self::Bits;
    /// As a float.
    fn float(a: Self::Bits) -> Self;
    /// The instruction for `p * 2^n`, rounded once, if there is one.
    fn scale(self) -> Option<fn(p: Self, n: Self) -> Self>;
}

impl Lanes for f32 {
    type Bits = i32;
    type Mask = bool;

    #[inline(always)]
    fn splat(self, c: f32) -> f32 {
        c
    }

    #[inline(always)]
    fn mul_add(self, b: f32, c: f32) -> f32 {
        f32::mul_add(self, b, c)
    }

    #[inline(always)]
    fn taken_from(self, b: f32, c: f32) -> f32 {
        f32::mul_add(-self, b, c)
    }

    #[inline(always)]
    fn less(self, b: f32) -> bool {
        self < b
    }

    #[inline(always)]
    fn at_most(self, b: f32) -> bool {
        self <= b
    }

    #[inline(always)]
    fn equals(self, b: f32) -> bool {
        self == b
    }

    #[inline(always)]
    fn choose(mask: bool, a: f32, b: f32) -> f32 {
        if mask { a } else { b }
    }

    #[inline(always)]
    fn magnitude(self) -> f32 {
        self.abs()
    }

    #[inline(always)]
    fn signed_as(self, sign: f32) -> f32 {
        f32::from_bits(self.to_bits() | sign.to_bits() & 1 << 31)
    }

    #[inline(always)]
    fn bits(self) -> i32 {
        self.to_bits().cast_signed()
    }

    #[inline(always)]
    fn from_bits(bits: i32) -> f32 {
        f32::from_bits(bits.cast_unsigned())
    }

    #[inline(always)]
    fn minus(a: i32, b: i32) -> i32 {
        a.wrapping_sub(b)
    }

    #[inline(always)]
    fn minus_constant(a: i32, c: i32) -> i32 {
        a.wrapping_sub(c)
    }

    #[inline(always)]
    fn and_constant(a: i32, c: i32) -> i32 {
        a & c
    }

    #[inline(always)]
    fn shift_left<const N: u8>(a: i32) -> i32 {
        a << N
    }

    #[inline(always)]
    fn shift_right<const N: u8>(a: i32) -> i32 {
        a >> N
    }

    #[inline(always)]
    fn float(a: i32) -> f32 {
        a as f32
    }

    #[inline(always)]
    fn scale(self) -> Option<fn(f32, f32) -> f32> {
        None
    }
}

/// 2^n for n in -126..=127.
#[inline(always)]
pub(super) fn power(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}
