//! Vector times matrix: c[j] = sum over l of a[l] B[l, j]. Bound by the reading of B, so B is read once, in long runs.
//!
//! Sums of f32 and of f64 have kernels. Elements that are no sums are packed as such on the way, some rows or columns at a time.

use super::gemm::{
    Byte, Element, Lanes, Operands, PackFn, Pair, Panel, Scratch, Stored, Uniform, Vector, Wide,
};
use crate::isa::Isa;
use crate::prefetch::ask_second;
use half::{bf16, f16};
use std::ops::Range;
use thalweg_hal::f8::{F8E4M3, F8E5M2};

/// The kernels of one type of sums on one instruction set; the same bits on all of them.
#[derive(Clone, Copy)]
pub(crate) struct Kernels<S> {
    rows: RowsFn<S>,
    dots: DotsFn<S>,
    /// Columns that `dots` takes at once, and those of a matrix that lies in memory.
    columns: [usize; 2],
}

/// Adds `count` rows of B, each times its element of `a`, to a run of `width` sums, term by term.
type RowsFn<S> = unsafe fn(&Rows<S>);

struct Rows<S> {
    sums: *mut S,
    a: *const S,
    b: *const S,
    b_row: isize,
    count: usize,
    width: usize,
    /// Whether the next rows are asked for.
    asks: bool,
}

/// Adds `k` terms to the dot products of `a` with the columns from `b` on: whole [`STEP`]s, but for the last terms.
type DotsFn<S> = unsafe fn(&mut Dots<S>);

struct Dots<S> {
    sums: [Sums<S>; MOST_COLUMNS],
    /// One of those of the kernels, or 1.
    columns: usize,
    a: *const S,
    b: *const S,
    b_col: isize,
    k: usize,
}

/// The sums of a column: two registers of lanes, of which narrower ones have the first.
type Sums<S> = [[S; 16]; 2];

/// Most columns that are taken at once.
const MOST_COLUMNS: usize = 8;
/// Bytes of a matrix from which most of it is read from memory rather than from a cache.
const FAR: usize = if cfg!(test) { 4 << 10 } else { 32 << 20 };
/// Bytes from what is added to what is asked for, in a column of such a matrix.
const AHEAD: usize = 2048;
/// Rows that are added at once.
const ROWS: usize = 8;
/// Columns whose sums stay in L1 while rows go by, and terms of a column that is packed.
const CHUNK: usize = 2048;
/// Rows that are packed at once.
const PACKED: usize = 8;
/// Terms of two registers.
const STEP: usize = 32;
/// Results that are rounded at once.
const RESULTS: usize = 64;

const _: () = assert!(CHUNK.is_multiple_of(STEP) && RESULTS.is_multiple_of(MOST_COLUMNS));

/// Kernels, and what packs elements that are no sums.
type VectorKernels<T> = (Kernels<<T as Stored>::Acc>, Option<PackFn<T>>);

/// Types that may have kernels of their own for products with one row.
pub(crate) trait VectorProduct: Element {
    /// The kernels for an instruction set.
    fn vector_kernels(isa: Isa) -> Option<VectorKernels<Self>>;
}

/// A product with one row, if there are kernels for it.
pub(crate) struct VectorKernel<T: Element> {
    kernels: Kernels<T::Acc>,
    pack: Option<PackFn<T>>,
    by_rows: bool,
    /// Whether B is read from memory, and as it is.
    far: bool,
}

impl<T: VectorProduct> VectorKernel<T> {
    /// The kernel for the layout of B, of `k` rows and `n` columns.
    pub(crate) fn new(isa: Isa, x: &Operands<T>, k: usize, n: usize) -> Option<VectorKernel<T>> {
        let (kernels, pack) = T::vector_kernels(isa).filter(|_| k > 0)?;
        let by_rows = match (x.b_col, x.b_row) {
            (1, _) => true,
            (_, 1) => false,
            _ => return None,
        };
        let bytes = k.saturating_mul(n).saturating_mul(size_of::<T>());
        Some(VectorKernel {
            kernels,
            pack,
            by_rows,
            far: pack.is_none() && bytes >= FAR,
        })
    }

