//! Products of a few rows: `c[i, j] = sum over l of a[i, l] B[l, j]`. They are bound by the reading of B, so B is read where it lies, in
//! long runs. What is no whole vector at its ends is packed, and so are elements that no kernel reads.

mod code;
mod kernels;
mod squares;
#[cfg(test)]
mod tests;

use super::gemm::{
    self, Byte, Element, KC, NarrowFn, Operands, PackFn, Panel, Scratch, Uniform, Wide, piece,
};
use crate::isa::Isa;
use code::Elements;
use half::{bf16, f16};
use kernels::{Columns, Kernels, MOST_COLUMNS, ROWS, Rows, Sums};
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
/// Columns whose sums stay in L1 while rows of B go by.
const CHUNK: usize = 2048;
/// From the sums of a row of A to those of the next: on other sets of L1.
const PITCH: usize = CHUNK + 32;
/// Most terms of columns that are packed.
const TERMS: usize = 2048;
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
    /// The kernel for a product of `m` rows, `n` columns and `k` terms, if it has few rows. Whether there is one for one row and columns
    /// that are contiguous depends on extents and strides alone, because the order of sums follows from it.
    fn thin(way: (Isa, bool), x: &Operands<Self>, extents: [usize; 3]) -> Option<ThinKernel<Self>>;
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
    /// Whether the product of `m` rows should run by this kernel, where there is B `packed` or not. Several rows sum as `kernels` do, but for
    /// those with an order of their own.
    pub(crate) fn serves(&self, kernels: &super::gemm::Kernels<T>, m: usize, packed: bool) -> bool {
        m == 1 || kernels.block.is_none() && !(packed && self.squares.is_some())
    }

    /// Computes columns of C, which has `m` rows and `n` columns of `k` terms.
    ///
    /// # Safety
    /// The operands reach them, no one else writes them, and the kernels' instruction set exists.
    pub(crate) unsafe fn run(&self, x: &Operands<T>, [m, n, k]: [usize; 3], cols: Range<usize>) {
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
                minus_zero: self.minus_zero,
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

    /// Rows of B are contiguous: adds multiples of them to runs of sums. Terms are summed in the order of the kernels for many rows: the
    /// sum of a block of them is added to that of the blocks before.
    unsafe fn by_rows(&self, p: &Place<'_, T>, cols: Range<usize>) {
        let pairs = p.k.div_ceil(self.lane);
        let blocks = pairs.div_ceil(KC);
        let chunk = if p.m > 1 { CHUNK / 2 } else { CHUNK };
        for start in cols.clone().step_by(chunk) {
            let width = chunk.min(cols.end - start);
            // SAFETY: as the caller's; there are `PITCH` sums of each row, and as many of the blocks before.
            unsafe {
                let before = p.sums.add(p.m * PITCH);
                for block in 0..blocks {
                    let terms = piece(pairs, blocks, block);
                    let terms = terms.start * self.lane..p.k.min(terms.end * self.lane);
                    self.block(p, start..start + width, terms);
                    for i in (0..p.m).filter(|_| blocks > 1) {
                        for j in i * PITCH..i * PITCH + width {
                            let (sum, to) = (*p.sums.add(j), before.add(j));
                            to.write(if block == 0 { sum } else { T::add(*to, sum) });
                        }
                    }
                }
                let sums = if blocks > 1 { before } else { p.sums };
                self.write(p.x, p.m, start, (sums, PITCH), width);
            }
        }
    }

    /// The sums of some terms of some columns.
    unsafe fn block(&self, p: &Place<'_, T>, cols: Range<usize>, terms: Range<usize>) {
        let (lanes, width) = (lanes::<T::Acc>(), cols.len());
        let whole = terms.end - terms.len() % ROWS;
        let direct = self.direct.as_ref().filter(|_| whole > terms.start);
        let inner = if direct.is_some() {
            width - width % lanes
        } else {
            0
        };
        // SAFETY: as the caller's; there is memory for as many columns of a block of rows.
        unsafe {
            for i in 0..p.m {
                for j in 0..width.next_multiple_of(lanes) {
                    p.sums.add(i * PITCH + j).write(T::ZERO);
                }
            }
            let row = |l: usize| p.x.b.add(cols.start).offset(l as isize * p.x.b_row);
            if let Some(kernels) = direct.filter(|_| inner > 0) {
                let b = (row(terms.start).cast(), p.x.b_row * size_of::<T>() as isize);
                let a = (p.a.0.add(terms.start), p.a.1);
                p.add(kernels, a, b, (whole - terms.start) / ROWS, 0..inner, self.far);
            }
            for l in terms.clone().step_by(ROWS) {
                let (a, from) = match l < whole {
                    true => ((p.a.0.add(l), p.a.1), inner),
                    false => (p.rest(whole..terms.end, ROWS, self.lane), 0),
                };
                if from == width {
                    continue;
                }
                let (count, pitch) = (ROWS.min(terms.end - l), (width - from).next_multiple_of(lanes));
                (self.pack)(&Panel {
                    dst: p.packed,
                    pitch,
                    src: row(l).add(from),
                    width: width - from,
                    w_step: 1,
                    k_step: p.x.b_row,
                    kc: count,
                });
                for i in count * pitch..ROWS * pitch {
                    p.packed.add(i).write(T::ZERO);
                }
                let b = (
                    p.packed.cast_const().cast(),
                    (pitch * size_of::<T::Acc>()) as isize,
                );
                p.add(&self.packed, a, b, 1, from..from + pitch, false);
            }
        }
    }

    /// Columns of B are contiguous, and there is one row of A: dot products.
    unsafe fn by_columns(&self, p: &Place<'_, T>, cols: Range<usize>) {
        let (step, size) = (lanes::<T::Acc>(), size_of::<T::Acc>());
        let whole = p.k - p.k % step;
        let terms = match self.direct {
            Some(_) => whole.max(1),
            None => TERMS,
        };
        // SAFETY: as the caller's; there are `RESULTS` sums and lanes of `MOST_COLUMNS`, and memory for as many columns of `TERMS`.
        unsafe {
            let under_way = p.sums.add(RESULTS);
            let (rest, _) = p.rest(whole..p.k, step, 1);
            for start in cols.clone().step_by(RESULTS) {
                let end = cols.end.min(start + RESULTS);
                for first in (start..end).step_by(self.packed.group) {
                    let columns = self.packed.group.min(end - first);
                    let b = p.x.b.offset(first as isize * p.x.b_col);
                    for i in 0..columns * step {
                        under_way.add(i).write(T::ZERO);
                    }
                    let pack = |l: usize, terms: usize, pitch: usize| {
                        (self.pack)(&Panel {
                            dst: p.packed,
                            pitch,
                            src: b.add(l),
                            width: terms,
                            w_step: 1,
                            k_step: p.x.b_col,
                            kc: columns,
                        });
                        (p.packed.cast_const().cast(), (pitch * size) as isize)
                    };
                    for l in (0..whole).step_by(terms) {
                        let count = terms.min(whole - l);
                        let (kernels, b) = match &self.direct {
                            Some(direct) => {
                                let col = p.x.b_col * size_of::<T>() as isize;
                                (direct, (b.add(l).cast(), col))
                            }
                            None => (&self.packed, pack(l, count, count)),
                        };
                        dots(kernels, p.a.0.add(l), b, count / step, columns, under_way);
                    }
                    if whole < p.k {
                        let b = pack(whole, p.k - whole, step);
                        dots(&self.packed, rest, b, 1, columns, under_way);
                    }
                    (self.totals)(under_way, p.sums.add(first - start), columns);
                }
                self.write(p.x, 1, start, (p.sums, RESULTS), end - start);
            }
        }
    }
}

