//! Attention a block of keys at a time: scores and weights never leave the cache. Milakov and Gimelshein, Online normalizer
//! calculation for softmax (2018); Dao et al., FlashAttention (2022).

use super::epilogue::offset;
use super::gemm::{self, Kernels, Operands, Scratch, Stored, Uniform, Whole, packed_len, piece};
use super::matmul::spread;
use crate::exec::{Arg, Args};
use crate::isa::Isa;
use crate::parallel::Parallel;
use half::{bf16, f16};
use smallvec::{SmallVec, smallvec};
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
    isa: Isa,
    codegen: bool,
}

impl AttentionKernel {
    pub(super) fn compile(op: &Attention, isa: Isa, codegen: bool) -> AttentionKernel {
        AttentionKernel {
            op: op.clone(),
            isa,
            codegen,
        }
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
            kernels: T::kernels(self.isa, self.codegen),
            sums: <T::Acc as Uniform>::kernels(self.isa, self.codegen),
            weigh: weigh::weigh::<Weigh<T::Acc>>(self.isa),
            join: weigh::join::<Join<T::Acc>>(self.isa),
            few: (queries as usize <= FEW)
                .then(|| Few::new::<T>(self.isa, stride(k, 3) == 1 && stride(v, 1) == 1)),
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
            let mut index: SmallVec<[u64; 8]> = smallvec![0; axes];
            spread((task / tasks) as u64, batch, &mut index);
            let at: SmallVec<[isize; 5]> = args
                .args
                .iter()
                .map(|arg| offset(&index, &arg.strides[..axes]))
                .collect();
            // SAFETY: the caller vouches for the operands; tasks write disjoint rows.
            unsafe { head.at(&at).run(piece(blocks, tasks, task % tasks), blocks) };
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
    fn at(&self, at: &[isize]) -> Head<T> {
        let mask = self.mask.map(|(start, row, column, wide)| {
            let size = if wide { size_of::<T::Acc>() } else { 1 };
            let start = start.wrapping_offset(at[3] * size as isize);
            (start, row, column, wide)
        });
        Head {
            q: (self.q.0.wrapping_offset(at[0]), self.q.1, self.q.2),
            k: (self.k.0.wrapping_offset(at[1]), self.k.1, self.k.2),
            v: (self.v.0.wrapping_offset(at[2]), self.v.1, self.v.2),
            out: (
                self.out.0.wrapping_offset(at[at.len() - 1]),
                self.out.1,
                self.out.2,
            ),
            mask,
            ..*self
        }
    }

    /// Blocks of queries, of as many as the head has.
    unsafe fn run(&self, blocks: Range<usize>, of: usize) {
        let rows = piece(self.queries, of, blocks.start).start..piece(self.queries, of, blocks.end - 1).end;
        let keys = KEYS.min(self.keys);
        let most = QUERIES.min(rows.len());
        // Rows of scores begin in different sets of the cache.
        let pitch = keys.next_multiple_of(LANES) + 16;
        let lengths = [
            rows.len() * self.depth,
            rows.len() * self.width,
            2 * rows.len(),
            packed_len(&self.sums, self.depth, keys),
            packed_len(&self.sums, keys, self.width),
            most * pitch,
            most * self.width,
            most,
        ];
        let bytes = |len: usize| (len * size_of::<T::Acc>()).next_multiple_of(64);
        let scratch = Scratch::take(lengths.map(bytes).into_iter().sum());
        let mut free = scratch.start();
        let [q, sums, state, keys, values, scores, part, factors] = lengths.map(|len| {
            let start = free.cast::<T::Acc>();
            free = free.wrapping_add(bytes(len));
            start
        });
        let room = Room {
            q,
            sums,
            state,
            keys,
            values,
            scores,
            pitch,
            part,
            factors,
        };
        let last = match self.causal {
            true => self.keys.min(rows.end),
            false => self.keys,
        };
        // SAFETY: every part has the length that was asked for, and the caller vouches for the operands.
        unsafe {
            self.begin(&rows, &room);
            for first in (0..last).step_by(KEYS) {
                let count = KEYS.min(last - first);
                self.bring(first, count, &room);
                for block in blocks.clone() {
                    let queries = piece(self.queries, of, block);
                    let seen = match self.causal {
                        true => count.min(queries.end.saturating_sub(first)),
                        false => count,
                    };
                    if seen > 0 {
                        self.add(
                            &room.behind(queries.start - rows.start, self),
                            queries,
                            first..first + seen,
                            count,
                        );
                    }
                }
            }
            self.finish(&rows, &room);
        }
    }

    /// Widens the queries `rows`, for which nothing is summed yet.
    unsafe fn begin(&self, rows: &Range<usize>, room: &Room<T::Acc>) {
        // SAFETY: the caller vouches for the operands and for room.
        unsafe {
            widened(self.q, rows.clone(), self.depth, room.q);
            for row in 0..rows.len() {
                *room.state.add(2 * row) = T::Acc::NOTHING;
                *room.state.add(2 * row + 1) = T::Acc::ZERO;
            }
            std::slice::from_raw_parts_mut(room.sums, rows.len() * self.width).fill(T::Acc::ZERO);
        }
    }

    /// Brings some keys and their values into the form that they are read in.
    unsafe fn bring(&self, first: usize, count: usize, room: &Room<T::Acc>) {
        let from = |matrix: Matrix<*const T>| matrix.0.wrapping_offset(first as isize * matrix.1);
        // SAFETY: the caller vouches for the operands and for room.
        unsafe {
            match &self.few {
                None => {
                    let (k, v) = (
                        (from(self.k), self.k.2, self.k.1),
                        (from(self.v), self.v.1, self.v.2),
                    );
                    gemm::pack_whole(&self.kernels, k, self.depth, count, room.keys);
                    gemm::pack_whole(&self.kernels, v, count, self.width, room.values);
                }
                Some(few) if !few.in_place => {
                    widened(self.k, first..first + count, self.depth, room.keys);
                    widened(self.v, first..first + count, self.width, room.values);
                }
                Some(_) => {}
            }
        }
    }

    /// Adds what a block of queries sees of some keys, of the `brought` ones that begin with them.
    unsafe fn add(&self, room: &Room<T::Acc>, queries: Range<usize>, keys: Range<usize>, brought: usize) {
        let (count, seen) = (queries.len(), keys.len());
        let place =
            |matrix: Matrix<*const T>, copied: *mut T::Acc, columns: usize, few: &Few| match few.in_place {
                true => (
                    matrix.0.wrapping_offset(keys.start as isize * matrix.1).cast(),
                    matrix.1,
                ),
                false => (copied.cast_const().cast(), columns as isize),
            };
        // SAFETY: the caller vouches for the operands and for room.
        unsafe {
            match &self.few {
                Some(few) => (few.dots)(&Dots {
                    q: room.q.cast(),
                    rows: count,
                    k: place(self.k, room.keys, self.depth, few),
                    keys: seen,
                    depth: self.depth,
                    scores: (room.scores.cast(), room.pitch),
                }),
                None => {
                    let product = rows_times((room.q, self.depth), room.keys, (room.scores, room.pitch));
                    let packed = Whole::new(&self.sums, room.keys.cast_const(), self.depth, seen);
                    gemm::block(&self.sums, &product, packed, self.depth, 0..count, 0..seen);
                }
            }
            for (row, i) in queries.enumerate() {
                let mask = self.mask.map(|(start, step, column, wide)| {
                    let size = if wide { size_of::<T::Acc>() } else { 1 };
                    let place = i as isize * step + keys.start as isize * column;
                    (start.wrapping_offset(place * size as isize), column, wide)
                });
                (self.weigh)(&Row {
                    scores: room.scores.add(row * room.pitch).cast(),
                    len: seen,
                    visible: match self.causal {
                        true => (i + 1).saturating_sub(keys.start).min(seen),
                        false => seen,
                    },
                    scale: (&raw const self.scale).cast(),
                    mask,
                    state: room.state.add(2 * row).cast(),
                    factor: room.factors.add(row).cast(),
                });
            }
            match &self.few {
                Some(few) => (few.gather)(&Gather {
                    weights: (room.scores.cast(), room.pitch),
                    rows: count,
                    v: place(self.v, room.values, self.width, few),
                    keys: seen,
                    width: self.width,
                    sums: room.part.cast(),
                }),
                None => {
                    let product = rows_times((room.scores, room.pitch), room.values, (room.part, self.width));
                    let packed = Whole::new(&self.sums, room.values.cast_const(), brought, self.width);
                    gemm::block(&self.sums, &product, packed, seen, 0..count, 0..self.width);
                }
            }
            (self.join)(
                room.sums.cast(),
                room.part.cast(),
                room.factors.cast(),
                count,
                self.width,
            );
        }
    }

    /// Divides the sums by those of the weights, and rounds them into the output.
    unsafe fn finish(&self, rows: &Range<usize>, room: &Room<T::Acc>) {
        for (at, i) in rows.clone().enumerate() {
            // SAFETY: the caller vouches for the output and for room.
            unsafe {
                let total = *room.state.add(2 * at + 1);
                let share = match T::Acc::ZERO.greater(total) || total.greater(T::Acc::ZERO) {
                    true => T::Acc::ONE.over(total),
                    // No key is seen, or the sum is NaN.
                    false => total,
                };
                let row = std::slice::from_raw_parts_mut(room.sums.add(at * self.width), self.width);
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
}

/// Memory of a task.
struct Room<A> {
    /// Queries, without gaps.
    q: *mut A,
    /// Sums of values, a row a query.
    sums: *mut A,
    /// The peak of each query's scores, and the sum of its weights.
    state: *mut A,
    /// A block of keys and of values, packed or without gaps.
    keys: *mut A,
    values: *mut A,
    /// Scores of a block of queries and of keys, then their weights; rows lie `pitch` apart.
    scores: *mut A,
    pitch: usize,
    /// What a block of keys adds to a block of queries, and what is there before is multiplied by.
    part: *mut A,
    factors: *mut A,
}

impl<A: Score> Room<A> {
    /// The room of the queries from `row` on.
    fn behind<T: Read<Acc = A>>(&self, row: usize, head: &Head<T>) -> Room<A> {
        Room {
            q: self.q.wrapping_add(row * head.depth),
            sums: self.sums.wrapping_add(row * head.width),
            state: self.state.wrapping_add(2 * row),
            ..*self
        }
    }
}

/// Copies rows of a matrix, widened and without gaps.
unsafe fn widened<T: Read>(from: Matrix<*const T>, rows: Range<usize>, columns: usize, to: *mut T::Acc) {
    for (at, row) in rows.enumerate() {
        for column in 0..columns {
            let place = row as isize * from.1 + column as isize * from.2;
            // SAFETY: the caller vouches for the matrix and for room.
            unsafe { *to.add(at * columns + column) = (*from.0.wrapping_offset(place)).widen() };
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
