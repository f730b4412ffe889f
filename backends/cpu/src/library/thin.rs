//! Products of a few rows: `c[i, j] = sum over l of a[i, l] B[l, j]`. They are bound by the reading of B, so B is read where it lies, in
//! long runs. What is no whole vector at its ends is packed, and so are elements that no kernel reads.

mod bytes;
mod code;
mod columns;
mod kernels;
mod rows;
mod squares;
#[cfg(test)]
mod tests;

use super::gemm::{self, Byte, Element, NarrowFn, Operands, PackFn, Scratch, Uniform, Wide};
use crate::isa::Isa;
use bytes::FewBytes;
use code::Elements;
use columns::TERMS;
use half::{bf16, f16};
use kernels::{Kernels, MOST_COLUMNS, ROWS, Sums};
use rows::{CHUNK, PITCH};
use std::convert::Infallible;
use std::ops::Range;
use thalweg_hal::f8::{F8E4M3, F8E5M2};

/// Most rows.
const FEW: usize = 14;
/// The same where rows of B are short, or many rows are summed by an instruction for pairs.
const FEWER: usize = 8;
/// Columns of short rows.
const SHORT: usize = 256;
/// Elements of B from which it costs more to pack than it saves, where there are several rows.
const LARGE: usize = 1 << 16;
/// Terms from which that is so.
const LONG: usize = 128;
/// Bytes of a matrix from which most of it is read from memory rather than from a cache.
const FAR: usize = if cfg!(test) { 4 << 10 } else { 32 << 20 };
/// Columns whose results are rounded at once, as many as make whole groups.
const RESULTS: usize = 48;

/// A product of few rows, if there are kernels for it. Sums of one row and columns that are contiguous have an order of their own; others
/// run in that of products of many rows.
pub(crate) struct ThinKernel<T: Element> {
    /// The kernels for B as it lies, if there are some.
    direct: Option<Kernels<T::Acc>>,
    /// Those for sums, and what makes them of elements.
    packed: Kernels<T::Acc>,
    pack: PackFn<T>,
    narrow: NarrowFn<T>,
    /// [`Sums::totals`].
    totals: unsafe fn(*const T::Acc, *mut T::Acc, usize),
    minus_zero: T::Acc,
    by_rows: bool,
    /// The kernel of several rows where columns of B are contiguous.
    squares: Option<squares::Kernel<T::Acc>>,
    /// Terms whose order within a sum is that of [`Elements::in_pairs`].
    lane: usize,
    /// Whether B is read from memory.
    far: bool,
}

/// Types that may have kernels of their own for products of few rows.
pub(crate) trait ThinProduct: Element {
    type Few: Few<Self>;
    /// The kernel for a product of `m` rows, `n` columns and `k` terms, if it has few rows, where `kernels` are those of many. Whether there
    /// is one for one row and columns that are contiguous depends on extents and strides alone, because the order of sums follows from it.
    fn thin(
        way: (Isa, bool),
        kernels: &gemm::Kernels<Self>,
        x: &Operands<Self>,
        extents: [usize; 3],
    ) -> Option<Self::Few>;
}

/// A product of few rows.
pub(crate) trait Few<T: Element>: Sync {
    /// Whether it should compute `m` rows, where there is B `packed` or not.
    fn serves(&self, kernels: &gemm::Kernels<T>, m: usize, packed: bool) -> bool;

    /// Computes columns of C, which has `m` rows and `n` columns of `k` terms.
    ///
    /// # Safety
    /// The operands reach them, no one else writes them, and the kernels' instruction set exists.
    unsafe fn run(&self, x: &Operands<T>, extents: [usize; 3], cols: Range<usize>);
}

impl<T: Element> Few<T> for Infallible {
    fn serves(&self, _: &gemm::Kernels<T>, _: usize, _: bool) -> bool {
        match *self {}
    }

    unsafe fn run(&self, _: &Operands<T>, _: [usize; 3], _: Range<usize>) {
        match *self {}
    }
}

/// Whether a product of `m` rows, `n` columns and `k` terms, or else the transposed one, may have few rows: `Some(false)` or `Some(true)`.
pub(crate) fn few([m, n, k]: [usize; 3]) -> Option<bool> {
    let (rows, columns) = (m.min(n), m.max(n));
    let large = k >= LONG && k.saturating_mul(columns) >= LARGE;
    (k > 0 && rows <= FEW && (rows == 1 || large)).then_some(n < m)
}

