//! From an op and an element type to its loop.

use super::elementwise::{F1, F2, F3, LoopFn, map1, map2, map3};
use super::num::{Float, Int, Num};
use super::{Held, with_bits, with_type, with_word};
use crate::isa::Isa;
use crate::math::{self, quotient};
use std::marker::PhantomData;
use thalweg_hal::ir::ScalarOp;

macro_rules! generic1 {
    ($($K:ident: $bound:ident, |$x:ident| $body:expr;)*) => {$(
        struct $K<T>(PhantomData<T>);
        impl<T: $bound> F1 for $K<T> {
            type X = T;
            type R = T;
            const WIDEST: Isa = T::WIDEST;
            #[inline(always)]
            fn f($x: T) -> T { $body }
        }
    )*};
}

generic1! {
    Neg: Num, |x| x.neg();
    Abs: Num, |x| x.abs();
    Sign: Num, |x| x.sign();
    Not: Int, |x| x.not();
    Floor: Float, |x| x.floor();
    Ceil: Float, |x| x.ceil();
    Trunc: Float, |x| x.trunc();
    Round: Float, |x| x.round();
    Sqrt: Float, |x| x.sqrt();
}

struct NotBool;

impl F1 for NotBool {
    type X = u8;
    type R = u8;
    const HEAVY: bool = true;
    #[inline(always)]
    fn f(x: u8) -> u8 {
        x ^ 1
    }
}

/// Functions of one number in f32 and in f64. `unless` says for which numbers one does not hold, and which does.
macro_rules! functions {
    ($($op:ident: $f32:expr $(, unless $is_slow:path => $slow:path)?; $f64:path $(, unless $is_slow64:path => $slow64:path)?;)*) => {
        mod single {
            $(pub(super) struct $op;)*
        }
        mod double {
            $(pub(super) struct $op;)*
        }
        $(
            impl F1 for single::$op {
                type X = f32;
                type R = f32;
                const HEAVY: bool = true;
                #[inline(always)]
                fn f(x: f32) -> f32 {
                    let function = $f32;
                    function(x)
                }
                $(
                    #[inline(always)]
                    fn is_slow(x: f32) -> bool { $is_slow(x) }
                    fn slow(x: f32) -> f32 { $slow(x) }
                )?
            }
            impl F1 for double::$op {
                type X = f64;
                type R = f64;
                const HEAVY: bool = true;
                #[inline(always)]
                fn f(x: f64) -> f64 { $f64(x) }
                $(
                    #[inline(always)]
                    fn is_slow(x: f64) -> bool { $is_slow64(x) }
                    fn slow(x: f64) -> f64 { $slow64(x) }
                )?
            }
        )*

        fn function(isa: Isa, op: ScalarOp, held: Held) -> Option<LoopFn> {
            match (op, held) {
                $(
                    (ScalarOp::$op, Held::F32) => Some(map1::<single::$op>(isa)),
                    (ScalarOp::$op, Held::F64) => Some(map1::<double::$op>(isa)),
                )*
                _ => None,
            }
        }

        /// The functions in this table, one number at a time.
        #[cfg(test)]
        pub(crate) const FUNCTIONS: &[(ScalarOp, fn(f32) -> f32, fn(f64) -> f64)] = &[$((
            ScalarOp::$op,
            |x| {
                $(if $is_slow(x) {
                    return $slow(x);
                })?
                <single::$op as F1>::f(x)
            },
            |x| {
                $(if $is_slow64(x) {
                    return $slow64(x);
                })?
                $f64(x)
            },
        ),)*];
    };
}

functions! {
    Exp: math::exp32; math::exp64;
    Expm1: math::expm1_32; libm::expm1;
    Log: math::log32; math::log64;
    Log1p: math::log1p_32; libm::log1p;
    Sin: math::sin32, unless math::trig32_is_slow => math::sin32_slow;
        math::sin64, unless math::trig64_is_slow => libm::sin;
    Cos: math::cos32, unless math::trig32_is_slow => math::cos32_slow;
        math::cos64, unless math::trig64_is_slow => libm::cos;
    Tanh: math::tanh32; libm::tanh;
    Erf: math::erf32; libm::erf;
    Cbrt: math::cbrt32; libm::cbrt;
}

macro_rules! generic2 {
    ($($K:ident: $bound:ident -> $R:ty $(, at $widest:expr)?, |$a:ident, $b:ident| $body:expr;)*) => {$(
        struct $K<T>(PhantomData<T>);
        impl<T: $bound> F2 for $K<T> {
            type X = T;
            type R = $R;
            const WIDEST: Isa = T::WIDEST$(.least($widest))?;
            #[inline(always)]
            fn f($a: T, $b: T) -> $R { $body }
        }
    )*};
}

