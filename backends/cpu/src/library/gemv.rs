//! Vector times matrix: c[j] = sum over l of a[l] B[l, j]. Bound by the reading of B, so B is read once, in long runs.

use super::gemm::{Byte, Element, Lanes, Operands, Pair, Scratch, Vector, Wide};
use crate::isa::Isa;
use half::{bf16, f16};
use std::ops::Range;
use thalweg_hal::f8::{F8E4M3, F8E5M2};

/// Computes columns of C, `k` terms each.
pub(crate) type VectorFn<T> = unsafe fn(&Operands<T>, usize, Range<usize>);

/// Types that may have kernels of their own for products with one row.
pub(crate) trait VectorProduct: Element {
    /// The kernels for contiguous rows and for contiguous columns of B; the same bits on every instruction set.
    fn vector_kernels(isa: Isa) -> Option<[VectorFn<Self>; 2]>;
}

/// The kernel for the layout of B, if there is one.
pub(crate) fn kernel<T: VectorProduct>(isa: Isa, x: &Operands<T>, k: usize) -> Option<VectorFn<T>> {
    let [by_rows, by_columns] = T::vector_kernels(isa).filter(|_| k > 0)?;
    match (x.b_col, x.b_row) {
        (1, _) => Some(by_rows),
        (_, 1) => Some(by_columns),
        _ => None,
    }
}

/// A register that can be filled from elements of type `T`.
trait Stream<T: Element>: Vector<Lane = T::Acc> {
    /// `LANES` elements from `p`. The instruction set must be on.
    unsafe fn widen(p: *const T) -> Self;

    /// The first `count` elements of `p`, fewer than `LANES`, then zeros.
    #[inline(always)]
    unsafe fn widen_some(p: *const T, count: usize) -> Self {
        let mut lanes = [T::ZERO; 16];
        for (i, lane) in lanes.iter_mut().enumerate().take(count) {
            // SAFETY: the caller has `count` elements.
            *lane = unsafe { (*p.add(i)).widen() };
        }
        // SAFETY: no register has more than 16 lanes.
        unsafe { Self::load(lanes.as_ptr()) }
    }
}

/// Columns whose sums stay in L1 while rows go by.
const CHUNK: usize = 2048;

/// Rows of B are contiguous: adds multiples of eight rows at a time to a run of sums.
#[inline(always)]
unsafe fn by_rows<T: Element, V: Stream<T>>(x: &Operands<T>, k: usize, cols: Range<usize>) {
    let bytes = (CHUNK + 16 + k) * size_of::<T::Acc>();
    let scratch = Scratch::take(bytes);
    let sums: *mut T::Acc = scratch.start().cast();
    // SAFETY: the scratch memory has the length asked for, the operands' extents are the caller's contract.
    unsafe {
        let a = vector(x, k, sums.add(CHUNK + 16));
        for start in cols.clone().step_by(CHUNK) {
            let width = CHUNK.min(cols.end - start);
            for j in 0..width.next_multiple_of(V::LANES) {
                sums.add(j).write(T::ZERO);
            }
            let b = x.b.add(start);
            for l in 0..k / 8 {
                add_rows::<T, V, 8>(
                    sums,
                    a.add(8 * l),
                    b.offset(8 * l as isize * x.b_row),
                    x.b_row,
                    width,
                );
            }
            for l in k / 8 * 8..k {
                add_rows::<T, V, 1>(sums, a.add(l), b.offset(l as isize * x.b_row), x.b_row, width);
            }
            write(x, start, std::slice::from_raw_parts(sums, width));
        }
    }
}

/// `sums[j] += sum over i of a[i] b[i, j]`, term by term in the order of i.
#[inline(always)]
unsafe fn add_rows<T: Element, V: Stream<T>, const ROWS: usize>(
    sums: *mut T::Acc,
    a: *const T::Acc,
    b: *const T,
    b_row: isize,
    width: usize,
) {
    // SAFETY: the caller has `width` columns, and sums for the registers that cover them.
    unsafe {
        let mut factors = [V::zero(); ROWS];
        for (i, f) in factors.iter_mut().enumerate() {
            *f = V::splat(a.add(i));
        }
        let whole = width - width % V::LANES;
        for j in (0..whole).step_by(V::LANES) {
            let mut sum = V::load(sums.add(j));
            for (i, &f) in factors.iter().enumerate() {
                sum = sum.mul_add(f, V::widen(b.offset(i as isize * b_row).add(j)));
            }
            sum.store(sums.add(j));
        }
        if whole < width {
            let mut sum = V::load(sums.add(whole));
            for (i, &f) in factors.iter().enumerate() {
                sum = sum.mul_add(
                    f,
                    V::widen_some(b.offset(i as isize * b_row).add(whole), width - whole),
                );
            }
            sum.store(sums.add(whole));
        }
    }
}

