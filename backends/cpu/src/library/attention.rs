//! Attention a block of keys at a time: scores and weights never leave the cache. Milakov and Gimelshein, Online normalizer
//! calculation for softmax (2018); Dao et al., FlashAttention (2022).

use super::epilogue::offset;
use super::gemm::{Kernels, Scratch, Stored, Uniform, piece};
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
mod many;
mod panel;
#[cfg(test)]
mod tests;
mod weigh;

use few::{Dots, Few, Gather, Read};
use panel::ColumnsFn;
use weigh::{Join, JoinFn, LANES, Row, Score, Weigh, WeighFn};

/// Most keys of a block: the scores of a panel stay in L1, keys and values in L2.
const KEYS: usize = 256;
/// Up to this many queries, keys and values are read in place.
const FEW: usize = 8;
/// Queries of a task, which share the packing of keys and values.
const SHARED: usize = 896;
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
        let stride = |arg: &Arg<'_>, axis: usize| arg.strides[axes + axis] as isize;
        let kernels = T::kernels(self.isa, self.codegen);
        let head = Head::<T> {
            columns: panel::of_panel::<T::Acc>(self.isa, kernels.columns()),
            kernels,
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
        let panel = head.few.map_or(head.kernels.columns(), |_| FEW);
        let panels = head.queries.div_ceil(panel);
        let work = usize::try_from(self.products(args.extents)).unwrap_or(usize::MAX);
        let threads = parallel.threads().min(work / GRAIN).max(1);
        let wanted = match threads {
            1 => 1,
            // Panels of a causal head differ in their work.
            threads => (4 * threads).div_ceil(heads),
        };
        let tasks = head.queries.div_ceil(SHARED).max(wanted).min(panels);
        let body = |task: usize| {
            let mut index: SmallVec<[u64; 8]> = smallvec![0; axes];
            spread((task / tasks) as u64, batch, &mut index);
            let at: SmallVec<[isize; 5]> = args
                .args
                .iter()
                .map(|arg| offset(&index, &arg.strides[..axes]))
                .collect();
            // SAFETY: the caller vouches for the operands; tasks write disjoint rows.
            unsafe {
                let head = head.at(&at);
                match &head.few {
                    Some(few) => head.few(few),
                    None => head.many(piece(panels, tasks, task % tasks)),
                }
            }
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
    columns: ColumnsFn,
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

    /// Computes few queries.
    unsafe fn few(&self, few: &Few) {
        let (rows, most) = (self.queries, KEYS.min(self.keys));
        let pitch = most.next_multiple_of(LANES) + 16;
        let copied = if few.in_place { 0 } else { most };
        let lengths = [
            rows * self.depth,
            rows * self.width,
            2 * rows,
            copied * self.depth,
            copied * self.width,
            rows * pitch,
            rows * self.width,
            rows,
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
            true => self.keys.min(rows),
            false => self.keys,
        };
        // SAFETY: every part has the length that was asked for, and the caller vouches for the operands.
        unsafe {
            widened(self.q, 0..rows, self.depth, q);
            for row in 0..rows {
                *state.add(2 * row) = T::Acc::NOTHING;
                *state.add(2 * row + 1) = T::Acc::ZERO;
            }
            std::slice::from_raw_parts_mut(sums, rows * self.width).fill(T::Acc::ZERO);
            for first in (0..last).step_by(KEYS) {
                self.add(few, &room, first..last.min(first + KEYS));
            }
            for row in 0..rows {
                let share = share(*state.add(2 * row + 1));
                let sums = std::slice::from_raw_parts_mut(sums.add(row * self.width), self.width);
                sums.iter_mut().for_each(|sum| *sum = sum.times(share));
                self.write(row, sums);
            }
        }
    }

    /// Adds some keys and their values.
    unsafe fn add(&self, few: &Few, room: &Room<T::Acc>, keys: Range<usize>) {
        let (count, seen) = (self.queries, keys.len());
        let place = |matrix: Matrix<*const T>, copied: *mut T::Acc, columns: usize| match few.in_place {
            true => (
                matrix.0.wrapping_offset(keys.start as isize * matrix.1).cast(),
                matrix.1,
            ),
            false => (copied.cast_const().cast(), columns as isize),
        };
        // SAFETY: the caller vouches for the operands and for room.
        unsafe {
            if !few.in_place {
                widened(self.k, keys.clone(), self.depth, room.keys);
                widened(self.v, keys.clone(), self.width, room.values);
            }
            (few.dots)(&Dots {
                q: room.q.cast(),
                rows: count,
                k: place(self.k, room.keys, self.depth),
                keys: seen,
                depth: self.depth,
                scores: (room.scores.cast(), room.pitch),
            });
            for row in 0..count {
                let mask = self.mask.map(|(start, step, column, wide)| {
                    let size = if wide { size_of::<T::Acc>() } else { 1 };
                    let place = row as isize * step + keys.start as isize * column;
                    (start.wrapping_offset(place * size as isize), column, wide)
                });
                (self.weigh)(&Row {
                    scores: room.scores.add(row * room.pitch).cast(),
                    len: seen,
                    visible: match self.causal {
                        true => (row + 1).saturating_sub(keys.start).min(seen),
                        false => seen,
                    },
                    scale: (&raw const self.scale).cast(),
                    mask,
                    state: room.state.add(2 * row).cast(),
                    factor: room.factors.add(row).cast(),
                });
            }
            (few.gather)(&Gather {
                weights: (room.scores.cast(), room.pitch),
                rows: count,
                v: place(self.v, room.values, self.width),
                keys: seen,
                width: self.width,
                sums: room.part.cast(),
            });
            let (sums, part, factors) = (room.sums.cast(), room.part.cast(), room.factors.cast());
            (self.join)(sums, part, factors, count, self.width);
        }
    }

    /// Rounds a query's row into the output.
    unsafe fn write(&self, query: usize, row: &[T::Acc]) {
        let to = self.out.0.wrapping_offset(query as isize * self.out.1);
        // SAFETY: the caller vouches for the output.
        unsafe {
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

/// What sums are multiplied by to be divided by the sum of their weights: nothing where no key is seen, or the sum is NaN.
fn share<A: Score>(total: A) -> A {
    match A::ZERO.greater(total) || total.greater(A::ZERO) {
        true => A::ONE.over(total),
        false => total,
    }
}

/// Memory of few queries.
struct Room<A> {
    /// Queries, without gaps.
    q: *mut A,
    /// Sums of values, a row a query.
    sums: *mut A,
    /// The peak of each query's scores, and the sum of its weights.
    state: *mut A,
    /// A block of keys and of values without gaps, where they are not read in place.
    keys: *mut A,
    values: *mut A,
    /// Scores of a block of keys, then their weights; rows lie `pitch` apart.
    scores: *mut A,
    pitch: usize,
    /// What a block of keys adds to the sums, and what is there before is multiplied by.
    part: *mut A,
    factors: *mut A,
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
