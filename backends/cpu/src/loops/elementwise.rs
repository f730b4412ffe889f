//! The shapes of elementwise loops.

use crate::isa::{Isa, versions};
use std::marker::PhantomData;

versions!(
    /// `out[i] = op(a[i], b[i], c[i])` for `i < n`; what the op does not take is not read. Blocks do not overlap.
    Loop, pick, LoopFn(n: usize, out: *mut u8, a: *const u8, b: *const u8, c: *const u8)
);

/// Which of two operands are single values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Two blocks.
    Blocks,
    /// The second is a single value.
    SingleB,
    /// The first is a single value.
    SingleA,
}

/// A scalar function of one argument.
pub(crate) trait F1: 'static {
    type X: Copy + Default;
    type R: Copy + Default;
    /// Costs tens of instructions: the rest of a block is padded to a whole vector.
    const HEAVY: bool = false;
    fn f(x: Self::X) -> Self::R;
    /// Whether `f` does not cover `x`.
    #[inline(always)]
    fn is_slow(_x: Self::X) -> bool {
        false
    }
    /// For what `f` does not cover.
    fn slow(x: Self::X) -> Self::R {
        Self::f(x)
    }
}

/// A scalar function of two arguments.
pub(crate) trait F2: 'static {
    type X: Copy + Default;
    type R: Copy + Default;
    const HEAVY: bool = false;
    fn f(a: Self::X, b: Self::X) -> Self::R;
}

/// A scalar function of three arguments.
pub(crate) trait F3: 'static {
    type A: Copy;
    type X: Copy;
    fn f(a: Self::A, b: Self::X, c: Self::X) -> Self::X;
}

/// Elements that a heavy loop works on at least.
const PAD: usize = 64;

pub(crate) struct Map1<K>(PhantomData<K>);

impl<K: F1> Loop for Map1<K> {
    #[inline(always)]
    unsafe fn run(n: usize, out: *mut u8, a: *const u8, _b: *const u8, _c: *const u8) {
        let (out, a) = (out.cast::<K::R>(), a.cast::<K::X>());
        if !K::HEAVY {
            for i in 0..n {
                // SAFETY: i < n.
                unsafe { *out.add(i) = K::f(*a.add(i)) };
            }
            return;
        }
        let (mut x, mut y) = ([K::X::default(); PAD], [K::R::default(); PAD]);
        let rest = n % PAD;
        let (mut src, mut dst, mut groups, mut last) = (a, out, n / PAD, rest == 0);
        loop {
            let mut slow = false;
            for i in 0..groups * PAD {
                // SAFETY: both sides hold `groups * PAD` elements.
                unsafe {
                    let v = *src.add(i);
                    *dst.add(i) = K::f(v);
                    slow |= K::is_slow(v);
                }
            }
            if slow {
                for i in 0..groups * PAD {
                    // SAFETY: as above.
                    unsafe {
                        if K::is_slow(*src.add(i)) {
                            *dst.add(i) = K::slow(*src.add(i));
                        }
                    }
                }
            }
            if last {
                break;
            }
            // SAFETY: `rest` elements follow the whole groups; the padding has room for them.
            unsafe { x.as_mut_ptr().copy_from_nonoverlapping(a.add(n - rest), rest) };
            (src, dst, groups, last) = (x.as_ptr(), y.as_mut_ptr(), 1, true);
        }
        // SAFETY: as above.
        unsafe { out.add(n - rest).copy_from_nonoverlapping(y.as_ptr(), rest) };
    }
}

/// The rest of a block, padded.
#[inline(always)]
unsafe fn pad<T: Copy + Default>(from: *const T, rest: usize) -> [T; PAD] {
    let mut to = [T::default(); PAD];
    // SAFETY: the caller's promise; rest < PAD.
    unsafe { to.as_mut_ptr().copy_from_nonoverlapping(from, rest) };
    to
}

pub(crate) struct Map2<K, const FORM: u8>(PhantomData<K>);

impl<K: F2, const FORM: u8> Map2<K, FORM> {
    #[inline(always)]
    unsafe fn body(n: usize, out: *mut K::R, a: *const K::X, b: *const K::X) {
        // SAFETY: single values and the first n elements of blocks are readable.
        unsafe {
            // Loops, not closures: a closure is a function of its own, without the instruction set of the one around it. Where it is
            // too long to be inlined, each fused product in it calls the C library.
            let (a0, b0) = (*a, *b);
            for i in 0..n {
                let x = if FORM == 2 { a0 } else { *a.add(i) };
                let y = if FORM == 1 { b0 } else { *b.add(i) };
                *out.add(i) = K::f(x, y);
            }
        }
    }
}