/// Columns of B are contiguous: one dot product a column, `COLS` at a time.
#[inline(always)]
unsafe fn by_columns<T: Element, V: Stream<T>, const COLS: usize>(
    x: &Operands<T>,
    k: usize,
    cols: Range<usize>,
) {
    let scratch = Scratch::take((k + 16) * size_of::<T::Acc>());
    // SAFETY: the scratch memory has the length asked for, the operands' extents are the caller's contract.
    unsafe {
        let a = vector(x, k, scratch.start().cast());
        let whole = cols.len() / COLS * COLS;
        for j in (cols.start..cols.start + whole).step_by(COLS) {
            write(
                x,
                j,
                &dots::<T, V, COLS>(a, x.b.offset(j as isize * x.b_col), x.b_col, k),
            );
        }
        for j in cols.start + whole..cols.end {
            write(
                x,
                j,
                &dots::<T, V, 1>(a, x.b.offset(j as isize * x.b_col), x.b_col, k),
            );
        }
    }
}

/// Dot products of `a` with columns; the order of a column's sum is the same for any number of columns.
#[inline(always)]
unsafe fn dots<T: Element, V: Stream<T>, const COLS: usize>(
    a: *const T::Acc,
    b: *const T,
    b_col: isize,
    k: usize,
) -> [T::Acc; COLS] {
    // SAFETY: the caller has `k` elements in `a` and in each column.
    unsafe {
        let mut sums = [[V::zero(); 2]; COLS];
        let pairs = k / (2 * V::LANES) * 2 * V::LANES;
        for l in (0..pairs).step_by(2 * V::LANES) {
            for half in 0..2 {
                let l = l + half * V::LANES;
                let av = V::load(a.add(l));
                for (c, sum) in sums.iter_mut().enumerate() {
                    sum[half] = sum[half].mul_add(av, V::widen(b.offset(c as isize * b_col).add(l)));
                }
            }
        }
        for l in (pairs..k).step_by(V::LANES) {
            let count = V::LANES.min(k - l);
            let mut lanes = [T::ZERO; 16];
            std::ptr::copy_nonoverlapping(a.add(l), lanes.as_mut_ptr(), count);
            let av = V::load(lanes.as_ptr());
            for (c, sum) in sums.iter_mut().enumerate() {
                sum[0] = sum[0].mul_add(av, V::widen_some(b.offset(c as isize * b_col).add(l), count));
            }
        }
        let mut result = [T::ZERO; COLS];
        for (r, sum) in result.iter_mut().zip(sums) {
            let mut lanes = [T::ZERO; 16];
            sum[0].add(sum[1]).store(lanes.as_mut_ptr());
            for half in [8, 4, 2, 1] {
                for i in 0..half {
                    lanes[i] = T::add(lanes[i], lanes[i + half]);
                }
            }
            *r = lanes[0];
        }
        result
    }
}

/// The row of A as contiguous accumulators: in place where it is that already, else copied to `copy`.
#[inline(always)]
unsafe fn vector<T: Element>(x: &Operands<T>, k: usize, copy: *mut T::Acc) -> *const T::Acc {
    if T::DIRECT && x.a_col == 1 {
        return x.a.cast();
    }
    for l in 0..k {
        // SAFETY: A has `k` elements, and so has `copy`.
        unsafe { copy.add(l).write((*x.a.offset(l as isize * x.a_col)).widen()) }
    }
    copy
}

/// Rounds sums into C from column `start` on.
#[inline(always)]
unsafe fn write<T: Element>(x: &Operands<T>, start: usize, sums: &[T::Acc]) {
    for (j, &sum) in sums.iter().enumerate() {
        // SAFETY: the caller has these columns.
        unsafe { *x.c.offset((start + j) as isize * x.c_col) = T::narrow(sum) }
    }
}

impl<T: Element<Acc = f32>> Stream<T> for Lanes<f32, 16> {
    #[inline(always)]
    unsafe fn widen(p: *const T) -> Self {
        // SAFETY: the trait's contract.
        Self(std::array::from_fn(|i| unsafe { (*p.add(i)).widen() }))
    }
}

impl Stream<f64> for Lanes<f64, 8> {
    #[inline(always)]
    unsafe fn widen(p: *const f64) -> Self {
        // SAFETY: the trait's contract.
        unsafe { Self::load(p) }
    }
}

macro_rules! without_kernels {
    ($($t:ty)*) => {$(
        impl VectorProduct for $t {
            fn vector_kernels(_: Isa) -> Option<[VectorFn<Self>; 2]> {
                None
            }
        }
    )*};
}
without_kernels!(Byte i32 u32 i64 u64);

