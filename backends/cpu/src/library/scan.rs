//! Cumulative reductions along one axis.
//!
//! A lane of the batch is scanned in order, so the bits depend on the data alone. Lanes that lie side by side are scanned together.

use super::gemm::{Scratch, piece};
use super::value::{Value, accumulates, with_value};
use crate::exec::{Arg, Args, Program, STREAM, fence, stream_narrow};
use crate::isa::Isa;
use crate::loops::num::Num;
use crate::parallel::Parallel;
use crate::prefetch::{LINE, ask_second};
use thalweg_hal::ir::ReduceOp;
use thalweg_hal::library::{LibraryOp, Scan};
use thalweg_hal::{DType, Error, Result};

/// Elements that are worth a hand-off to another thread.
const GRAIN: usize = 1 << 14;
/// Lanes that are scanned together where they lie apart, and the unit in which others are cut.
const LANES: usize = 64;
/// Bytes of the sums of lanes that lie side by side: half of the first cache. Each row of lanes is a run of memory of its own.
const SUMS: usize = 16 << 10;
/// Rows that are read together, and neighbouring lanes whose sums stay in registers meanwhile.
const ROWS: usize = 4;
const STRIP: usize = 16;
/// Bytes of an output from which it is written past the caches.
const FAR: u64 = if cfg!(test) { 4 << 10 } else { STREAM };
/// Lanes that are scanned together where each is a line of memory of its own: they do not compete for one set of the cache.
const LINES: usize = 4;
/// Elements of a line that are read before any of them is written: lines often lie a multiple of 4 KiB apart, and then a
/// load waits for a store of another line that it takes for its own.
const RUN: usize = 16;

#[cfg(test)]
mod tests;

/// A compiled scan.
pub struct ScanKernel {
    op: Scan,
    /// The op's definition, for launches whose strides are more general than the routine.
    definition: Program,
}

impl ScanKernel {
    pub(super) fn supports(op: &Scan) -> Result<()> {
        if op.output != op.dtype {
            return Err(Error::unsupported(format!(
                "scan of {} to {}; lower it",
                op.dtype, op.output
            )));
        }
        accumulates("scan", op.dtype, op.accumulate, op.op.rounds())
    }

    pub(super) fn compile(library: &LibraryOp, op: &Scan, isa: Isa) -> Result<ScanKernel> {
        ScanKernel::supports(op)?;
        Ok(ScanKernel {
            op: op.clone(),
            definition: Program::compile(&library.definition()?, isa)?,
        })
    }

    /// Nanoseconds on one core, roughly.
    pub(super) fn cost(&self, extents: &[u64]) -> u64 {
        (extents.iter().take(self.op.batch as usize + 1)).fold(1, |all, &extent| all.saturating_mul(extent))
    }

    /// # Safety
    /// As [`Program::run`].
    pub(super) unsafe fn run(&self, args: &Args<'_>, parallel: &dyn Parallel) {
        let axes = self.op.batch as usize;
        let [x, out] = args.args else { return };
        if args.extents[..=axes].contains(&0) {
            return;
        }
        // SAFETY: the caller vouches for the operands.
        unsafe {
            if args.extents[axes] > 1 && x.strides[axes] != 0 {
                self.definition.run(args, parallel);
                return;
            }
            let run = with_value!(self.op.dtype, T => typed::<T>);
            run(&self.op, args, (x, out), parallel);
        }
    }
}

/// Scans some lanes: `count` of them, `steps` apart in x and in the output, along `len` elements, of which `held` exist.
#[derive(Clone, Copy)]
struct Lanes<T: Value> {
    x: *const T,
    out: *mut T,
    count: usize,
    steps: [isize; 2],
    len: usize,
    held: usize,
    along: [isize; 2],
    /// Whether runs of the output are whole lines of memory, to be written past the caches.
    far: bool,
    /// What a reduction over nothing gives.
    nothing: T::Acc,
}