impl<K: F2, const FORM: u8> Loop for Map2<K, FORM> {
    #[inline(always)]
    unsafe fn run(n: usize, out: *mut u8, a: *const u8, b: *const u8, _c: *const u8) {
        let (out, a, b) = (out.cast::<K::R>(), a.cast::<K::X>(), b.cast::<K::X>());
        if n == 0 {
            return;
        }
        if !K::HEAVY {
            // SAFETY: the caller's promise.
            return unsafe { Self::body(n, out, a, b) };
        }
        let rest = n % PAD;
        let whole = n - rest;
        // SAFETY: `rest` elements follow the whole groups.
        unsafe {
            Self::body(n / PAD * PAD, out, a, b);
            if rest != 0 {
                let x = if FORM == 2 {
                    [*a; PAD]
                } else {
                    pad(a.add(whole), rest)
                };
                let y = if FORM == 1 {
                    [*b; PAD]
                } else {
                    pad(b.add(whole), rest)
                };
                let mut r = [K::R::default(); PAD];
                Self::body(PAD, r.as_mut_ptr(), x.as_ptr(), y.as_ptr());
                out.add(whole).copy_from_nonoverlapping(r.as_ptr(), rest);
            }
        }
    }
}

/// Bits of `SINGLE`: which of a, b and c are single values.
pub(crate) struct Map3<K, const SINGLE: u8>(PhantomData<K>);

impl<K: F3, const SINGLE: u8> Loop for Map3<K, SINGLE> {
    #[inline(always)]
    unsafe fn run(n: usize, out: *mut u8, a: *const u8, b: *const u8, c: *const u8) {
        let (out, a, b, c) = (
            out.cast::<K::X>(),
            a.cast::<K::A>(),
            b.cast::<K::X>(),
            c.cast::<K::X>(),
        );
        if n == 0 {
            return;
        }
        // SAFETY: single values and the first n elements of blocks are readable.
        unsafe {
            let (a0, b0, c0) = (*a, *b, *c);
            for i in 0..n {
                let x = if SINGLE & 1 == 0 { *a.add(i) } else { a0 };
                let y = if SINGLE & 2 == 0 { *b.add(i) } else { b0 };
                let z = if SINGLE & 4 == 0 { *c.add(i) } else { c0 };
                *out.add(i) = K::f(x, y, z);
            }
        }
    }
}

/// The version of a loop of one argument.
pub(crate) fn map1<K: F1>(isa: Isa) -> LoopFn {
    pick::<Map1<K>>(isa)
}

/// The version of a loop of two arguments.
pub(crate) fn map2<K: F2>(isa: Isa, form: Form) -> LoopFn {
    match form {
        Form::Blocks => pick::<Map2<K, 0>>(isa),
        Form::SingleB => pick::<Map2<K, 1>>(isa),
        Form::SingleA => pick::<Map2<K, 2>>(isa),
    }
}

/// The version of a loop of three arguments of which `single` are single values.
pub(crate) fn map3<K: F3>(isa: Isa, single: u8) -> LoopFn {
    match single {
        0 => pick::<Map3<K, 0>>(isa),
        1 => pick::<Map3<K, 1>>(isa),
        2 => pick::<Map3<K, 2>>(isa),
        3 => pick::<Map3<K, 3>>(isa),
        4 => pick::<Map3<K, 4>>(isa),
        5 => pick::<Map3<K, 5>>(isa),
        6 => pick::<Map3<K, 6>>(isa),
        _ => pick::<Map3<K, 7>>(isa),
    }
}

struct Fill<T>(PhantomData<T>);

impl<T: Copy> Loop for Fill<T> {
    #[inline(always)]
    unsafe fn run(n: usize, out: *mut u8, a: *const u8, _b: *const u8, _c: *const u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let value = *a.cast::<T>();
            for i in 0..n {
                *out.cast::<T>().add(i) = value;
            }
        }
    }
}

/// Repeats the single value `a` of `size` bytes.
pub(crate) fn fill(isa: Isa, size: usize) -> LoopFn {
    match size {
        1 => pick::<Fill<u8>>(isa),
        2 => pick::<Fill<u16>>(isa),
        4 => pick::<Fill<u32>>(isa),
        _ => pick::<Fill<u64>>(isa),
    }
}

struct Copy1<const SIZE: usize>;

impl<const SIZE: usize> Loop for Copy1<SIZE> {
    #[inline(always)]
    unsafe fn run(n: usize, out: *mut u8, a: *const u8, _b: *const u8, _c: *const u8) {
        // SAFETY: the caller's promise.
        unsafe { out.copy_from_nonoverlapping(a, n * SIZE) };
    }
}

/// Copies elements of `size` bytes.
pub(crate) fn copy(isa: Isa, size: usize) -> LoopFn {
    match size {
        1 => pick::<Copy1<1>>(isa),
        2 => pick::<Copy1<2>>(isa),
        4 => pick::<Copy1<4>>(isa),
        _ => pick::<Copy1<8>>(isa),
    }
}
