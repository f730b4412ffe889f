//! Loops of reductions, along a block (`row_…`) and across blocks (`column_…`), with the same bits.
//!
//! The order of a sum over elements 0..J is fixed: element j belongs to segment j / 65536 and there to lane j % 16.
//! A lane adds its elements of each chunk of 256 in order, starting at 0, and then the chunks in order, starting at 0.
//! The 16 lanes of a segment are added pairwise (l and l + 8, then 4, 2, 1), and the segments as neighbours pairwise,
//! an odd last one passing through.

mod across;
mod lines;
mod windows;

use super::num::Num;
use super::{Held, with_bits, with_type};
use crate::isa::{Isa, versions};
use across::{ColumnBestFn, ColumnFoldFn, pick_column_best, pick_column_fold};
pub(crate) use lines::LineFn;
use std::marker::PhantomData;
use thalweg_hal::ir::ReduceOp;
pub(crate) use windows::{LONG, Lines, SLACK, WindowsFn};

/// Lanes of a sum.
pub(crate) const LANES: usize = 16;
/// Elements that a lane set adds before they join the totals.
pub(crate) const CHUNK: usize = 256;
/// Elements of a segment, the unit of parallel work within a row.
pub(crate) const SEGMENT: usize = 65536;

versions!(
    /// Adds `n` elements, the first at a multiple of 256, to the 16 totals of a segment.
    RowFold, pick_row_fold, FoldFn(n: usize, totals: *mut u8, x: *const u8)
);
versions!(
    /// `acc[i] = op(acc[i], x[i])`.
    Accumulate, pick_accumulate, AccumulateFn(n: usize, acc: *mut u8, x: *const u8)
);
versions!(
    /// Adds up lanes 0..`lanes` of `n` elements each; the sum is in lane 0.
    Tree, pick_tree, TreeFn(n: usize, lanes: usize, base: *mut u8)
);
versions!(
    /// Takes the elements `first..first + n` of a row into its best one.
    RowBest, pick_row_best, BestFn(n: usize, best: *mut Best, x: *const u8, first: i64)
);
/// The best element so far: the key of `Num::key`, inverted for minima, and its place, -1 before the first.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Best {
    pub(crate) key: i64,
    pub(crate) index: i64,
}

impl Best {
    /// Takes `other`, whose elements come later, in.
    pub(crate) fn merge(&mut self, other: Best) {
        if other.index >= 0 && (self.index < 0 || other.key > self.key) {
            *self = other;
        }
    }
}

/// The loops of one reduction.
#[derive(Clone, Copy)]
pub(crate) enum Reduction {
    /// Sum or product.
    Fold {
        /// Along a block.
        row: FoldFn,
        /// Across blocks, and of partial results.
        accumulate: AccumulateFn,
        /// Across the rows of a chunk at once, of floats that are added.
        columns: Option<ColumnFoldFn>,
        /// Across lines of f32 at any places, which are added.
        lines: Option<LineFn>,
        /// Of the lanes.
        tree: TreeFn,
        /// Bits of the neutral element.
        neutral: u64,
    },
    /// Maximum or minimum, or its place.
    Best {
        /// Along a block.
        row: BestFn,
        /// Across blocks.
        column: ColumnBestFn,
        /// The values themselves, of f32 in windows along a line.
        windows: Option<WindowsFn>,
        /// The values themselves, across lines of f32 at any places.
        lines: Option<LineFn>,
        /// From keys to values.
        value: AccumulateFn,
        /// Key over nothing.
        start: i64,
        /// Bytes of a key.
        key_size: usize,
        /// Whether the place is asked for.
        place: bool,
    },
}

struct Sum<T>(PhantomData<T>);
struct Prod<T>(PhantomData<T>);

