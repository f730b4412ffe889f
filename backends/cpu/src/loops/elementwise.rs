//! The shapes of elementwise loops.

use crate::isa::{Isa, versions};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

versions!(
    /// `out[i] = op(a[i], b[i], c[i])` for `i < n`; what the op does not take is not read. Blocks do not overlap. Bits of `single`
    /// say which of a, b and c are single values.
    Loop, pick, RawLoop(n: usize, out: *mut u8, a: *const u8, b: *const u8, c: *const u8, single: u8)
);

/// A loop, and which of its operands are single values.
#[derive(Clone, Copy)]
pub(crate) struct LoopFn {
    f: RawLoop,
    single: u8,
}

impl LoopFn {
    fn of<L: Loop>(isa: Isa, single: u8) -> LoopFn {
        let f = pick::<L>(isa);
        LoopFn { f, single }
    }

    /// `out[i] = op(a[i], b[i], c[i])` for `i < n`.
    ///
    /// # Safety
    /// The machine has the instruction set of the loop. Blocks have `n` elements, and the result overlaps none of them.
    #[inline(always)]
    pub(crate) unsafe fn run(self, n: usize, out: *mut u8, a: *const u8, b: *const u8, c: *const u8) {
        // SAFETY: the caller's promise.
        unsafe { (self.f)(n, out, a, b, c, self.single) }
    }
}

/// A scalar function of one argument.
pub(crate) trait F1: 'static {
    type X: Copy + Default;
    type R: Copy + Default;
    /// Costs tens of instructions: the rest of a block is padded to a whole vector.
    const HEAVY: bool = false;
    /// As that of its loop.
    const WIDEST: Isa = Isa::Avx512;
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
    const WIDEST: Isa = Isa::Avx512;
    fn f(a: Self::X, b: Self::X) -> Self::R;
    /// Whether `f` does not cover them.
    #[inline(always)]
    fn is_slow(_a: Self::X, _b: Self::X) -> bool {
        false
    }
    /// For what `f` does not cover.
    fn slow(a: Self::X, b: Self::X) -> Self::R {
        Self::f(a, b)
    }
}

/// A scalar function of three arguments.
pub(crate) trait F3: 'static {
    type A: Copy;
    type X: Copy;
    const WIDEST: Isa = Isa::Avx512;
    fn f(a: Self::A, b: Self::X, c: Self::X) -> Self::X;
}

/// Elements that a heavy loop works on at least.
const PAD: usize = 64;

pub(crate) struct Map1<K>(PhantomData<K>);

impl<K: F1> Map1<K> {
    #[inline(always)]
    unsafe fn light(out: &mut [MaybeUninit<K::R>], a: &[K::X]) {
        for i in 0..out.len() {
            // SAFETY: both have as many elements.
            unsafe {
                out.get_unchecked_mut(i).write(K::f(*a.get_unchecked(i)));
            }
        }
    }
}

impl<K: F1> Loop for Map1<K> {
    const WIDEST: Isa = K::WIDEST;

    #[inline(always)]
    unsafe fn run(n: usize, out: *mut u8, a: *const u8, _b: *const u8, _c: *const u8, _single: u8) {
        let (out, a) = (out.cast::<K::R>(), a.cast::<K::X>());
        if !K::HEAVY {
            // SAFETY: the caller's promise.
            return unsafe { Self::light(block_mut(out, n), block(a, n)) };
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

/// Elements that single values are repeated for.
const STRETCH: usize = 128;

/// # Safety
/// There are `n` elements.
#[inline(always)]
unsafe fn block<'a, T>(at: *const T, n: usize) -> &'a [T] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(at, n) }
}

/// # Safety
/// There is room for `n` elements, which nothing else reads or writes.
#[inline(always)]
unsafe fn block_mut<'a, T>(at: *mut T, n: usize) -> &'a mut [MaybeUninit<T>] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(at.cast(), n) }
}

/// An operand, stretch by stretch. A single value is repeated once, so that one loop serves blocks and single values.
struct Operand<T> {
    copies: MaybeUninit<[T; STRETCH]>,
}

impl<T: Copy> Operand<T> {
    #[inline(always)]
    fn new() -> Operand<T> {
        let copies = MaybeUninit::uninit();
        Operand { copies }
    }

