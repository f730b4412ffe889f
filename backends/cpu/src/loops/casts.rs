//! Conversions, and f16/bf16 in and out of blocks. Floats of 8 bits are converted from and to f32 alone.

use super::elementwise::{F1, LoopFn, map1};
use super::num::Num;
use super::{Held, with_type, with_word};
use crate::isa::Isa;
use crate::math;
use std::marker::PhantomData;
use thalweg_hal::f8::{F8E4M3, F8E5M2};
use thalweg_hal::{DType, narrow};

/// A Rust conversion that means what the IR's cast means.
trait To<R> {
    fn to(self) -> R;
}

macro_rules! as_casts {
    ($($from:ident)* => $to:tt) => {$( as_casts!(@row $from => $to); )*};
    (@row $from:ident => [$($to:ident)*]) => {$(
        impl To<$to> for $from {
            #[inline(always)]
            fn to(self) -> $to { self as $to }
        }
    )*};
}

as_casts!(i64 i32 i16 i8 u64 u32 u16 u8 => [f64 f32 i64 i32 i16 i8 u64 u32 u16 u8]);
as_casts!(f64 f32 => [f64 f32 u64 u32]);
as_casts!(f64 => [i32]);

macro_rules! by_i32 {
    ($($from:ident => $($to:ident)*;)*) => {$($(
        impl To<$to> for $from {
            /// By i32, because processors have no instruction from vectors of floats to vectors of narrow integers.
            #[inline(always)]
            fn to(self) -> $to {
                let (least, most) = ($from::from($to::MIN), $from::from($to::MAX));
                let number = if self.is_nan() { 0.0 } else { self };
                let above = if number > least { number } else { least };
                let inside = if above < most { above } else { most };
                // SAFETY: the number is between two that i32 has.
                (unsafe { inside.to_int_unchecked::<i32>() }) as $to
            }
        }
    )*)*};
}

macro_rules! whole {
    ($($from:ident => $to:ident, $end:literal;)*) => {$(
        impl To<$to> for $from {
            /// The largest number is none of the floats, so what is at least one more is chosen apart.
            #[inline(always)]
            fn to(self) -> $to {
                const END: $from = $end;
                let number = if self.is_nan() { 0.0 } else { self };
                let above = if number > -END { number } else { -END };
                let inside = if above < END { above } else { 0.0 };
                // SAFETY: the number is between two that the integer has.
                let whole = unsafe { inside.to_int_unchecked::<$to>() };
                if above < END { whole } else { $to::MAX }
            }
        }
    )*};
}

whole! {
    f32 => i32, 2_147_483_648.0;
    f32 => i64, 9_223_372_036_854_775_808.0;
    f64 => i64, 9_223_372_036_854_775_808.0;
}

by_i32! {
    f64 => i16 i8 u16 u8;
    f32 => i16 i8 u16 u8;
}

/// Where one side is a float that models compute with, the other's own set does not matter: quantized values are read and written so.
const fn widest<T: Num, R: Num>() -> Isa {
    match (T::IS_FLOAT, R::IS_FLOAT) {
        (true, true) => Isa::Avx512,
        (true, false) if size_of::<R>() != 2 => Isa::Avx512,
        (false, true) if size_of::<T>() != 2 => Isa::Avx512,
        _ => T::WIDEST.least(R::WIDEST),
    }
}

struct As<T, R>(PhantomData<(T, R)>);

impl<T, R> F1 for As<T, R>
where
    T: To<R> + Num,
    R: Num,
{
    type X = T;
    type R = R;
    const WIDEST: Isa = widest::<T, R>();
    #[inline(always)]
    fn f(x: T) -> R {
        x.to()
    }
}

struct Truth<T>(PhantomData<T>);

impl<T: Num> F1 for Truth<T> {
    type X = T;
    type R = u8;
    const WIDEST: Isa = T::WIDEST;
    #[inline(always)]
    fn f(x: T) -> u8 {
        u8::from(x != T::default())
    }
}