trait Fold {
    type T: Num;
    const START: Self::T;
    /// As that of its loops.
    const WIDEST: Isa;
    /// Whether chunks are taken side by side, so that one does not wait for the sums of another.
    const SIDE_BY_SIDE: bool;
    fn fold(a: Self::T, b: Self::T) -> Self::T;
}

impl<T: Num> Fold for Sum<T> {
    type T = T;
    const START: T = T::ZERO;
    const WIDEST: Isa = T::WIDEST;
    const SIDE_BY_SIDE: bool = T::IS_FLOAT;
    #[inline(always)]
    fn fold(a: T, b: T) -> T {
        a.add(b)
    }
}

impl<T: Num> Fold for Prod<T> {
    type T = T;
    const START: T = T::ONE;
    const WIDEST: Isa = if T::IS_FLOAT { Isa::Avx2 } else { Isa::Baseline };
    const SIDE_BY_SIDE: bool = false;
    #[inline(always)]
    fn fold(a: T, b: T) -> T {
        a.mul(b)
    }
}

/// Folds `G` neighbouring chunks at a time.
#[inline(always)]
unsafe fn fold_chunks<F: Fold, const G: usize>(totals: &mut [F::T; LANES], x: *const F::T) {
    let mut lanes = [[F::START; LANES]; G];
    for k in 0..CHUNK / LANES {
        for (g, lanes) in lanes.iter_mut().enumerate() {
            for (l, lane) in lanes.iter_mut().enumerate() {
                // SAFETY: the caller vouches for G chunks.
                *lane = F::fold(*lane, unsafe { *x.add(g * CHUNK + k * LANES + l) });
            }
        }
    }
    for lanes in lanes {
        for l in 0..LANES {
            totals[l] = F::fold(totals[l], lanes[l]);
        }
    }
}

impl<F: Fold> RowFold for F {
    const WIDEST: Isa = F::WIDEST;

    #[inline(always)]
    unsafe fn run(n: usize, totals: *mut u8, x: *const u8) {
        let x = x.cast::<F::T>();
        // SAFETY: the caller passes the 16 totals and n elements.
        unsafe {
            let totals = &mut *totals.cast::<[F::T; LANES]>();
            let mut at = 0;
            while F::SIDE_BY_SIDE && n - at >= 4 * CHUNK {
                fold_chunks::<F, 4>(totals, x.add(at));
                at += 4 * CHUNK;
            }
            while n - at >= CHUNK {
                fold_chunks::<F, 1>(totals, x.add(at));
                at += CHUNK;
            }
            if at < n {
                let mut lanes = [F::START; LANES];
                while n - at >= LANES {
                    for (l, lane) in lanes.iter_mut().enumerate() {
                        *lane = F::fold(*lane, *x.add(at + l));
                    }
                    at += LANES;
                }
                for (l, lane) in lanes.iter_mut().enumerate().take(n - at) {
                    *lane = F::fold(*lane, *x.add(at + l));
                }
                for l in 0..LANES {
                    totals[l] = F::fold(totals[l], lanes[l]);
                }
            }
        }
    }
}

impl<F: Fold> Accumulate for F {
    const WIDEST: Isa = F::WIDEST;

    #[inline(always)]
    unsafe fn run(n: usize, acc: *mut u8, x: *const u8) {
        let (acc, x) = (acc.cast::<F::T>(), x.cast::<F::T>());
        for i in 0..n {
            // SAFETY: i < n.
            unsafe { *acc.add(i) = F::fold(*acc.add(i), *x.add(i)) };
        }
    }
}

impl<F: Fold> Tree for F {
    const WIDEST: Isa = F::WIDEST;