    /// Where it stands, and the elements from a stretch to the next.
    ///
    /// # Safety
    /// There is an element.
    #[inline(always)]
    unsafe fn place(&mut self, n: usize, at: *const u8, single: bool) -> (*const T, usize) {
        if !single {
            return (at.cast(), STRETCH);
        }
        let to = self.copies.as_mut_ptr().cast::<u8>();
        // SAFETY: there is room for a stretch.
        unsafe { repeat::<T>(n.min(STRETCH), to, at) };
        (self.copies.as_ptr().cast(), 0)
    }
}

/// # Safety
/// `to` has room for `n` elements, and `at` has one.
#[inline(always)]
unsafe fn repeat<T>(n: usize, to: *mut u8, at: *const u8) {
    let null = std::ptr::null();
    // SAFETY: the caller's promise; each is a loop of the baseline.
    unsafe {
        match size_of::<T>() {
            1 => pick::<Fill<u8>>(Isa::Baseline)(n, to, at, null, null, 0),
            2 => pick::<Fill<u16>>(Isa::Baseline)(n, to, at, null, null, 0),
            4 => pick::<Fill<u32>>(Isa::Baseline)(n, to, at, null, null, 0),
            _ => pick::<Fill<u64>>(Isa::Baseline)(n, to, at, null, null, 0),
        }
    }
}

pub(crate) struct Map2<K>(PhantomData<K>);

impl<K: F2> Map2<K> {
    // Loops, not closures: a closure is a function of its own, without the instruction set of the one around it. Where it is
    // too long to be inlined, each fused product in it calls the C library.
    #[inline(always)]
    unsafe fn body(out: &mut [MaybeUninit<K::R>], a: &[K::X], b: &[K::X]) {
        let mut slow = false;
        for i in 0..out.len() {
            // SAFETY: all have as many elements.
            unsafe {
                let (a, b) = (*a.get_unchecked(i), *b.get_unchecked(i));
                out.get_unchecked_mut(i).write(K::f(a, b));
                slow |= K::is_slow(a, b);
            }
        }
        if slow {
            for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
                if K::is_slow(a, b) {
                    out.write(K::slow(a, b));
                }
            }
        }
    }
}

impl<K: F2> Loop for Map2<K> {
    const WIDEST: Isa = K::WIDEST;

    #[inline(always)]
    unsafe fn run(n: usize, out: *mut u8, a: *const u8, b: *const u8, _c: *const u8, single: u8) {
        let out = out.cast::<K::R>();
        if n == 0 {
            return;
        }
        let (mut copies_a, mut copies_b) = (Operand::<K::X>::new(), Operand::<K::X>::new());
        // SAFETY: the caller's promise. Operands that are padded have whole stretches.
        unsafe {
            let (a, step_a) = copies_a.place(if K::HEAVY { STRETCH } else { n }, a, single & 1 != 0);
            let (b, step_b) = copies_b.place(if K::HEAVY { STRETCH } else { n }, b, single & 2 != 0);
            let most = if single & 3 == 0 && !K::HEAVY { n } else { STRETCH };
            let (mut at, mut k) = (0, 0);
            let mut padded = MaybeUninit::<[K::R; STRETCH]>::uninit();
            while at < n {
                let m = (n - at).min(most);
                let (mut a, mut b) = (a.add(k * step_a), b.add(k * step_b));
                let (mut to, mut length) = (out.add(at), m);
                if K::HEAVY && m % PAD != 0 {
                    if step_a != 0 {
                        a = copies_a.pad(a, m);
                    }
                    if step_b != 0 {
                        b = copies_b.pad(b, m);
                    }
                    (to, length) = (padded.as_mut_ptr().cast(), m.next_multiple_of(PAD));
                }
                Self::body(block_mut(to, length), block(a, length), block(b, length));
                if length != m {
                    out.add(at).copy_from_nonoverlapping(to, m);
                }
                at += m;
                k += 1;
            }
        }
    }
}