    /// Computes columns of C, `k` terms each.
    ///
    /// # Safety
    /// The operands reach them, no one else writes them, and the kernels' instruction set exists.
    pub(crate) unsafe fn run(&self, x: &Operands<T>, k: usize, cols: Range<usize>) {
        // SAFETY: the caller's promise.
        unsafe {
            if self.by_rows {
                self.by_rows(x, k, cols);
            } else {
                self.by_columns(x, k, cols);
            }
        }
    }

    /// Rows of B are contiguous: adds multiples of rows to a run of sums.
    unsafe fn by_rows(&self, x: &Operands<T>, k: usize, cols: Range<usize>) {
        let widened = match self.pack {
            Some(_) => PACKED * CHUNK + 16,
            None => 0,
        };
        let scratch = Scratch::take((CHUNK + 16 + k.next_multiple_of(16) + widened) * size_of::<T::Acc>());
        let sums: *mut T::Acc = scratch.start().cast();
        // SAFETY: the scratch memory has the length asked for, the operands' extents are the caller's contract.
        unsafe {
            let copy = sums.add(CHUNK + 16);
            let packed = copy.add(k.next_multiple_of(16));
            let a = vector(x, k, copy);
            for start in cols.clone().step_by(CHUNK) {
                let width = CHUNK.min(cols.end - start);
                let pitch = width.next_multiple_of(16);
                for j in 0..pitch {
                    sums.add(j).write(T::ZERO);
                }
                let b = x.b.add(start);
                let Some(pack) = self.pack else {
                    (self.kernels.rows)(&Rows {
                        sums,
                        a,
                        b: b.cast(),
                        b_row: x.b_row,
                        count: k,
                        width,
                        asks: self.far,
                    });
                    write(x, start, std::slice::from_raw_parts(sums, width));
                    continue;
                };
                for l in (0..k).step_by(PACKED) {
                    let count = PACKED.min(k - l);
                    pack(&Panel {
                        dst: packed,
                        pitch,
                        src: b.offset(l as isize * x.b_row),
                        width,
                        w_step: 1,
                        k_step: x.b_row,
                        kc: count,
                    });
                    (self.kernels.rows)(&Rows {
                        sums,
                        a: a.add(l),
                        b: packed,
                        b_row: pitch as isize,
                        count,
                        width: pitch,
                        asks: false,
                    });
                }
                write(x, start, std::slice::from_raw_parts(sums, width));
            }
        }
    }

    /// Columns of B are contiguous: one dot product a column, some at a time.
    unsafe fn by_columns(&self, x: &Operands<T>, k: usize, cols: Range<usize>) {
        let widened = match self.pack {
            Some(_) => MOST_COLUMNS * CHUNK + 16,
            None => 0,
        };
        let scratch = Scratch::take((k.next_multiple_of(16) + widened) * size_of::<T::Acc>());
        let copy: *mut T::Acc = scratch.start().cast();
        let together = self.kernels.columns[usize::from(self.far)];
        let mut results = [T::ZERO; RESULTS];
        // SAFETY: as above.
        unsafe {
            let packed = copy.add(k.next_multiple_of(16));
            let a = vector(x, k, copy);
            for start in cols.clone().step_by(RESULTS) {
                let end = cols.end.min(start + RESULTS);
                let mut column = start;
                while column < end {
                    let columns = if together <= end - column { together } else { 1 };
                    let b = x.b.offset(column as isize * x.b_col);
                    let mut dots = Dots {
                        sums: [[[T::ZERO; 16]; 2]; MOST_COLUMNS],
                        columns,
                        a,
                        b: b.cast(),
                        b_col: x.b_col,
                        k,
                    };
                    if let Some(pack) = self.pack {
                        for l in (0..k).step_by(CHUNK) {
                            let terms = CHUNK.min(k - l);
                            let pitch = terms.next_multiple_of(16);
                            pack(&Panel {
                                dst: packed,
                                pitch,
                                src: b.add(l),
                                width: terms,
                                w_step: 1,
                                k_step: x.b_col,
                                kc: columns,
                            });
                            (dots.a, dots.b, dots.b_col, dots.k) = (a.add(l), packed, pitch as isize, terms);
                            (self.kernels.dots)(&mut dots);
                        }
                    } else {
                        (self.kernels.dots)(&mut dots);
                    }
                    for (at, sums) in dots.sums[..columns].iter().enumerate() {
                        results[column - start + at] = total::<T>(sums);
                    }
                    column += columns;
                }
                write(x, start, &results[..end - start]);
            }
        }
    }
}

