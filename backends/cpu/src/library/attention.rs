//! Attention a block of keys at a time: scores and weights never leave the cache. Milakov and Gimelshein, Online normalizer
//! calculation for softmax (2018); Dao et al., FlashAttention (2022).

use super::gemm::{self, Element, Isa as Tiles, Kernels, Operands, Scratch, packed_len, piece};
use crate::exec::{Arg, Args};
use crate::isa::{Isa, versions};
use crate::math::{exp2_below_one, exp64};
use crate::parallel::Parallel;
use half::{bf16, f16};
use std::ops::Range;
use thalweg_hal::DType;
use thalweg_hal::library::Attention;

/// Most queries of a block. Blocks follow from the extents alone, and so do the keys that a causal block leaves out.
const QUERIES: usize = 112;
/// Most keys of a block: their scores, keys and values stay in L2.
const KEYS: usize = 256;
/// Blocks of queries of a task, which share the packing of keys and values.
const SHARED: usize = 8;
/// Multiply-adds that are worth a hand-off to another thread.
const GRAIN: usize = 1 << 19;

/// A compiled attention.
pub struct AttentionKernel {
    op: Attention,
}

impl AttentionKernel {
    pub(super) fn compile(op: &Attention) -> AttentionKernel {
        AttentionKernel { op: op.clone() }
    }

    /// Multiply-adds of a launch.
    pub(super) fn products(&self, extents: &[u64]) -> u64 {
        let (outer, inner) = extents.split_at(extents.len().saturating_sub(3));
        let [width, keys, depth] = inner else { return 0 };
        (outer.iter().chain([keys])).fold(width.saturating_add(*depth), |all, &extent| {
            all.saturating_mul(extent)
        })
    }

    /// # Safety
    /// As [`crate::exec::Program::run`].
    pub(super) unsafe fn run(&self, args: &Args<'_>, parallel: &dyn Parallel) {
        // SAFETY: the caller vouches for the operands.
        unsafe {
            match self.op.dtype {
                DType::F64 => self.typed::<f64>(args, parallel),
                DType::F16 => self.typed::<f16>(args, parallel),
                DType::BF16 => self.typed::<bf16>(args, parallel),
                _ => self.typed::<f32>(args, parallel),
            }
        }
    }

    unsafe fn typed<T: Element<Acc: Score>>(&self, args: &Args<'_>, parallel: &dyn Parallel) {
        let axes = self.op.batch as usize;
        let (batch, &[queries, width, keys, depth]) = (&args.extents[..axes], &args.extents[axes..]) else {
            return;
        };
        let ([q, k, v, mask @ .., out], Some(&scale)) = (args.args, args.scalars.first()) else {
            return;
        };
        let heads: usize = batch.iter().map(|&extent| extent as usize).product();
        let blocks = (queries as usize).div_ceil(QUERIES);
        if heads * blocks == 0 || width == 0 {
            return;
        }
        let stride = |arg: &Arg<'_>, axis: usize| arg.strides[axes + axis] as isize;
        let head = Head::<T> {
            kernels: T::kernels(Tiles::detect()),
            sums: <T::Acc as Element>::kernels(Tiles::detect()),
            weigh: weigh::<Weigh<T::Acc>>(Isa::detect()),
            join: join::<Join<T::Acc>>(Isa::detect()),
            causal: self.op.causal,
            queries: queries as usize,
            keys: keys as usize,
            depth: depth as usize,
            width: width as usize,
            scale: T::Acc::from_scalar(scale).times(T::Acc::UNIT),
            q: (q.ptr.cast(), stride(q, 0), stride(q, 3)),
            k: (k.ptr.cast(), stride(k, 2), stride(k, 3)),
            v: (v.ptr.cast(), stride(v, 2), stride(v, 1)),
            out: (out.ptr.cast(), stride(out, 0), stride(out, 1)),
            mask: (mask.first()).map(|mask| {
                let wide = self.op.mask != Some(DType::Bool);
                (mask.ptr.cast_const(), stride(mask, 0), stride(mask, 2), wide)
            }),
        };
        let work = usize::try_from(self.products(args.extents)).unwrap_or(usize::MAX);
        let threads = parallel.threads().min(work / GRAIN).max(1);
        let wanted = match threads {
            1 => 1,
            // Blocks of a causal head differ in their work.
            threads => (4 * threads).div_ceil(heads),
        };
        let tasks = blocks.div_ceil(SHARED).max(wanted.min(blocks));
        let body = |task: usize| {
            let mut at = [0_isize; 5];
            let mut rest = task / tasks;
            for axis in (0..axes).rev() {
                let i = (rest % batch[axis] as usize) as isize;
                rest /= batch[axis] as usize;
                for (at, arg) in at.iter_mut().zip(args.args) {
                    *at += i * arg.strides[axis] as isize;
                }
            }
            // SAFETY: the caller vouches for the operands; tasks write disjoint rows.
            unsafe { head.at(at).run(piece(blocks, tasks, task % tasks), blocks) };
        };
        match heads * tasks {
            count if threads == 1 => (0..count).for_each(body),
            count => parallel.run(count, &body),
        }
    }
}