/// What a reduction over nothing gives.
fn nothing<A: Num>(op: &Scan) -> A {
    match op.op {
        ReduceOp::Sum => A::ZERO,
        ReduceOp::Prod => A::ONE,
        ReduceOp::Max => A::from_key(A::LEAST),
        // A truth value is a byte.
        ReduceOp::Min if op.dtype == DType::Bool => A::ONE,
        ReduceOp::Min | ReduceOp::ArgMax | ReduceOp::ArgMin => A::from_key(A::GREATEST),
    }
}

#[inline(always)]
fn join<A: Num, const OP: u32>(a: A, b: A) -> A {
    match OP {
        1 => a.add(b),
        2 => a.mul(b),
        3 => a.max(b),
        _ => a.min(b),
    }
}

unsafe fn lanes<T: Value, const OP: u32, const EXCLUSIVE: bool>(lanes: &Lanes<T>) {
    // SAFETY: the caller's promise.
    unsafe {
        if lanes.along == [1, 1] && lanes.count == LINES {
            let mut sums = [lanes.nothing; LINES];
            let whole = lanes.held.min(lanes.len) / RUN * RUN;
            for first in (0..whole).step_by(RUN) {
                run_of_lines::<T, OP, EXCLUSIVE>(lanes, &mut sums, first);
            }
            walk::<T, OP, EXCLUSIVE>(lanes, &mut sums, lanes.steps, whole);
            return;
        }
        if lanes.steps == [1, 1] {
            side_by_side::<T, OP, EXCLUSIVE>(lanes);
        } else {
            let sums = &mut [lanes.nothing; LANES][..lanes.count];
            walk::<T, OP, EXCLUSIVE>(lanes, sums, lanes.steps, 0);
        }
    }
}

/// Lanes that are neighbours in memory.
#[inline(always)]
unsafe fn side_by_side<T: Value, const OP: u32, const EXCLUSIVE: bool>(lanes: &Lanes<T>) {
    let scratch = Scratch::take(lanes.count * size_of::<T::Acc>());
    let sums: *mut T::Acc = scratch.start().cast();
    let (strips, rows) = (lanes.count / STRIP, lanes.held.min(lanes.len) / ROWS * ROWS);
    // SAFETY: the scratch memory has a sum for each lane, and the caller vouches for the elements.
    unsafe {
        for lane in 0..lanes.count {
            sums.add(lane).write(lanes.nothing);
        }
        let (sums, rest) = std::slice::from_raw_parts_mut(sums, lanes.count).split_at_mut(strips * STRIP);
        for row in (0..rows).step_by(ROWS) {
            let x = lanes.x.wrapping_offset(row as isize * lanes.along[0]);
            let out = lanes.out.wrapping_offset(row as isize * lanes.along[1]);
            for (i, sums) in sums.as_chunks_mut::<STRIP>().0.iter_mut().enumerate() {
                strip::<T, OP, EXCLUSIVE>(lanes, sums, x.add(i * STRIP), out.add(i * STRIP));
            }
        }
        walk::<T, OP, EXCLUSIVE>(lanes, sums, [1, 1], rows);
        let others = Lanes {
            x: lanes.x.wrapping_add(strips * STRIP),
            out: lanes.out.wrapping_add(strips * STRIP),
            ..*lanes
        };
        walk::<T, OP, EXCLUSIVE>(&others, rest, [1, 1], 0);
    }
}