impl<T: Copy + Default> Operand<T> {
    /// `m` elements and others that fill up a group of [`PAD`].
    ///
    /// # Safety
    /// There are `m` elements, at most a stretch.
    #[inline(always)]
    unsafe fn pad(&mut self, from: *const T, m: usize) -> *const T {
        let to = self.copies.as_mut_ptr().cast::<T>();
        // SAFETY: the caller's promise.
        unsafe {
            to.copy_from_nonoverlapping(from, m);
            (m..m.next_multiple_of(PAD)).for_each(|i| to.add(i).write(T::default()));
        }
        to
    }
}

pub(crate) struct Map3<K>(PhantomData<K>);

impl<K: F3> Map3<K> {
    #[inline(always)]
    unsafe fn body(out: &mut [MaybeUninit<K::X>], a: &[K::A], b: &[K::X], c: &[K::X]) {
        for i in 0..out.len() {
            // SAFETY: all have as many elements.
            unsafe {
                let r = K::f(*a.get_unchecked(i), *b.get_unchecked(i), *c.get_unchecked(i));
                out.get_unchecked_mut(i).write(r);
            }
        }
    }
}

impl<K: F3> Loop for Map3<K> {
    const WIDEST: Isa = K::WIDEST;

    #[inline(always)]
    unsafe fn run(n: usize, out: *mut u8, a: *const u8, b: *const u8, c: *const u8, single: u8) {
        let out = out.cast::<K::X>();
        if n == 0 {
            return;
        }
        let mut copies_a = Operand::<K::A>::new();
        let (mut copies_b, mut copies_c) = (Operand::<K::X>::new(), Operand::<K::X>::new());
        // SAFETY: the caller's promise.
        unsafe {
            let (a, step_a) = copies_a.place(n, a, single & 1 != 0);
            let (b, step_b) = copies_b.place(n, b, single & 2 != 0);
            let (c, step_c) = copies_c.place(n, c, single & 4 != 0);
            let most = if single & 7 == 0 { n } else { STRETCH };
            let (mut at, mut k) = (0, 0);
            while at < n {
                let m = (n - at).min(most);
                let (a, b, c) = (a.add(k * step_a), b.add(k * step_b), c.add(k * step_c));
                Self::body(block_mut(out.add(at), m), block(a, m), block(b, m), block(c, m));
                at += m;
                k += 1;
            }
        }
    }
}

/// The version of a loop of one argument.
pub(crate) fn map1<K: F1>(isa: Isa) -> LoopFn {
    LoopFn::of::<Map1<K>>(isa, 0)
}

/// The version of a loop of two arguments of which `single` are single values.
pub(crate) fn map2<K: F2>(isa: Isa, single: u8) -> LoopFn {
    LoopFn::of::<Map2<K>>(isa, single)
}

/// The version of a loop of three arguments of which `single` are single values.
pub(crate) fn map3<K: F3>(isa: Isa, single: u8) -> LoopFn {
    LoopFn::of::<Map3<K>>(isa, single)
}

struct Fill<T>(PhantomData<T>);

impl<T: Copy> Loop for Fill<T> {
    #[inline(always)]
    unsafe fn run(n: usize, out: *mut u8, a: *const u8, _b: *const u8, _c: *const u8, _single: u8) {
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
        1 => LoopFn::of::<Fill<u8>>(isa, 0),
        2 => LoopFn::of::<Fill<u16>>(isa, 0),
        4 => LoopFn::of::<Fill<u32>>(isa, 0),
        _ => LoopFn::of::<Fill<u64>>(isa, 0),
    }
}

struct Copy1<const SIZE: usize>;

impl<const SIZE: usize> Loop for Copy1<SIZE> {
    #[inline(always)]
    unsafe fn run(n: usize, out: *mut u8, a: *const u8, _b: *const u8, _c: *const u8, _single: u8) {
        // SAFETY: the caller's promise.
        unsafe { out.copy_from_nonoverlapping(a, n * SIZE) };
    }
}

/// Copies elements of `size` bytes.
pub(crate) fn copy(isa: Isa, size: usize) -> LoopFn {
    match size {
        1 => LoopFn::of::<Copy1<1>>(isa, 0),
        2 => LoopFn::of::<Copy1<2>>(isa, 0),
        4 => LoopFn::of::<Copy1<4>>(isa, 0),
        _ => LoopFn::of::<Copy1<8>>(isa, 0),
    }
}
