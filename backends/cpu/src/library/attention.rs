//! Attention a block of keys at a time: scores and weights never leave the cache. Milakov and Gimelshein, Online normalizer
//! calculation for softmax (2018); Dao et al., FlashAttention (2022).

use super::gemm::{self, Element, Isa as Tiles, Kernels, Operands, Scratch, packed_len, piece};
use crate::exec::{Arg, Args};
use crate::isa::Isa;
use crate::parallel::Parallel;
use half::{bf16, f16};
use std::ops::Range;
use thalweg_hal::DType;
use thalweg_hal::library::Attention;

mod few;
mod weigh;

use few::{Dots, Few, Gather, Read};
use weigh::{Join, JoinFn, LANES, Row, Score, Weigh, WeighFn};

/// Most queries of a block. Blocks follow from the extents alone, and so do the keys that a causal block leaves out.
const QUERIES: usize = 112;
/// Most keys of a block: their scores, keys and values stay in L2.
const KEYS: usize = 256;
/// Up to this many queries, keys and values are read in place.
const FEW: usize = 8;
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

    unsafe fn typed<T: Read<Acc: Read>>(&self, args: &Args<'_>, parallel: &dyn Parallel) {
        let axes = self.op.batch as usize;
        let (batch, &[queries, width, keys, depth]) = (&args.extents[..axes], &args.extents[axes..]) else {
            return;
        };
        let ([q, k, v, mask @ .., out], Some(&scale)) = (args.args, args.scalars.first()) else {
            return;
        };
        if args.extents[..axes + 2].contains(&0) {
            return;
        }
        let nothing = keys == 0 || depth == 0;
        let (keys, depth) = if nothing { (0, 0) } else { (keys, depth) };
        let heads: usize = batch.iter().map(|&extent| extent as usize).product();
        let blocks = (queries as usize).div_ceil(QUERIES);
        let stride = |arg: &Arg<'_>, axis: usize| arg.strides[axes + axis] as isize;
        let head = Head::<T> {
            kernels: T::kernels(Tiles::detect()),
            sums: <T::Acc as Element>::kernels(Tiles::detect()),
            weigh: weigh::weigh::<Weigh<T::Acc>>(Isa::detect()),
            join: weigh::join::<Join<T::Acc>>(Isa::detect()),
            few: (queries as usize <= FEW).then(|| Few::new::<T>(stride(k, 3) == 1 && stride(v, 1) == 1)),
            causal: self.op.causal,
            queries: queries as usize,
            keys: keys as usize,
            depth: depth as usize,
            width: width as usize,
            scale: T::Acc::from_scalar(scale),
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

/// First element and the steps along the two axes of a matrix.
type Matrix<P> = (P, isize, isize);

/// One head: `[queries, depth]`, `[keys, depth]`, `[keys, width]`, `[queries, width]`.
struct Head<T: Read> {
    kernels: Kernels<T>,
    sums: Kernels<T::Acc>,
    weigh: WeighFn,
    join: JoinFn,
    few: Option<Few>,
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
unsafe impl<T: Read> Sync for Head<T> {}

impl<T: Read> Head<T> {
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

    /// Blocks of queries, of as many as the head has.
    unsafe fn run(&self, blocks: Range<usize>, of: usize) {
        let rows = piece(self.queries, of, blocks.start).start..piece(self.queries, of, blocks.end - 1).end;
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
                let from = self.q.0.wrapping_offset(i as isize * self.q.1);
                for d in 0..self.depth {
                    *q.add(at * self.depth + d) = (*from.offset(d as isize * self.q.2)).widen();
                }
                // The peak of a row and the sum of its weights.
                *state.add(2 * at) = T::Acc::NOTHING;
                *state.add(2 * at + 1) = T::Acc::ZERO;
            }
            std::slice::from_raw_parts_mut(sums, rows.len() * self.width).fill(T::Acc::ZERO);
            for first in (0..last).step_by(KEYS) {
                let here = KEYS.min(last - first);
                match &self.few {
                    None => self.pack(first, here, packed_k, packed_v),
                    Some(few) if !few.in_place => self.copy(first, here, packed_k, packed_v),
                    Some(_) => {}
                }
                for block in blocks.clone() {
                    let block = piece(self.queries, of, block);
                    let seen = match self.causal {
                        true => here.min(block.end.saturating_sub(first)),
                        false => here,
                    };
                    if seen == 0 {
                        continue;
                    }
                    let at = block.start - rows.start;
                    let (queries, count) = (q.add(at * self.depth), block.len());
                    let of_keys = (packed_k.cast_const(), self.depth);
                    match &self.few {
                        Some(few) => (few.dots)(&Dots {
                            q: queries.cast(),
                            rows: count,
                            k: match few.in_place {
                                true => (
                                    self.k.0.wrapping_offset(first as isize * self.k.1).cast(),
                                    self.k.1,
                                ),
                                false => (packed_k.cast(), self.depth as isize),
                            },
                            keys: seen,
                            depth: self.depth,
                            scores: (scores.cast(), pitch),
                        }),
                        None => {
                            let product = rows_times((queries, self.depth), of_keys.0, (scores, pitch));
                            gemm::block(&self.sums, &product, of_keys, self.depth, 0..count, 0..seen);
                        }
                    }
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
                            scale: (&raw const self.scale).cast(),
                            mask,
                            state: state.cast(),
                            factor: factors.add(row).cast(),
                        });
                    }
                    let of_values = (packed_v.cast_const(), here);
                    match &self.few {
                        Some(few) => (few.gather)(&Gather {
                            weights: (scores.cast(), pitch),
                            rows: count,
                            v: match few.in_place {
                                true => (
                                    self.v.0.wrapping_offset(first as isize * self.v.1).cast(),
                                    self.v.1,
                                ),
                                false => (packed_v.cast(), self.width as isize),
                            },
                            keys: seen,
                            width: self.width,
                            sums: part.cast(),
                        }),
                        None => {
                            let product = rows_times((scores, pitch), of_values.0, (part, self.width));
                            gemm::block(&self.sums, &product, of_values, seen, 0..count, 0..self.width);
                        }
                    }
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
                let to = self.out.0.wrapping_offset(i as isize * self.out.1);
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

    /// Copies some keys and their values, each without gaps.
    unsafe fn copy(&self, first: usize, count: usize, keys: *mut T::Acc, values: *mut T::Acc) {
        let rows = |from: Matrix<*const T>, columns: usize, to: *mut T::Acc| {
            for (at, row) in (first..first + count).enumerate() {
                for column in 0..columns {
                    let place = row as isize * from.1 + column as isize * from.2;
                    // SAFETY: the caller vouches for the operands and for room.
                    unsafe { *to.add(at * columns + column) = (*from.0.wrapping_offset(place)).widen() };
                }
            }
        };
        rows(self.k, self.depth, keys);
        rows(self.v, self.width, values);
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

/// Rows that lie `pitch` apart times a B that is packed.
fn rows_times<A: Score>(
    (a, pitch): (*mut A, usize),
    b: *const A,
    (c, c_pitch): (*mut A, usize),
) -> Operands<A> {
    Operands {
        a,
        a_row: pitch as isize,
        a_col: 1,
        b,
        b_row: 0,
        b_col: 0,
        c,
        c_row: c_pitch as isize,
        c_col: 1,
    }
}