generic2! {
    Add: Num -> T, |a, b| a.add(b);
    Sub: Num -> T, |a, b| a.sub(b);
    Mul: Num -> T, |a, b| a.mul(b);
    Div: Num -> T, at T::QUOTIENTS, |a, b| a.div(b);
    Rem: Num -> T, at Isa::Baseline, |a, b| a.rem(b);
    Max: Num -> T, |a, b| a.max(b);
    Min: Num -> T, |a, b| a.min(b);
    And: Int -> T, |a, b| a.and(b);
    Or: Int -> T, |a, b| a.or(b);
    Xor: Int -> T, |a, b| a.xor(b);
    Shl: Int -> T, |a, b| a.shl(b);
    Shr: Int -> T, |a, b| a.shr(b);
    Eq: Num -> u8, |a, b| u8::from(a == b);
    Ne: Num -> u8, |a, b| u8::from(a != b);
    Lt: Num -> u8, |a, b| u8::from(a < b);
    Le: Num -> u8, |a, b| u8::from(a <= b);
}

/// Functions of two numbers. `unless` says for which operands one does not hold, and which does.
macro_rules! special2 {
    ($($K:ident<$T:ident> $([$constant:ident: $of:ty = $value:expr])?, $f:path $(, unless $is_slow:path => $slow:path)?;)*) => {$(
        struct $K;
        impl F2 for $K {
            type X = $T;
            type R = $T;
            $(const $constant: $of = $value;)?
            #[inline(always)]
            fn f(a: $T, b: $T) -> $T { $f(a, b) }
            $(
                #[inline(always)]
                fn is_slow(a: $T, b: $T) -> bool { $is_slow(a, b) }
                fn slow(a: $T, b: $T) -> $T { $slow(a, b) }
            )?
        }
    )*};
}

special2! {
    Pow32<f32> [HEAVY: bool = true], math::pow32;
    Pow64<f64> [HEAVY: bool = true], math::pow64, unless math::pow64_is_slow => libm::pow;
    Atan2F32<f32> [HEAVY: bool = true], math::atan2_32;
    Atan2F64<f64> [HEAVY: bool = true], libm::atan2;
    RemF32<f32>, quotient::rem_f32, unless quotient::rem_f32_is_slow => quotient::rem_f32_slow;
    DivI64<i64> [WIDEST: Isa = Isa::Avx2], quotient::div_i64, unless quotient::i64_is_slow => Num::div;
    RemI64<i64> [WIDEST: Isa = Isa::Avx2], quotient::rem_i64, unless quotient::i64_is_slow => Num::rem;
    DivI32<i32> [WIDEST: Isa = Isa::Avx2], quotient::div_i32;
    RemI32<i32> [WIDEST: Isa = Isa::Avx2], quotient::rem_i32;
    FromTheEnd<i64> [WIDEST: Isa = Isa::Avx2], from_end;
}

#[inline(always)]
fn from_end(index: i64, extent: i64) -> i64 {
    index.wrapping_add(extent & index >> 63)
}

/// `index < 0 ? index + extent : index`; bits of `single` say which are single values.
pub(crate) fn from_the_end(isa: Isa, single: u8) -> LoopFn {
    map2::<FromTheEnd>(isa, single)
}

struct Fma<T>(PhantomData<T>);

impl<T: Float> F3 for Fma<T> {
    type A = T;
    type X = T;
    const WIDEST: Isa = T::WIDEST;
    #[inline(always)]
    fn f(a: T, b: T, c: T) -> T {
        a.fma(b, c)
    }
}

struct Select<T>(PhantomData<T>);

impl<T: Num> F3 for Select<T> {
    type A = u8;
    type X = T;
    const WIDEST: Isa = T::WIDEST;
    #[inline(always)]
    fn f(a: u8, b: T, c: T) -> T {
        if a != 0 { b } else { c }
    }
}

/// Evaluates `$go` with `$T` as an integer or bool type; `None` for floats.
macro_rules! with_int {
    ($held:expr, $T:ident => $go:expr) => {
        thalweg_hal::match_type!($held, $T => $go;
            Held::I64 => i64,
            Held::I32 => i32,
            Held::I16 => i16,
            Held::I8 => i8,
            Held::U64 => u64,
            Held::U32 => u32,
            Held::U16 => u16,
            Held::U8 | Held::Bool => u8;
            else return None)
    };
}

macro_rules! float1 {
    ($isa:expr, $held:expr, $f32:ty, $f64:ty) => {
        match $held {
            Held::F32 => map1::<$f32>($isa),
            Held::F64 => map1::<$f64>($isa),
            _ => return None,
        }
    };
}