/// The sum of a column's lanes.
fn total<T: Element>(sums: &Sums<T::Acc>) -> T::Acc {
    let mut lanes: [T::Acc; 16] = std::array::from_fn(|i| T::add(sums[0][i], sums[1][i]));
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] = T::add(lanes[i], lanes[i + half]);
        }
    }
    lanes[0]
}

/// The row of A as contiguous accumulators: in place where it is that already, else copied to `copy`.
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
unsafe fn write<T: Element>(x: &Operands<T>, start: usize, sums: &[T::Acc]) {
    for (j, &sum) in sums.iter().enumerate() {
        // SAFETY: the caller has these columns.
        unsafe { *x.c.offset((start + j) as isize * x.c_col) = T::narrow(sum) }
    }
}

/// The first `count` elements of `p`, fewer than `LANES`, then what `zero` is.
#[inline(always)]
unsafe fn load_some<V: Vector>(p: *const V::Lane, count: usize, zero: V::Lane) -> V {
    let mut lanes = [zero; 16];
    // SAFETY: the caller has `count` elements, and no register has more than 16 lanes.
    unsafe {
        lanes.as_mut_ptr().copy_from_nonoverlapping(p, count);
        V::load(lanes.as_ptr())
    }
}

#[inline(always)]
unsafe fn add_rows<V: Vector<Lane: Default>>(t: &Rows<V::Lane>) {
    let mut l = 0;
    // SAFETY: the caller's contract.
    unsafe {
        while l + ROWS <= t.count {
            add::<V, ROWS>(t, l);
            l += ROWS;
        }
        while l < t.count {
            add::<V, 1>(t, l);
            l += 1;
        }
    }
}

/// `sums[j] += sum over i of a[i] b[i, j]` for some rows from `first` on, term by term in the order of i.
#[inline(always)]
unsafe fn add<V: Vector<Lane: Default>, const COUNT: usize>(t: &Rows<V::Lane>, first: usize) {
    // SAFETY: the caller has `width` columns, and sums for the registers that cover them.
    unsafe {
        let b = t.b.offset(first as isize * t.b_row);
        let mut factors = [V::zero(); COUNT];
        for (i, f) in factors.iter_mut().enumerate() {
            *f = V::splat(t.a.add(first + i));
        }
        let whole = t.width - t.width % V::LANES;
        for j in (0..whole).step_by(V::LANES) {
            let mut sum = V::load(t.sums.add(j));
            for (i, &f) in factors.iter().enumerate() {
                let from = b.offset(i as isize * t.b_row).add(j);
                if t.asks {
                    let next = from.wrapping_offset(COUNT as isize * t.b_row);
                    ask_second(next.cast(), V::LANES * size_of::<V::Lane>());
                }
                sum = sum.mul_add(f, V::load(from));
            }
            sum.store(t.sums.add(j));
        }
        if whole < t.width {
            let mut sum = V::load(t.sums.add(whole));
            for (i, &f) in factors.iter().enumerate() {
                let from = b.offset(i as isize * t.b_row).add(whole);
                sum = sum.mul_add(f, load_some(from, t.width - whole, V::Lane::default()));
            }
            sum.store(t.sums.add(whole));
        }
    }
}

#[inline(always)]
unsafe fn add_dots<V: Vector<Lane: Default>, const COLS: usize, const FAR_COLS: usize>(
    t: &mut Dots<V::Lane>,
) {
    // SAFETY: the caller's contract.
    unsafe {
        if t.columns == FAR_COLS {
            dots::<V, FAR_COLS, true>(t);
        } else if t.columns == COLS {
            dots::<V, COLS, false>(t);
        } else {
            dots::<V, 1, false>(t);
        }
    }
}