/// A 16-bit float format.
trait Narrow: 'static {
    fn widen(bits: u16) -> f32;
    fn round(x: f32) -> f32;
    fn bits(x: f32) -> u16;
    fn from_f64(x: f64) -> f32;
    fn from_i64(x: i64) -> f32;
    fn from_u64(x: u64) -> f32;
}

macro_rules! narrow_format {
    ($name:ident, $widen:ident, $round:ident, $bits:ident, $f64:ident, $i64:ident, $u64:ident) => {
        struct $name;
        impl Narrow for $name {
            #[inline(always)]
            fn widen(bits: u16) -> f32 {
                math::$widen(bits)
            }
            #[inline(always)]
            fn round(x: f32) -> f32 {
                math::$round(x)
            }
            #[inline(always)]
            fn bits(x: f32) -> u16 {
                math::$bits(x)
            }
            #[inline(always)]
            fn from_f64(x: f64) -> f32 {
                narrow::$f64(x).to_f32()
            }
            #[inline(always)]
            fn from_i64(x: i64) -> f32 {
                narrow::$i64(x).to_f32()
            }
            #[inline(always)]
            fn from_u64(x: u64) -> f32 {
                narrow::$u64(x).to_f32()
            }
        }
    };
}

narrow_format!(
    F16,
    f16_to_f32,
    f16_round,
    f32_to_f16,
    f16_from_f64,
    f16_from_i64,
    f16_from_u64
);
narrow_format!(
    BF16,
    bf16_to_f32,
    bf16_round,
    f32_to_bf16,
    bf16_from_f64,
    bf16_from_i64,
    bf16_from_u64
);

/// A conversion to a value that a 16-bit format holds exactly.
trait ToNarrow {
    fn to<N: Narrow>(self) -> f32;
}

macro_rules! to_narrow {
    ($($from:ident |$n:ident, $x:ident| $body:expr;)*) => {$(
        impl ToNarrow for $from {
            #[inline(always)]
            fn to<$n: Narrow>(self) -> f32 { let $x = self; $body }
        }
    )*};
}

to_narrow! {
    f64 |N, x| N::from_f64(x);
    f32 |N, x| N::round(x);
    i64 |N, x| N::from_i64(x);
    u64 |N, x| N::from_u64(x);
    i32 |N, x| N::from_f64(f64::from(x));
    u32 |N, x| N::from_f64(f64::from(x));
    i16 |N, x| N::round(f32::from(x));
    u16 |N, x| N::round(f32::from(x));
    i8 |N, x| N::round(f32::from(x));
    u8 |N, x| N::round(f32::from(x));
}

macro_rules! narrow_loops {
    ($($K:ident<$T:ident: $($bound:ident + $more:ident)?>, $X:ty => $R:ty $(, at $widest:expr)?, |$x:ident| $body:expr;)*) => {$(
        struct $K<N, T = ()>(PhantomData<(N, T)>);
        impl<N: Narrow, $T: 'static $(+ $bound + $more)?> F1 for $K<N, $T> where $X: Copy + Default {
            type X = $X;
            type R = $R;
            $(const WIDEST: Isa = $widest;)?
            #[inline(always)]
            fn f($x: $X) -> $R { $body }
        }
    )*};
}

narrow_loops! {
    Narrowing<T: ToNarrow + Num>, T => f32, at widest::<T, f32>(), |x| ToNarrow::to::<N>(x);
    Widen<T: >, u16 => f32, |x| N::widen(x);
    Pack<T: >, f32 => u16, |x| N::bits(N::round(x));
}