/// A product under way.
struct Place<'a, T: Element> {
    x: &'a Operands<T>,
    m: usize,
    k: usize,
    minus_zero: T::Acc,
    a: Read<T::Acc>,
    /// Memory for elements of A that are no whole block.
    rest: *mut T::Acc,
    /// Sums, and those of blocks before or the lanes of those under way.
    sums: *mut T::Acc,
    /// Memory for elements of B.
    packed: *mut T::Acc,
}

impl<T: Element> Place<'_, T> {
    /// Copies terms of A, fewer than `block`, and fills up to as many with -0: times a zero of B, it changes no sum. Products of many rows
    /// have +0 as the second of a pair.
    unsafe fn rest(&self, terms: Range<usize>, block: usize, lane: usize) -> Read<T::Acc> {
        let pairs = terms.len().next_multiple_of(lane);
        for i in 0..self.m {
            for l in 0..block {
                // SAFETY: A has these terms, and `rest` room for a block of each row.
                unsafe {
                    let row = self.a.0.byte_offset(i as isize * self.a.1);
                    let value = match l < terms.len() {
                        true => *row.add(terms.start + l),
                        false if l < pairs => T::ZERO,
                        false => self.minus_zero,
                    };
                    self.rest.add(i * block + l).write(value);
                }
            }
        }
        (self.rest, (block * size_of::<T::Acc>()) as isize)
    }

    /// Adds blocks of rows of B to the sums of some columns.
    unsafe fn add(
        &self,
        kernels: &Kernels<T::Acc>,
        (a, a_row): Read<T::Acc>,
        (b, b_row): (*const u8, isize),
        blocks: usize,
        columns: Range<usize>,
        asks: bool,
    ) {
        let kernel = kernels.rows[usize::from(self.m > 1)][usize::from(asks)];
        // SAFETY: the caller has the rows, the columns and their sums.
        unsafe {
            kernel(&mut Rows {
                sums: self.sums.add(columns.start),
                pitch: PITCH * size_of::<T::Acc>(),
                rows: self.m,
                a,
                a_row,
                b,
                b_row,
                blocks,
                width: columns.len(),
            });
        }
    }
}

/// Adds dot products with `columns` columns of B to the lanes of their sums.
unsafe fn dots<S>(
    kernels: &Kernels<S>,
    a: *const S,
    (b, b_col): (*const u8, isize),
    steps: usize,
    columns: usize,
    to: *mut S,
) {
    let mut column = 0;
    while column < columns {
        let (taken, kernel) = match column + kernels.columns <= columns {
            true => (kernels.columns, kernels.whole),
            false => (1, kernels.single),
        };
        // SAFETY: the caller has the terms of these columns, and lanes for their sums.
        unsafe {
            kernel(&Columns {
                a,
                b: b.offset(column as isize * b_col),
                b_col,
                steps,
                lanes: to.add(column * lanes::<S>()),
            });
        }
        column += taken;
    }
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
            fn thin(way: (Isa, bool), x: &Operands<Self>, extents: [usize; 3]) -> Option<ThinKernel<Self>> {
                ThinKernel::new(way, $elements, x, extents)
            }
        }
    )*};
    ($($t:ty),*) => {$(
        impl ThinProduct for $t {
            fn thin(_: (Isa, bool), _: &Operands<Self>, _: [usize; 3]) -> Option<ThinKernel<Self>> {
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
products!(Byte, i32, i64);