/// Some neighbouring lanes of some rows that exist.
#[inline(always)]
unsafe fn strip<T: Value, const OP: u32, const EXCLUSIVE: bool>(
    lanes: &Lanes<T>,
    sums: &mut [T::Acc; STRIP],
    x: *const T,
    out: *mut T,
) {
    let mut held = *sums;
    for row in 0..ROWS as isize {
        let x = x.wrapping_offset(row * lanes.along[0]);
        let out = out.wrapping_offset(row * lanes.along[1]);
        if lanes.far {
            let next = x.wrapping_offset(ROWS as isize * lanes.along[0]);
            ask_second(next.cast(), STRIP * size_of::<T>());
        }
        // SAFETY: the caller vouches for the elements; one in memory that the output shares is read before it is written.
        unsafe {
            let run: [T; STRIP] = std::array::from_fn(|i| {
                let next = join::<T::Acc, OP>(held[i], (*x.add(i)).widen());
                T::narrow(if EXCLUSIVE {
                    std::mem::replace(&mut held[i], next)
                } else {
                    held[i] = next;
                    next
                })
            });
            put(run, out, lanes.far);
        }
    }
    *sums = held;
}

/// A run of elements that exist, of lines.
#[inline(always)]
unsafe fn run_of_lines<T: Value, const OP: u32, const EXCLUSIVE: bool>(
    lanes: &Lanes<T>,
    sums: &mut [T::Acc; LINES],
    first: usize,
) {
    let mut run = [[lanes.nothing; RUN]; LINES];
    // In registers, where the caller's may be in memory.
    let mut held = *sums;
    // SAFETY: the caller vouches for the elements.
    unsafe {
        for (lane, run) in run.iter_mut().enumerate() {
            let x = lanes.x.offset(lane as isize * lanes.steps[0]).add(first);
            for (i, value) in run.iter_mut().enumerate() {
                *value = (*x.add(i)).widen();
            }
        }
        for i in 0..RUN {
            for (run, sum) in run.iter_mut().zip(&mut held) {
                let next = join::<T::Acc, OP>(*sum, run[i]);
                run[i] = if EXCLUSIVE { *sum } else { next };
                *sum = next;
            }
        }
        for (lane, run) in run.into_iter().enumerate() {
            let out = lanes.out.offset(lane as isize * lanes.steps[1]).add(first);
            put(run.map(T::narrow), out, lanes.far);
        }
    }
    *sums = held;
}

/// Writes a run; past the caches where it is whole lines of memory.
#[inline(always)]
unsafe fn put<T: Value, const N: usize>(run: [T; N], out: *mut T, far: bool) {
    // SAFETY: the caller has room for the run.
    unsafe {
        if far {
            stream_narrow(out.cast(), run.as_ptr().cast(), size_of_val(&run));
        } else {
            out.copy_from_nonoverlapping(run.as_ptr(), N);
        }
    }
}

/// The elements from `first` on.
#[inline(always)]
unsafe fn walk<T: Value, const OP: u32, const EXCLUSIVE: bool>(
    lanes: &Lanes<T>,
    sums: &mut [T::Acc],
    steps: [isize; 2],
    first: usize,
) {
    for i in first..lanes.len {
        let x = lanes.x.wrapping_offset(i as isize * lanes.along[0]);
        let out = lanes.out.wrapping_offset(i as isize * lanes.along[1]);
        let held = i < lanes.held;
        sums.iter_mut().enumerate().for_each(|(lane, sum)| {
            // SAFETY: the caller vouches for the elements; one in memory that the output shares is read before it is written.
            unsafe {
                let next = if held {
                    join::<T::Acc, OP>(*sum, (*x.offset(lane as isize * steps[0])).widen())
                } else {
                    *sum
                };
                *out.offset(lane as isize * steps[1]) = T::narrow(if EXCLUSIVE { *sum } else { next });
                *sum = next;
            }
        });
    }
}