impl<T: Uniform<Acc: Sums>> ThinKernel<T> {
    fn new(
        (isa, codegen): (Isa, bool),
        elements: Option<Elements>,
        x: &Operands<T>,
        [m, n, k]: [usize; 3],
    ) -> Option<ThinKernel<T>> {
        let by_rows = match (x.b_col, x.b_row) {
            (1, _) => true,
            (_, 1) => false,
            _ => return None,
        };
        if few([m, n, k]) != Some(false) {
            return None;
        }
        let written = |elements| codegen.then(|| code::kernels(isa, elements)).flatten();
        if by_rows && m > 1 {
            let by_pairs = elements? == Elements::Bf16 && isa.sums_halves_fast();
            if m > FEWER && (n < SHORT || by_pairs) {
                return None;
            }
        }
        let squares = match by_rows || m == 1 {
            true => None,
            false => {
                let squared = elements.filter(|_| codegen)?.squared(isa)?;
                let kernel = squares::kernel(isa, squared)?;
                Some(squared.serve(isa, [m, n, k]).then_some(kernel)?)
            }
        };
        let in_pairs = by_rows && elements.is_some_and(Elements::in_pairs);
        let packed = match in_pairs {
            true => written(Elements::Bf16Widened)?,
            false => T::Acc::kernels(isa, codegen),
        };
        let direct = match T::DIRECT {
            true => Some(packed),
            false => elements.and_then(written),
        };
        Some(ThinKernel {
            direct,
            packed,
            pack: T::packing(isa, codegen),
            narrow: gemm::narrow::<T>(isa),
            totals: T::Acc::totals,
            minus_zero: T::Acc::MINUS_ZERO,
            by_rows,
            squares,
            lane: if in_pairs { 2 } else { 1 },
            far: k.saturating_mul(n).saturating_mul(size_of::<T>()) >= FAR,
        })
    }
}

/// Elements of the lanes of a sum.
const fn lanes<S>() -> usize {
    128 / size_of::<S>()
}

/// The rows of A as they are read: the first element, and the bytes from row to row.
type Read<S> = (*const S, isize);

impl<T: Element> ThinKernel<T> {
    /// Copies terms of A, fewer than `block`, and fills up to as many with -0: times a zero of B, it changes no sum. Products of many rows
    /// have +0 as the second of a pair.
    unsafe fn rest(&self, p: &Place<'_, T>, terms: Range<usize>, block: usize) -> Read<T::Acc> {
        let pairs = terms.len().next_multiple_of(self.lane);
        for i in 0..p.m {
            for l in 0..block {
                // SAFETY: A has these terms, and `rest` room for a block of each row.
                unsafe {
                    let row = p.a.0.byte_offset(i as isize * p.a.1);
                    let value = match l < terms.len() {
                        true => *row.add(terms.start + l),
                        false if l < pairs => T::ZERO,
                        false => self.minus_zero,
                    };
                    p.rest.add(i * block + l).write(value);
                }
            }
        }
        (p.rest, (block * size_of::<T::Acc>()) as isize)
    }

    /// Rounds `m` runs of sums into C from column `start` on.
    unsafe fn write(
        &self,
        x: &Operands<T>,
        m: usize,
        start: usize,
        (sums, pitch): (*const T::Acc, usize),
        width: usize,
    ) {
        let c = x.c.wrapping_offset(start as isize * x.c_col);
        // SAFETY: the caller has these columns, and their sums.
        unsafe {
            if x.c_col == 1 {
                return (self.narrow)((c, x.c_row), (sums, pitch), [m, width]);
            }
            for (i, j) in (0..m).flat_map(|i| (0..width).map(move |j| (i, j))) {
                let at = (i as isize * x.c_row).wrapping_add(j as isize * x.c_col);
                *c.wrapping_offset(at) = T::narrow(*sums.add(i * pitch + j));
            }
        }
    }
}