/// The loop that converts held values to `to`'s held values, neither of them floats of 8 bits; `None` where the bits stay the same.
pub(crate) fn cast(isa: Isa, from: Held, to: DType) -> Option<LoopFn> {
    match to {
        DType::F16 => return Some(with_type!(from, T => map1::<Narrowing<F16, T>>(isa))),
        DType::BF16 => return Some(with_type!(from, T => map1::<Narrowing<BF16, T>>(isa))),
        DType::Bool if from == Held::Bool => return None,
        DType::Bool => return Some(with_type!(from, T => map1::<Truth<T>>(isa))),
        _ => {}
    }
    let target = Held::of(to);
    let is_float = |h: Held| matches!(h, Held::F32 | Held::F64);
    if from == target || !is_float(from) && !is_float(target) && from.size() == target.size() {
        return None;
    }
    let signed = matches!(from, Held::I32 | Held::I16 | Held::I8);
    Some(match (from, target) {
        (Held::F64, _) => with_type!(target, R => map1::<As<f64, R>>(isa)),
        (Held::F32, _) => with_type!(target, R => map1::<As<f32, R>>(isa)),
        (_, Held::F64) => with_type!(from, T => map1::<As<T, f64>>(isa)),
        (_, Held::F32) => with_type!(from, T => map1::<As<T, f32>>(isa)),
        // The sign matters to the bits that are added, and to none that are cut off.
        _ if signed && target.size() > from.size() => thalweg_hal::match_type!(from, T =>
            with_word!(target, R => map1::<As<T, R>>(isa));
            Held::I32 => i32,
            Held::I16 => i16,
            Held::I8 => i8;
            else return None),
        _ => with_word!(from, T => with_word!(target, R => map1::<As<T, R>>(isa))),
    })
}

/// The loop from the memory of an f16 or bf16 to its held form; `None` for other types.
pub(crate) fn load_half(isa: Isa, dtype: DType) -> Option<LoopFn> {
    match dtype {
        DType::F16 => Some(map1::<Widen<F16>>(isa)),
        DType::BF16 => Some(map1::<Widen<BF16>>(isa)),
        _ => None,
    }
}

/// The loop that rounds f32 to an f16 or bf16 in memory; `None` for other types.
pub(crate) fn store_half(isa: Isa, dtype: DType) -> Option<LoopFn> {
    match dtype {
        DType::F16 => Some(map1::<Pack<F16>>(isa)),
        DType::BF16 => Some(map1::<Pack<BF16>>(isa)),
        _ => None,
    }
}

/// The loop that rounds f32 to values of an f16 or bf16; `None` for other types.
pub(crate) fn round_half(isa: Isa, dtype: DType) -> Option<LoopFn> {
    match dtype {
        DType::F16 => Some(map1::<Narrowing<F16, f32>>(isa)),
        DType::BF16 => Some(map1::<Narrowing<BF16, f32>>(isa)),
        _ => None,
    }
}

macro_rules! f8_loops {
    ($($unpack:ident, $pack:ident: $t:ty;)*) => {$(
        struct $unpack;
        impl F1 for $unpack {
            type X = u8;
            type R = f32;
            #[inline(always)]
            fn f(x: u8) -> f32 {
                <$t>::from_bits(x).to_f32()
            }
        }

        struct $pack;
        impl F1 for $pack {
            type X = f32;
            type R = u8;
            #[inline(always)]
            fn f(x: f32) -> u8 {
                <$t>::from_f32(x).to_bits()
            }
        }
    )*};
}

f8_loops! {
    UnpackE4M3, PackE4M3: F8E4M3;
    UnpackE5M2, PackE5M2: F8E5M2;
}

/// The loop from a float of 8 bits to f32; `None` for other types.
pub(crate) fn load_f8(isa: Isa, dtype: DType) -> Option<LoopFn> {
    match dtype {
        DType::F8E4M3 => Some(map1::<UnpackE4M3>(isa)),
        DType::F8E5M2 => Some(map1::<UnpackE5M2>(isa)),
        _ => None,
    }
}

/// The loop that rounds f32 to a float of 8 bits; `None` for other types.
pub(crate) fn store_f8(isa: Isa, dtype: DType) -> Option<LoopFn> {
    match dtype {
        DType::F8E4M3 => Some(map1::<PackE4M3>(isa)),
        DType::F8E5M2 => Some(map1::<PackE5M2>(isa)),
        _ => None,
    }
}

struct Odd;

impl F1 for Odd {
    type X = f64;
    type R = f32;
    #[inline(always)]
    fn f(x: f64) -> f32 {
        narrow::odd_from_f64(x)
    }
}

/// The loop from f64 to an f32 that rounds to any narrower float as the f64 does.
pub(crate) fn odd(isa: Isa) -> LoopFn {
    map1::<Odd>(isa)
}