/// The loop of an op of one argument.
pub(crate) fn unary(isa: Isa, op: ScalarOp, held: Held) -> Option<LoopFn> {
    Some(match op {
        ScalarOp::Neg => with_bits!(held, T => map1::<Neg<T>>(isa)),
        ScalarOp::Abs => with_type!(held, T => map1::<Abs<T>>(isa)),
        ScalarOp::Sign => with_type!(held, T => map1::<Sign<T>>(isa)),
        ScalarOp::Not if held == Held::Bool => map1::<NotBool>(isa),
        ScalarOp::Not => with_word!(held, T => map1::<Not<T>>(isa)),
        ScalarOp::Floor => float1!(isa, held, Floor<f32>, Floor<f64>),
        ScalarOp::Ceil => float1!(isa, held, Ceil<f32>, Ceil<f64>),
        ScalarOp::Trunc => float1!(isa, held, Trunc<f32>, Trunc<f64>),
        ScalarOp::Round => float1!(isa, held, Round<f32>, Round<f64>),
        ScalarOp::Sqrt => float1!(isa, held, Sqrt<f32>, Sqrt<f64>),
        _ => return function(isa, op, held),
    })
}

/// The loop of an op of two arguments; bits of `single` say which are single values.
pub(crate) fn binary(isa: Isa, op: ScalarOp, held: Held, single: u8) -> Option<LoopFn> {
    macro_rules! float2 {
        ($f32:ty, $f64:ty) => {
            match held {
                Held::F32 => map2::<$f32>(isa, single),
                Held::F64 => map2::<$f64>(isa, single),
                _ => return None,
            }
        };
    }
    Some(match op {
        ScalarOp::Add => with_bits!(held, T => map2::<Add<T>>(isa, single)),
        ScalarOp::Sub => with_bits!(held, T => map2::<Sub<T>>(isa, single)),
        ScalarOp::Mul => with_bits!(held, T => map2::<Mul<T>>(isa, single)),
        ScalarOp::Div if held == Held::I64 => map2::<DivI64>(isa, single),
        ScalarOp::Div if held == Held::I32 => map2::<DivI32>(isa, single),
        ScalarOp::Div => with_type!(held, T => map2::<Div<T>>(isa, single)),
        ScalarOp::Rem if held == Held::I64 => map2::<RemI64>(isa, single),
        ScalarOp::Rem if held == Held::I32 => map2::<RemI32>(isa, single),
        ScalarOp::Rem if held == Held::F32 => map2::<RemF32>(isa, single),
        ScalarOp::Rem => with_type!(held, T => map2::<Rem<T>>(isa, single)),
        ScalarOp::Pow => float2!(Pow32, Pow64),
        ScalarOp::Atan2 => float2!(Atan2F32, Atan2F64),
        ScalarOp::Max => with_type!(held, T => map2::<Max<T>>(isa, single)),
        ScalarOp::Min => with_type!(held, T => map2::<Min<T>>(isa, single)),
        ScalarOp::And => with_word!(held, T => map2::<And<T>>(isa, single)),
        ScalarOp::Or => with_word!(held, T => map2::<Or<T>>(isa, single)),
        ScalarOp::Xor => with_word!(held, T => map2::<Xor<T>>(isa, single)),
        ScalarOp::Shl => with_word!(held, T => map2::<Shl<T>>(isa, single)),
        ScalarOp::Shr => with_int!(held, T => map2::<Shr<T>>(isa, single)),
        ScalarOp::Eq => with_bits!(held, T => map2::<Eq<T>>(isa, single)),
        ScalarOp::Ne => with_bits!(held, T => map2::<Ne<T>>(isa, single)),
        ScalarOp::Lt => with_type!(held, T => map2::<Lt<T>>(isa, single)),
        ScalarOp::Le => with_type!(held, T => map2::<Le<T>>(isa, single)),
        _ => return None,
    })
}

/// The loop of a fused multiply-add; bits of `single` say which arguments are single values.
pub(crate) fn fma(isa: Isa, held: Held, single: u8) -> Option<LoopFn> {
    match held {
        Held::F32 => Some(map3::<Fma<f32>>(isa, single)),
        Held::F64 => Some(map3::<Fma<f64>>(isa, single)),
        _ => None,
    }
}

/// The loop of a selection among elements of `size` bytes.
pub(crate) fn select(isa: Isa, size: usize, single: u8) -> LoopFn {
    match size {
        1 => map3::<Select<u8>>(isa, single),
        2 => map3::<Select<u16>>(isa, single),
        4 => map3::<Select<u32>>(isa, single),
        _ => map3::<Select<u64>>(isa, single),
    }
}