/// Registers or pairs of them, of as many lanes on every instruction set: sums along columns run in one order.
macro_rules! with_kernels {
    ($($t:ty: $avx512:ident, $avx2:ident, $plain:ty;)*) => {$(
        impl VectorProduct for $t {
            fn vector_kernels(isa: Isa) -> Option<[VectorFn<Self>; 2]> {
                unsafe fn rows(x: &Operands<$t>, k: usize, cols: Range<usize>) {
                    // SAFETY: same contract.
                    unsafe { by_rows::<$t, $plain>(x, k, cols) }
                }
                unsafe fn columns(x: &Operands<$t>, k: usize, cols: Range<usize>) {
                    // SAFETY: same contract.
                    unsafe { by_columns::<$t, $plain, 1>(x, k, cols) }
                }
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                unsafe fn rows512(x: &Operands<$t>, k: usize, cols: Range<usize>) {
                    // SAFETY: same contract.
                    unsafe { by_rows::<$t, x86::$avx512>(x, k, cols) }
                }
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                unsafe fn columns512(x: &Operands<$t>, k: usize, cols: Range<usize>) {
                    // SAFETY: same contract.
                    unsafe { by_columns::<$t, x86::$avx512, 4>(x, k, cols) }
                }
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx2,fma,f16c")]
                unsafe fn rows256(x: &Operands<$t>, k: usize, cols: Range<usize>) {
                    // SAFETY: same contract.
                    unsafe { by_rows::<$t, Pair<x86::$avx2>>(x, k, cols) }
                }
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx2,fma,f16c")]
                unsafe fn columns256(x: &Operands<$t>, k: usize, cols: Range<usize>) {
                    // SAFETY: same contract.
                    unsafe { by_columns::<$t, Pair<x86::$avx2>, 2>(x, k, cols) }
                }
                Some(match isa {
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 => [rows512, columns512],
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => [rows256, columns256],
                    _ => [rows, columns],
                })
            }
        }
    )*};
}
with_kernels! {
    f32: F32x16, F32x8, Lanes<f32, 16>;
    f64: F64x8, F64x4, Lanes<f64, 8>;
    f16: F32x16, F32x8, Lanes<f32, 16>;
    bf16: F32x16, F32x8, Lanes<f32, 16>;
    Wide<f16>: F32x16, F32x8, Lanes<f32, 16>;
    Wide<bf16>: F32x16, F32x8, Lanes<f32, 16>;
    F8E4M3: F32x16, F32x8, Lanes<f32, 16>;
    F8E5M2: F32x16, F32x8, Lanes<f32, 16>;
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::gemm::Load512;
    pub(super) use super::super::gemm::{F32x8, F32x16, F64x4, F64x8};
    use super::*;
    use std::arch::x86_64::{
        _mm_loadu_si128, _mm256_castsi256_ps, _mm256_cvtepu16_epi32, _mm256_cvtph_ps, _mm256_slli_epi32,
    };

    /// Eight elements as f32.
    trait Load256: Element<Acc = f32> {
        /// The instruction set must be on.
        unsafe fn load(p: *const Self) -> F32x8;
    }

    macro_rules! load256 {
        ($($t:ty, |$p:ident| $load:expr;)*) => {$(
            impl Load256 for $t {
                #[inline(always)]
                unsafe fn load($p: *const Self) -> F32x8 {
                    // SAFETY: the trait's contract.
                    unsafe { $load }
                }
            }
        )*};
    }
    load256! {
        f32, |p| <F32x8 as Vector>::load(p);
        f16, |p| F32x8(_mm256_cvtph_ps(_mm_loadu_si128(p.cast())));
        bf16, |p| {
            let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()));
            F32x8(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits)))
        };
        Wide<f16>, |p| <f16 as Load256>::load(p.cast());
        Wide<bf16>, |p| <bf16 as Load256>::load(p.cast());
        F8E4M3, |p| eight(p);
        F8E5M2, |p| eight(p);
    }

    #[inline(always)]
    unsafe fn eight<T: Element<Acc = f32>>(p: *const T) -> F32x8 {
        // SAFETY: the caller's contract.
        unsafe {
            let lanes: [f32; 8] = std::array::from_fn(|i| (*p.add(i)).widen());
            <F32x8 as Vector>::load(lanes.as_ptr())
        }
    }

    impl<T: Load256> Stream<T> for Pair<F32x8> {
        #[inline(always)]
        unsafe fn widen(p: *const T) -> Self {
            // SAFETY: the trait's contract.
            unsafe { Self(T::load(p), T::load(p.add(8))) }
        }
    }

    impl Stream<f64> for Pair<F64x4> {
        #[inline(always)]
        unsafe fn widen(p: *const f64) -> Self {
            // SAFETY: the trait's contract.
            unsafe { Self::load(p) }
        }
    }

    macro_rules! streams {
        ($($register:ident, $t:ty, |$p:ident| $load:expr;)*) => {$(
            impl Stream<$t> for $register {
                #[inline(always)]
                unsafe fn widen($p: *const $t) -> Self {
                    // SAFETY: the trait's contract.
                    unsafe { $load }
                }
            }
        )*};
    }
    streams! {
        F32x16, f32, |p| Self::load(p);
        F32x16, f16, |p| Self(<f16 as Load512>::load(p, 16));
        F32x16, bf16, |p| Self(<bf16 as Load512>::load(p, 16));
        F32x16, Wide<f16>, |p| Self(<f16 as Load512>::load(p.cast(), 16));
        F32x16, Wide<bf16>, |p| Self(<bf16 as Load512>::load(p.cast(), 16));
        F32x16, F8E4M3, |p| Self(<F8E4M3 as Load512>::load(p, 16));
        F32x16, F8E5M2, |p| Self(<F8E5M2 as Load512>::load(p, 16));
        F64x8, f64, |p| Self::load(p);
    }
}
