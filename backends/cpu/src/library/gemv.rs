//! Vector times matrix: c[j] = sum over l of a[l] B[l, j]. Bound by the reading of B, so B is read once, in long runs.

use super::gemm::{Element, Isa, Operands, Scratch, Vector, Wide};
use half::{bf16, f16};
use std::ops::Range;
use thalweg_hal::f8::{F8E4M3, F8E5M2};

/// Computes columns of C, `k` terms each.
pub(crate) type VectorFn<T> = unsafe fn(&Operands<T>, usize, Range<usize>);

/// Types that may have kernels of their own for products with one row.
pub(crate) trait VectorProduct: Element {
    /// The kernels for contiguous rows and for contiguous columns of B.
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

/// Columns of B are contiguous: one dot product a column, four at a time.
#[inline(always)]
unsafe fn by_columns<T: Element, V: Stream<T>>(x: &Operands<T>, k: usize, cols: Range<usize>) {
    let scratch = Scratch::take((k + 16) * size_of::<T::Acc>());
    // SAFETY: the scratch memory has the length asked for, the operands' extents are the caller's contract.
    unsafe {
        let a = vector(x, k, scratch.start().cast());
        let fours = cols.len() / 4 * 4;
        for j in (cols.start..cols.start + fours).step_by(4) {
            write(
                x,
                j,
                &dots::<T, V, 4>(a, x.b.offset(j as isize * x.b_col), x.b_col, k),
            );
        }
        for j in cols.start + fours..cols.end {
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

macro_rules! without_kernels {
    ($($t:ty)*) => {$(
        impl VectorProduct for $t {
            fn vector_kernels(_: Isa) -> Option<[VectorFn<Self>; 2]> {
                None
            }
        }
    )*};
}
without_kernels!(i8 u8 i16 u16 i32 u32 i64 u64);
#[cfg(not(target_arch = "x86_64"))]
without_kernels!(f32 f64 f16 bf16 F8E4M3 F8E5M2 Wide<f16> Wide<bf16>);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::gemm::{F32x8, F32x16, F64x4, F64x8, Load512};
    use super::*;

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
        F32x16, f16, |p| Self(f16::load(p, 16));
        F32x16, bf16, |p| Self(bf16::load(p, 16));
        F32x16, Wide<f16>, |p| Self(f16::load(p.cast(), 16));
        F32x16, Wide<bf16>, |p| Self(bf16::load(p.cast(), 16));
        F32x16, F8E4M3, |p| Self(F8E4M3::load(p, 16));
        F32x16, F8E5M2, |p| Self(F8E5M2::load(p, 16));
        F64x8, f64, |p| Self::load(p);
        F32x8, f32, |p| Self::load(p);
        F64x4, f64, |p| Self::load(p);
    }

    macro_rules! with_kernels {
        ($t:ty, $avx512:ident $(, $avx2:ident)?) => {
            impl VectorProduct for $t {
                fn vector_kernels(isa: Isa) -> Option<[VectorFn<Self>; 2]> {
                    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                    unsafe fn rows512(x: &Operands<$t>, k: usize, cols: Range<usize>) {
                        // SAFETY: same contract.
                        unsafe { by_rows::<$t, $avx512>(x, k, cols) }
                    }
                    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                    unsafe fn columns512(x: &Operands<$t>, k: usize, cols: Range<usize>) {
                        // SAFETY: same contract.
                        unsafe { by_columns::<$t, $avx512>(x, k, cols) }
                    }
                    $(
                        #[target_feature(enable = "avx2,fma")]
                        unsafe fn rows256(x: &Operands<$t>, k: usize, cols: Range<usize>) {
                            // SAFETY: same contract.
                            unsafe { by_rows::<$t, $avx2>(x, k, cols) }
                        }
                        #[target_feature(enable = "avx2,fma")]
                        unsafe fn columns256(x: &Operands<$t>, k: usize, cols: Range<usize>) {
                            // SAFETY: same contract.
                            unsafe { by_columns::<$t, $avx2>(x, k, cols) }
                        }
                        if isa == Isa::Avx2 {
                            return Some([rows256, columns256]);
                        }
                    )?
                    (isa == Isa::Avx512).then_some([rows512, columns512])
                }
            }
        };
    }
    with_kernels!(f32, F32x16, F32x8);
    with_kernels!(f64, F64x8, F64x4);
    with_kernels!(f16, F32x16);
    with_kernels!(bf16, F32x16);
    with_kernels!(Wide<f16>, F32x16);
    with_kernels!(Wide<bf16>, F32x16);
    with_kernels!(F8E4M3, F32x16);
    with_kernels!(F8E5M2, F32x16);
}