impl<T: Element> Few<T> for ThinKernel<T> {
    /// Several rows sum as `kernels` do, but for those with an order of their own.
    fn serves(&self, kernels: &gemm::Kernels<T>, m: usize, packed: bool) -> bool {
        m == 1 || kernels.block.is_none() && !(packed && self.squares.is_some())
    }

    unsafe fn run(&self, x: &Operands<T>, [m, n, k]: [usize; 3], cols: Range<usize>) {
        if let Some(kernel) = &self.squares {
            // SAFETY: same contract.
            return unsafe { self.by_squares(kernel, x, [m, n, k], cols) };
        }
        let step = lanes::<T::Acc>();
        let in_place = T::DIRECT && x.a_col == 1;
        let (block, sums, packed) = match self.by_rows {
            true => (ROWS, 2 * m * PITCH, ROWS * CHUNK),
            false => (step, RESULTS + MOST_COLUMNS * step, MOST_COLUMNS * TERMS),
        };
        let (rest, copied) = (m * block, if in_place { 0 } else { m * k });
        let scratch = Scratch::take((sums + packed + step + rest + copied) * size_of::<T::Acc>());
        let sums_at: *mut T::Acc = scratch.start().cast();
        // SAFETY: the scratch memory has the length asked for, the operands' extents are the caller's contract.
        unsafe {
            let packed_at = sums_at.add(sums);
            let rest_at = packed_at.add(packed + step);
            let a: Read<T::Acc> = match in_place {
                true => (x.a.cast(), x.a_row * size_of::<T>() as isize),
                false => widened(x, [m, k], rest_at.add(rest)),
            };
            let place = Place {
                x,
                m,
                k,
                a,
                rest: rest_at,
                sums: sums_at,
                packed: packed_at,
            };
            if self.by_rows {
                self.by_rows(&place, cols);
            } else {
                self.by_columns(&place, cols);
            }
        }
    }
}

/// A product under way.
struct Place<'a, T: Element> {
    x: &'a Operands<T>,
    m: usize,
    k: usize,
    a: Read<T::Acc>,
    /// Memory for elements of A that are no whole block.
    rest: *mut T::Acc,
    /// Sums, and those of blocks before or the lanes of those under way.
    sums: *mut T::Acc,
    /// Memory for elements of B.
    packed: *mut T::Acc,
}

/// The rows of A as contiguous accumulators in `to`.
unsafe fn widened<T: Element>(x: &Operands<T>, [m, k]: [usize; 2], to: *mut T::Acc) -> Read<T::Acc> {
    for i in 0..m {
        let row = x.a.wrapping_offset(i as isize * x.a_row);
        for l in 0..k {
            // SAFETY: A has these elements, and so has `to`.
            unsafe {
                to.add(i * k + l)
                    .write((*row.offset(l as isize * x.a_col)).widen())
            }
        }
    }
    (to, (k * size_of::<T::Acc>()) as isize)
}

macro_rules! products {
    ($($t:ty: $elements:expr;)*) => {$(
        impl ThinProduct for $t {
            type Few = ThinKernel<$t>;
            fn thin(way: (Isa, bool), _: &gemm::Kernels<$t>, x: &Operands<$t>, extents: [usize; 3]) -> Option<ThinKernel<$t>> {
                ThinKernel::new(way, $elements, x, extents)
            }
        }
    )*};
    ($($t:ty),*) => {$(
        impl ThinProduct for $t {
            type Few = Infallible;
            fn thin(_: (Isa, bool), _: &gemm::Kernels<$t>, _: &Operands<$t>, _: [usize; 3]) -> Option<Infallible> {
                None
            }
        }
    )*};
}
products! {
    f32: Some(Elements::F32);
    f64: Some(Elements::F64);
    f16: Some(Elements::F16);
    bf16: Some(Elements::Bf16);
    Wide<f16>: Some(Elements::F16);
    Wide<bf16>: Some(Elements::Bf16);
    F8E4M3: None;
    F8E5M2: None;
}
products!(i32, i64);

impl ThinProduct for Byte {
    type Few = FewBytes;
    fn thin(
        way: (Isa, bool),
        kernels: &gemm::Kernels<Byte>,
        x: &Operands<Byte>,
        extents: [usize; 3],
    ) -> Option<FewBytes> {
        FewBytes::new(way, kernels.fours?, x, extents)
    }
}