    #[inline(always)]
    unsafe fn run(n: usize, lanes: usize, base: *mut u8) {
        let base = base.cast::<F::T>();
        let mut half = LANES / 2;
        if n == 1 && lanes == LANES {
            // SAFETY: all lanes are there.
            let mut sums = unsafe { *base.cast::<[F::T; LANES]>() };
            while half > 0 {
                for l in 0..half {
                    sums[l] = F::fold(sums[l], sums[l + half]);
                }
                half /= 2;
            }
            // SAFETY: as above.
            unsafe { *base = sums[0] };
            return;
        }
        while half > 0 {
            for l in half..lanes.min(2 * half) {
                // SAFETY: lanes l and l - half lie within the caller's lanes.
                unsafe {
                    let (to, from) = (base.add((l - half) * n), base.add(l * n));
                    for i in 0..n {
                        *to.add(i) = F::fold(*to.add(i), *from.add(i));
                    }
                }
            }
            half /= 2;
        }
    }
}

/// `MAX`: maximum, NaN on top; otherwise the minimum as the maximum of inverted keys.
struct Greatest<T, const MAX: bool>(PhantomData<T>);
struct Place<T, const MAX: bool>(PhantomData<T>);
struct Value<T, const MAX: bool>(PhantomData<T>);

/// Keys that can be inverted and read from an i64.
trait Key: Copy + Ord + Into<i64> + 'static {
    fn invert(self) -> Self;
}

impl Key for i8 {
    #[inline(always)]
    fn invert(self) -> i8 {
        !self
    }
}

impl Key for i32 {
    #[inline(always)]
    fn invert(self) -> i32 {
        !self
    }
}

impl Key for i64 {
    #[inline(always)]
    fn invert(self) -> i64 {
        !self
    }
}

#[inline(always)]
fn key<T: Num<Key: Key>, const MAX: bool>(x: T) -> T::Key {
    if MAX {
        x.key::<true>()
    } else {
        x.key::<false>().invert()
    }
}

/// The key of the worst value.
fn start<T: Num<Key: Key>, const MAX: bool>() -> i64 {
    if MAX {
        T::LEAST.into()
    } else {
        T::GREATEST.invert().into()
    }
}

/// For loops of the greatest: AVX2 takes two instructions for that of 64 bits.
const fn widest<T: Num>() -> Isa {
    if size_of::<T>() == 8 {
        Isa::Avx512
    } else {
        T::WIDEST
    }
}

#[inline(always)]
unsafe fn best_of<T: Num<Key: Key>, const MAX: bool>(n: usize, x: *const T) -> T::Key {
    // SAFETY: the caller vouches for n > 0 elements.
    unsafe {
        let mut best = key::<T, MAX>(*x);
        for i in 0..n {
            best = best.max(key::<T, MAX>(*x.add(i)));
        }
        best
    }
}

impl<T: Num<Key: Key>, const MAX: bool> RowBest for Greatest<T, MAX> {
    const WIDEST: Isa = widest::<T>();

    #[inline(always)]
    unsafe fn run(n: usize, best: *mut Best, x: *const u8, _first: i64) {
        if n > 0 {
            // SAFETY: the caller's promise.
            unsafe { (*best).key = Ord::max((*best).key, best_of::<T, MAX>(n, x.cast()).into()) };
        }
    }
}

impl<T: Num<Key: Key>, const MAX: bool> RowBest for Place<T, MAX> {
    const WIDEST: Isa = widest::<T>();

    #[inline(always)]
    unsafe fn run(n: usize, best: *mut Best, x: *const u8, first: i64) {
        if n == 0 {
            return;
        }
        let x = x.cast::<T>();
        // SAFETY: the caller's promise.
        unsafe {
            let best = &mut *best;
            let here = best_of::<T, MAX>(n, x);
            if here.into() > best.key || best.index < 0 {
                let at = (0..n).find(|&i| key::<T, MAX>(*x.add(i)) == here).unwrap_or(0);
                *best = Best {
                    key: here.into(),
                    index: first + at as i64,
                };
            }
        }
    }
}

impl<T: Num<Key: Key>, const MAX: bool> Accumulate for Value<T, MAX> {
    const WIDEST: Isa = Isa::Baseline;