/// What scores are computed in.
trait Score: Element<Acc = Self> {
    const NOTHING: Self;
    const ONE: Self;
    /// What scores are multiplied by for `power`.
    const UNIT: Self;
    fn from_scalar(bits: u64) -> Self;
    fn greater(self, other: Self) -> bool;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn over(self, other: Self) -> Self;
    /// The weight of a score that is so far below the peak.
    fn power(self) -> Self;
}

macro_rules! score {
    ($t:ty, $bits:ty, $unit:expr, $power:ident) => {
        impl Score for $t {
            const NOTHING: $t = <$t>::NEG_INFINITY;
            const ONE: $t = 1.0;
            const UNIT: $t = $unit;
            fn from_scalar(bits: u64) -> $t {
                <$t>::from_bits(bits as $bits)
            }
            #[inline(always)]
            fn greater(self, other: $t) -> bool {
                self > other
            }
            #[inline(always)]
            fn plus(self, other: $t) -> $t {
                self + other
            }
            #[inline(always)]
            fn minus(self, other: $t) -> $t {
                self - other
            }
            #[inline(always)]
            fn times(self, other: $t) -> $t {
                self * other
            }
            #[inline(always)]
            fn over(self, other: $t) -> $t {
                self / other
            }
            #[inline(always)]
            fn power(self) -> $t {
                $power(self)
            }
        }
    };
}
score!(f32, u32, std::f32::consts::LOG2_E, exp2_below_one);
score!(f64, u64, 1.0, exp64);

/// First element and the steps along the two axes of a matrix.
type Matrix<P> = (P, isize, isize);

/// One head: `[queries, depth]`, `[keys, depth]`, `[keys, width]`, `[queries, width]`.
struct Head<T: Element<Acc: Score>> {
    kernels: Kernels<T>,
    sums: Kernels<T::Acc>,
    weigh: WeighFn,
    join: JoinFn,
    causal: bool,
    queries: usize,
    keys: usize,
    depth: usize,
    width: usize,
    scale: T::Acc,
    q: Matrix<*const T>,
    k: Matrix<*const T>,
    v: Matrix<*const T>,
    out: Matrix<*mut T>,
    /// The last is whether it is added to the scores.
    mask: Option<(*const u8, isize, isize, bool)>,
}

// SAFETY: pointers are only addresses; tasks read the operands and write disjoint rows.
unsafe impl<T: Element<Acc: Score>> Sync for Head<T> {}

impl<T: Element<Acc: Score>> Head<T> {
    /// The head whose operands lie at these elements.
    fn at(&self, at: [isize; 5]) -> Head<T> {
        let mask = self.mask.map(|(start, row, column, wide)| {
            let size = if wide { size_of::<T::Acc>() } else { 1 };
            let start = start.wrapping_offset(at[3] * size as isize);
            (start, row, column, wide)
        });
        let out = if mask.is_some() { at[4] } else { at[3] };
        Head {
            q: (self.q.0.wrapping_offset(at[0]), self.q.1, self.q.2),
            k: (self.k.0.wrapping_offset(at[1]), self.k.1, self.k.2),
            v: (self.v.0.wrapping_offset(at[2]), self.v.1, self.v.2),
            out: (self.out.0.wrapping_offset(out), self.out.1, self.out.2),
            mask,
            ..*self
        }
    }

