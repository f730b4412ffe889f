//! Cumulative reductions along one axis.
//!
//! A lane of the batch is scanned in order, so the bits depend on the data alone. Lanes that lie side by side are scanned together.

use super::value::{Value, accumulates, with_value};
use crate::exec::{Arg, Args, Program};
use crate::isa::Isa;
use crate::library::gemm::piece;
use crate::loops::num::Num;
use crate::parallel::Parallel;
use thalweg_hal::ir::ReduceOp;
use thalweg_hal::library::{LibraryOp, Scan};
use thalweg_hal::{DType, Error, Result};

/// Elements that are worth a hand-off to another thread.
const GRAIN: usize = 1 << 14;
/// Lanes that are scanned together where they lie side by side.
const LANES: usize = 64;
/// Lanes that are scanned together where each is a line of memory of its own: they do not compete for one set of the cache.
const LINES: usize = 4;
/// Elements of a line that are read before any of them is written: lines often lie a multiple of 4 KiB apart, and then a
/// load waits for a store of another line that it takes for its own.
const RUN: usize = 16;

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
struct Lanes<T: Value> {
    x: *const T,
    out: *mut T,
    count: usize,
    steps: [isize; 2],
    len: usize,
    held: usize,
    along: [isize; 2],
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
        let sums = &mut [lanes.nothing; LANES][..lanes.count];
        if lanes.steps == [1, 1] {
            walk::<T, OP, EXCLUSIVE>(lanes, sums, [1, 1], 0);
        } else {
            walk::<T, OP, EXCLUSIVE>(lanes, sums, lanes.steps, 0);
        }
    }
}

/// A run of elements that exist, of lines.
#[inline(always)]
unsafe fn run_of_lines<T: Value, const OP: u32, const EXCLUSIVE: bool>(
    lanes: &Lanes<T>,
    sums: &mut [T::Acc; LINES],
    first: usize,
) {
    let mut run = [[lanes.nothing; RUN]; LINES];
    // SAFETY: the caller vouches for the elements.
    unsafe {
        for (lane, run) in run.iter_mut().enumerate() {
            let x = lanes.x.offset(lane as isize * lanes.steps[0]).add(first);
            for (i, value) in run.iter_mut().enumerate() {
                *value = (*x.add(i)).widen();
            }
        }
        for i in 0..RUN {
            for (run, sum) in run.iter_mut().zip(&mut *sums) {
                let next = join::<T::Acc, OP>(*sum, run[i]);
                run[i] = if EXCLUSIVE { *sum } else { next };
                *sum = next;
            }
        }
        for (lane, run) in run.iter().enumerate() {
            let out = lanes.out.offset(lane as isize * lanes.steps[1]).add(first);
            for (i, &value) in run.iter().enumerate() {
                *out.add(i) = T::narrow(value);
            }
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
    let pieces = match lines {
        true => together.div_ceil(LINES),
        false => together.div_ceil(LANES),
    };
    let tasks = outer * pieces;
    let useful = parallel
        .threads()
        .min(outer.saturating_mul(together).saturating_mul(len) / GRAIN)
        .max(1);
    let groups = if useful == 1 { 1 } else { tasks.min(8 * useful) };
    let body = |group: usize| {
        for task in piece(tasks, groups, group) {
            let lanes = piece(together, pieces, task % pieces);
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
            let job = Lanes {
                x: x.ptr
                    .cast::<T>()
                    .wrapping_offset(at[0] + lanes.start as isize * steps[0]),
                out: out
                    .ptr
                    .cast::<T>()
                    .wrapping_offset(at[1] + lanes.start as isize * steps[1]),
                count: lanes.len(),
                steps,
                len,
                held,
                nothing: nothing(op),
                along: [x.strides[axes + 1] as isize, out.strides[axes] as isize],
            };
            // SAFETY: the caller vouches for the operands; tasks write disjoint parts of the output.
            unsafe { run(&job) };
        }
    };
    match groups {
        1 => body(0),
        groups => parallel.run(groups, &body),
    }
}