    #[inline(always)]
    unsafe fn run(n: usize, out: *mut u8, keys: *const u8) {
        let (out, keys) = (out.cast::<T>(), keys.cast::<T::Key>());
        for i in 0..n {
            // SAFETY: i < n.
            unsafe {
                let key = *keys.add(i);
                *out.add(i) = T::from_key(if MAX { key } else { key.invert() });
            }
        }
    }
}

fn fold<F: Fold>(isa: Isa) -> Reduction {
    let mut neutral = [0u8; 8];
    let start = F::START;
    // SAFETY: a number of at most 8 bytes is read as bytes.
    unsafe {
        neutral
            .as_mut_ptr()
            .copy_from_nonoverlapping((&raw const start).cast(), size_of::<F::T>());
    }
    Reduction::Fold {
        row: pick_row_fold::<F>(isa),
        accumulate: pick_accumulate::<F>(isa),
        columns: if const { F::SIDE_BY_SIDE } {
            Some(pick_column_fold::<F>(isa))
        } else {
            None
        },
        lines: None,
        tree: pick_tree::<F>(isa),
        neutral: u64::from_le_bytes(neutral),
    }
}

fn best<T: Num<Key: Key>, const MAX: bool>(isa: Isa, place: bool) -> Reduction {
    Reduction::Best {
        row: if place {
            pick_row_best::<Place<T, MAX>>(isa)
        } else {
            pick_row_best::<Greatest<T, MAX>>(isa)
        },
        column: if place {
            pick_column_best::<Place<T, MAX>>(isa)
        } else {
            pick_column_best::<Greatest<T, MAX>>(isa)
        },
        windows: None,
        lines: None,
        value: pick_accumulate::<Value<T, MAX>>(isa),
        start: start::<T, MAX>(),
        key_size: size_of::<T::Key>(),
        place,
    }
}

/// The loops of `op` on values of a type.
pub(crate) fn reduction(isa: Isa, op: ReduceOp, held: Held) -> Reduction {
    match op {
        ReduceOp::Sum => with_bits!(held, T => fold::<Sum<T>>(isa)).of_lines(held, lines::sums(isa)),
        ReduceOp::Prod => with_bits!(held, T => fold::<Prod<T>>(isa)),
        ReduceOp::Max => {
            let best = with_type!(held, T => best::<T, true>(isa, false));
            best.of_windows(held, windows::bests::<true>(isa))
                .of_lines(held, lines::bests::<true>(isa))
        }
        ReduceOp::Min => with_type!(held, T => best::<T, false>(isa, false))
            .for_bool(held)
            .of_windows(held, windows::bests::<false>(isa))
            .of_lines(held, lines::bests::<false>(isa)),
        ReduceOp::ArgMax => with_type!(held, T => best::<T, true>(isa, true)),
        ReduceOp::ArgMin => with_type!(held, T => best::<T, false>(isa, true)),
    }
}

impl Reduction {
    fn of_windows(mut self, held: Held, take: Option<WindowsFn>) -> Reduction {
        if let (Reduction::Best { windows, .. }, Held::F32) = (&mut self, held) {
            *windows = take;
        }
        self
    }

    fn of_lines(mut self, held: Held, take: LineFn) -> Reduction {
        if let (Reduction::Fold { lines, .. } | Reduction::Best { lines, .. }, Held::F32) = (&mut self, held)
        {
            *lines = Some(take);
        }
        self
    }

    /// What reduces lines at any places.
    pub(crate) fn lines(&self) -> Option<LineFn> {
        match *self {
            Reduction::Fold { lines, .. } | Reduction::Best { lines, .. } => lines,
        }
    }

    /// The minimum of no bools is true, and that is 1, not the greatest byte.
    fn for_bool(mut self, held: Held) -> Reduction {
        if let (Reduction::Best { start, .. }, Held::Bool) = (&mut self, held) {
            *start = key::<u8, false>(1).into();
        }
        self
    }
}