    /// Blocks of queries, of `count`.
    unsafe fn run(&self, blocks: Range<usize>, count: usize) {
        let rows =
            piece(self.queries, count, blocks.start).start..piece(self.queries, count, blocks.end - 1).end;
        let (nr, keys) = (self.sums.columns(), KEYS.min(self.keys));
        // Rows of scores begin in different sets of the cache.
        let (pitch, most) = (keys.next_multiple_of(LANES) + 16, QUERIES.min(rows.len()));
        let lengths = [
            rows.len() * self.depth,
            rows.len() * self.width,
            2 * rows.len(),
            packed_len(nr, self.depth, keys),
            packed_len(nr, keys, self.width),
            most * pitch,
            most * self.width,
            2 * most,
        ];
        let bytes: usize = (lengths.iter())
            .map(|&len| (len * size_of::<T::Acc>()).next_multiple_of(64))
            .sum();
        let scratch = Scratch::take(bytes);
        let mut free = scratch.start();
        let [q, sums, state, packed_k, packed_v, scores, part, factors] = lengths.map(|len| {
            let start = free.cast::<T::Acc>();
            free = free.wrapping_add((len * size_of::<T::Acc>()).next_multiple_of(64));
            start
        });
        let last = if self.causal {
            self.keys.min(rows.end)
        } else {
            self.keys
        };
        // SAFETY: every part has the length that was asked for, and the caller vouches for the operands.
        unsafe {
            for (at, i) in rows.clone().enumerate() {
                let from = self.q.0.offset(i as isize * self.q.1);
                for d in 0..self.depth {
                    let value = (*from.offset(d as isize * self.q.2)).widen();
                    *q.add(at * self.depth + d) = value.times(self.scale);
                }
                // The peak of a row and the sum of its weights.
                *state.add(2 * at) = T::Acc::NOTHING;
                *state.add(2 * at + 1) = T::Acc::ZERO;
            }
            std::slice::from_raw_parts_mut(sums, rows.len() * self.width).fill(T::Acc::ZERO);
            for first in (0..last).step_by(KEYS) {
                let here = KEYS.min(last - first);
                self.pack(first, here, packed_k, packed_v);
                for block in blocks.clone() {
                    let block = piece(self.queries, count, block);
                    let seen = match self.causal {
                        true => here.min(block.end.saturating_sub(first)),
                        false => here,
                    };
                    if seen == 0 {
                        continue;
                    }
                    let at = block.start - rows.start;
                    let of_scores = Operands {
                        a: q.add(at * self.depth).cast_const(),
                        a_row: self.depth as isize,
                        a_col: 1,
                        b: packed_k.cast_const(),
                        b_row: 0,
                        b_col: 0,
                        c: scores,
                        c_row: pitch as isize,
                        c_col: 1,
                    };
                    gemm::block(
                        &self.sums,
                        &of_scores,
                        (packed_k.cast_const(), self.depth),
                        self.depth,
                        0..block.len(),
                        0..seen,
                    );
                    for (row, i) in block.clone().enumerate() {
                        let (state, scores) = (state.add(2 * (at + row)), scores.add(row * pitch));
                        let mask = self.mask.map(|(start, step, column, wide)| {
                            let size = if wide { size_of::<T::Acc>() } else { 1 };
                            let place = i as isize * step + first as isize * column;
                            (start.wrapping_offset(place * size as isize), column, wide)
                        });
                        (self.weigh)(&Row {
                            scores: scores.cast(),
                            len: seen,
                            visible: if self.causal {
                                (i + 1).saturating_sub(first).min(seen)
                            } else {
                                seen
                            },
                            mask,
                            state: state.cast(),
                            factor: factors.add(row).cast(),
                        });
                    }
                    let of_values = Operands {
                        a: scores.cast_const(),
                        a_row: pitch as isize,
                        b: packed_v.cast_const(),
                        c: part,
                        c_row: self.width as isize,
                        ..of_scores
                    };
                    gemm::block(
                        &self.sums,
                        &of_values,
                        (packed_v.cast_const(), here),
                        seen,
                        0..block.len(),
                        0..self.width,
                    );
                    let sums = sums.add(at * self.width);
                    (self.join)(sums.cast(), part.cast(), factors.cast(), block.len(), self.width);
                }
            }
            for (at, i) in rows.clone().enumerate() {
                let total = *state.add(2 * at + 1);
                let share = match T::Acc::ZERO.greater(total) || total.greater(T::Acc::ZERO) {
                    true => T::Acc::ONE.over(total),
                    // No key is seen, or the sum is NaN.
                    false => total,
                };
                let row = std::slice::from_raw_parts_mut(sums.add(at * self.width), self.width);
                row.iter_mut().for_each(|sum| *sum = sum.times(share));
                let to = self.out.0.offset(i as isize * self.out.1);
                if self.out.2 == 1 {
                    T::narrow_row(std::slice::from_raw_parts_mut(to, self.width), row);
                } else {
                    for (e, &sum) in row.iter().enumerate() {
                        *to.offset(e as isize * self.out.2) = T::narrow(sum);
                    }
                }
            }
        }
    }

    /// Packs some keys and their values as the tiles read them.
    unsafe fn pack(&self, first: usize, count: usize, keys: *mut T::Acc, values: *mut T::Acc) {
        let operands = |b: *const T, b_row: isize, b_col: isize| Operands {
            a: std::ptr::null(),
            a_row: 0,
            a_col: 0,
            b,
            b_row,
            b_col,
            c: std::ptr::null_mut(),
            c_row: 0,
            c_col: 0,
        };
        let k = self.k.0.wrapping_offset(first as isize * self.k.1);
        let v = self.v.0.wrapping_offset(first as isize * self.v.1);
        // SAFETY: the caller vouches for the operands and for room.
        unsafe {
            let k = operands(k, self.k.2, self.k.1);
            gemm::pack_whole(&self.kernels, &k, self.depth, count, keys);
            let v = operands(v, self.v.1, self.v.2);
            gemm::pack_whole(&self.kernels, &v, count, self.width, values);
        }
    }
}