/// The order of a column's sum is the same for any number of columns. `ASKS` for what comes later in a column.
#[inline(always)]
unsafe fn dots<V: Vector<Lane: Default>, const COLS: usize, const ASKS: bool>(t: &mut Dots<V::Lane>) {
    // SAFETY: the caller has `k` elements in `a` and in each column.
    unsafe {
        let mut sums = [[V::zero(); 2]; COLS];
        for (sums, from) in sums.iter_mut().zip(&t.sums) {
            *sums = [V::load(from[0].as_ptr()), V::load(from[1].as_ptr())];
        }
        let pairs = t.k / (2 * V::LANES) * 2 * V::LANES;
        for l in (0..pairs).step_by(2 * V::LANES) {
            for half in 0..2 {
                let l = l + half * V::LANES;
                let av = V::load(t.a.add(l));
                for (c, sum) in sums.iter_mut().enumerate() {
                    let from = t.b.offset(c as isize * t.b_col).add(l);
                    if ASKS {
                        ask_second(
                            from.wrapping_byte_add(AHEAD).cast(),
                            V::LANES * size_of::<V::Lane>(),
                        );
                    }
                    sum[half] = sum[half].mul_add(av, V::load(from));
                }
            }
        }
        let zero = V::Lane::default();
        for l in (pairs..t.k).step_by(V::LANES) {
            let count = V::LANES.min(t.k - l);
            let av: V = load_some(t.a.add(l), count, zero);
            for (c, sum) in sums.iter_mut().enumerate() {
                sum[0] = sum[0].mul_add(
                    av,
                    load_some(t.b.offset(c as isize * t.b_col).add(l), count, zero),
                );
            }
        }
        for (sums, to) in sums.iter().zip(&mut t.sums) {
            sums[0].store(to[0].as_mut_ptr());
            sums[1].store(to[1].as_mut_ptr());
        }
    }
}

/// Registers or pairs of them, of as many lanes on every instruction set: sums along columns run in one order.
macro_rules! kernels {
    ($($name:ident, $s:ty: $avx512:ident, $avx2:ident, $plain:ty;)*) => {$(
        fn $name(isa: Isa) -> Kernels<$s> {
            unsafe fn rows(t: &Rows<$s>) {
                // SAFETY: same contract.
                unsafe { add_rows::<$plain>(t) }
            }
            unsafe fn dots(t: &mut Dots<$s>) {
                // SAFETY: same contract.
                unsafe { add_dots::<$plain, 1, 1>(t) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            unsafe fn rows512(t: &Rows<$s>) {
                // SAFETY: same contract.
                unsafe { add_rows::<crate::library::gemm::$avx512>(t) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            unsafe fn dots512(t: &mut Dots<$s>) {
                // SAFETY: same contract.
                unsafe { add_dots::<crate::library::gemm::$avx512, 4, MOST_COLUMNS>(t) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            unsafe fn rows256(t: &Rows<$s>) {
                // SAFETY: same contract.
                unsafe { add_rows::<Pair<crate::library::gemm::$avx2>>(t) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            unsafe fn dots256(t: &mut Dots<$s>) {
                // SAFETY: same contract.
                unsafe { add_dots::<Pair<crate::library::gemm::$avx2>, 2, 4>(t) }
            }
            let (rows, dots, columns): (RowsFn<$s>, DotsFn<$s>, [usize; 2]) = match isa {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => (rows512, dots512, [4, MOST_COLUMNS]),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => (rows256, dots256, [2, 4]),
                _ => (rows, dots, [1, 1]),
            };
            Kernels { rows, dots, columns }
        }
    )*};
}
kernels! {
    of_f32, f32: F32x16, F32x8, Lanes<f32, 16>;
    of_f64, f64: F64x8, F64x4, Lanes<f64, 8>;
}

macro_rules! products {
    ($($t:ty: |$isa:ident| $kernels:expr;)*) => {$(
        impl VectorProduct for $t {
            fn vector_kernels($isa: Isa) -> Option<VectorKernels<Self>> {
                $kernels
            }
        }
    )*};
}
products! {
    f32: |isa| Some((of_f32(isa), None));
    f64: |isa| Some((of_f64(isa), None));
    f16: |isa| widened(isa);
    bf16: |isa| widened(isa);
    Wide<f16>: |isa| widened(isa);
    Wide<bf16>: |isa| widened(isa);
    F8E4M3: |isa| widened(isa);
    F8E5M2: |isa| widened(isa);
    Byte: |_isa| None;
    i32: |_isa| None;
    i64: |_isa| None;
}

fn widened<T: Uniform<Acc = f32>>(isa: Isa) -> Option<VectorKernels<T>> {
    Some((of_f32(isa), Some(T::packing(isa, false))))
}