unsafe fn typed<T: Value>(
    op: &Scan,
    args: &Args<'_>,
    (x, out): (&Arg<'_>, &Arg<'_>),
    parallel: &dyn Parallel,
) {
    let run: unsafe fn(&Lanes<T>) = match (op.op, op.exclusive) {
        (ReduceOp::Sum, false) => lanes::<T, 1, false>,
        (ReduceOp::Sum, true) => lanes::<T, 1, true>,
        (ReduceOp::Prod, false) => lanes::<T, 2, false>,
        (ReduceOp::Prod, true) => lanes::<T, 2, true>,
        (ReduceOp::Max, false) => lanes::<T, 3, false>,
        (ReduceOp::Max, true) => lanes::<T, 3, true>,
        (ReduceOp::Min | ReduceOp::ArgMax | ReduceOp::ArgMin, false) => lanes::<T, 4, false>,
        (ReduceOp::Min | ReduceOp::ArgMax | ReduceOp::ArgMin, true) => lanes::<T, 4, true>,
    };
    let axes = op.batch as usize;
    let (batch, len, held) = (
        &args.extents[..axes],
        args.extents[axes] as usize,
        args.extents[axes + 1] as usize,
    );
    // Lanes side by side: along the batch axis whose neighbours are nearest.
    let near = (0..axes)
        .filter(|&axis| batch[axis] > 1)
        .min_by_key(|&axis| (out.strides[axis].unsigned_abs(), x.strides[axis].unsigned_abs()));
    let together = near.map_or(1, |axis| batch[axis] as usize);
    let outer: usize = batch.iter().map(|&extent| extent as usize).product::<usize>() / together;
    let lines = x.strides[axes + 1] == 1 && out.strides[axes] == 1;
    let beside = near.is_some_and(|axis| [x.strides[axis], out.strides[axis]] == [1, 1]);
    let work = outer.saturating_mul(together).saturating_mul(len);
    let useful = parallel.threads().min(work / GRAIN).max(1);
    // Pieces of lanes, cut into units.
    let (unit, pieces) = match (lines, beside) {
        (true, _) => (1, together.div_ceil(LINES)),
        (false, false) => (1, together.div_ceil(LANES)),
        (false, true) => {
            let least = (together * size_of::<T::Acc>()).div_ceil(SUMS);
            let units = together.div_ceil(LANES);
            (LANES, least.max(useful.div_ceil(outer)).min(units))
        }
    };
    let tasks = outer * pieces;
    // What lies between two runs of a task.
    let apart = match near {
        Some(axis) if lines => out.strides[axis],
        _ => out.strides[axes],
    };
    let whole_lines = |elements: usize| elements.wrapping_mul(size_of::<T>()).is_multiple_of(LINE);
    let far = (lines || beside)
        && work.saturating_mul(size_of::<T>()) as u64 >= FAR
        && [STRIP, RUN, apart as usize].into_iter().all(whole_lines);
    let groups = if useful == 1 { 1 } else { tasks.min(8 * useful) };
    let body = |group: usize| {
        for task in piece(tasks, groups, group) {
            let units = piece(together.div_ceil(unit), pieces, task % pieces);
            let lanes = units.start * unit..together.min(units.end * unit);
            let (mut rest, mut at) = ((task / pieces) as u64, [0_isize; 2]);
            for axis in (0..axes).rev().filter(|&axis| Some(axis) != near) {
                let i = (rest % batch[axis]) as isize;
                rest /= batch[axis];
                at[0] += i * x.strides[axis] as isize;
                at[1] += i * out.strides[axis] as isize;
            }
            let steps = near.map_or([0, 0], |axis| {
                [x.strides[axis] as isize, out.strides[axis] as isize]
            });
            let to = (out.ptr.cast::<T>()).wrapping_offset(at[1] + lanes.start as isize * steps[1]);
            let job = Lanes {
                x: x.ptr
                    .cast::<T>()
                    .wrapping_offset(at[0] + lanes.start as isize * steps[0]),
                out: to,
                count: lanes.len(),
                steps,
                len,
                held,
                far: far && to.addr().is_multiple_of(LINE),
                nothing: nothing(op),
                along: [x.strides[axes + 1] as isize, out.strides[axes] as isize],
            };
            // SAFETY: the caller vouches for the operands; tasks write disjoint parts of the output.
            unsafe { run(&job) };
        }
        if far {
            fence();
        }
    };
    match groups {
        1 => body(0),
        groups => parallel.run(groups, &body),
    }
}