/// A row of scores that become weights.
pub(crate) struct Row {
    /// Room for whole lanes.
    scores: *mut u8,
    len: usize,
    /// Keys that the query sees; the others weigh nothing.
    visible: usize,
    /// First element, step, and whether it is added.
    mask: Option<(*const u8, isize, bool)>,
    /// The peak of the row so far, and the sum of its weights relative to it.
    state: *mut u8,
    /// Where to put what earlier weights are to be multiplied by.
    factor: *mut u8,
}

versions! {
    /// Weights of a row of scores.
    WeighLoop, weigh, WeighFn(row: &Row)
}

versions! {
    /// `sums * factor + part`, row by row.
    JoinLoop, join, JoinFn(sums: *mut u8, part: *const u8, factors: *const u8, rows: usize, width: usize)
}

/// Lanes of a running maximum or sum.
const LANES: usize = 32;

/// All lanes in one, half by half.
#[inline(always)]
fn folded<A: Copy>(mut lanes: [A; LANES], join: impl Fn(A, A) -> A) -> A {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = join(lanes[lane], lanes[lane + width]);
        }
        width /= 2;
    }
    lanes[0]
}

struct Weigh<A>(A);

impl<A: Score> WeighLoop for Weigh<A> {
    #[inline(always)]
    unsafe fn run(row: &Row) {
        // SAFETY: the caller vouches for the row's memory.
        unsafe {
            let lanes = row.visible.next_multiple_of(LANES);
            let scores = std::slice::from_raw_parts_mut(row.scores.cast::<A>(), row.len.max(lanes));
            let (visible, hidden) = scores.split_at_mut(row.visible);
            match row.mask {
                None => {}
                Some((mask, step, true)) => {
                    let mask = mask.cast::<A>();
                    for (j, score) in visible.iter_mut().enumerate() {
                        *score = score.plus((*mask.offset(j as isize * step)).times(A::UNIT));
                    }
                }
                Some((mask, step, false)) => {
                    for (j, score) in visible.iter_mut().enumerate() {
                        let seen = *mask.offset(j as isize * step) != 0;
                        *score = if seen { *score } else { A::NOTHING };
                    }
                }
            }
            let (ragged, beyond) = hidden.split_at_mut(lanes - row.visible);
            ragged.fill(A::NOTHING);
            beyond.fill(A::ZERO);
            let (scores, _) = scores[..lanes].as_chunks_mut::<LANES>();
            let state = row.state.cast::<A>();
            // A NaN is passed over here, and makes the sum NaN.
            let before = *state;
            let mut peaks = [before; LANES];
            for scores in &*scores {
                for (peak, &score) in peaks.iter_mut().zip(scores) {
                    *peak = if score.greater(*peak) { score } else { *peak };
                }
            }
            let peak = folded(peaks, |a, b| if b.greater(a) { b } else { a });
            let base = if peak.greater(A::NOTHING) { peak } else { A::ZERO };
            let mut sums = [A::ZERO; LANES];
            for scores in scores {
                for (sum, score) in sums.iter_mut().zip(scores) {
                    *score = score.minus(base).power();
                    *sum = sum.plus(*score);
                }
            }
            let sum = folded(sums, A::plus);
            // Nothing was summed as long as the peak was -inf, but for NaN.
            let factor = match before.greater(A::NOTHING) {
                true => before.minus(peak).power(),
                false => A::ONE,
            };
            *row.factor.cast::<A>() = factor;
            *state = peak;
            *state.add(1) = (*state.add(1)).times(factor).plus(sum);
        }
    }
}

struct Join<A>(A);

impl<A: Score> JoinLoop for Join<A> {
    #[inline(always)]
    unsafe fn run(sums: *mut u8, part: *const u8, factors: *const u8, rows: usize, width: usize) {
        // SAFETY: the caller vouches for the rows.
        unsafe {
            for row in 0..rows {
                let factor = *factors.cast::<A>().add(row);
                let sums = std::slice::from_raw_parts_mut(sums.cast::<A>().add(row * width), width);
                let part = std::slice::from_raw_parts(part.cast::<A>().add(row * width), width);
                for (sum, &part) in sums.iter_mut().zip(part) {
                    *sum = sum.times(factor).plus(part);
                }
            }
        }
    }
}
