//! Cumulative reductions along one axis.
//!
//! A lane of the batch is scanned in order, so the bits depend on the data alone. Lanes that lie side by side are scanned together.
//! Loops are compiled for some types of numbers; others are converted, some elements at a time.

use super::gemm::{Scratch, piece};
use super::value::{Value, accumulates, with_value};
use crate::exec::{Arg, Args, Program, STREAM, fence};
use crate::isa::Isa;
use crate::loops::{Held, LoopFn, cast, fill, load_half, store_half};
use crate::parallel::Parallel;
use crate::prefetch::LINE;
use thalweg_hal::library::{LibraryOp, Scan};
use thalweg_hal::{DType, Error, Result};

/// Elements that are worth a hand-off to another thread.
const GRAIN: usize = 1 << 14;
/// Lanes that are scanned together where they lie apart, and the unit in which others are cut.
const LANES: usize = 64;
/// Bytes of the sums of lanes that lie side by side: half of the first cache. Each row of lanes is a run of memory of its own.
const SUMS: usize = 16 << 10;
/// Bytes of an output from which it is written past the caches.
const FAR: u64 = if cfg!(test) { 4 << 10 } else { STREAM };
/// Elements that are converted before any is scanned: they and what they become stay in the first cache.
const CHUNK: usize = 2048;

mod lanes;
#[cfg(test)]
mod tests;

use lanes::{LINES, Lanes, LanesFn, RUN, STRIP, loop_of, nothing};

/// A compiled scan.
pub struct ScanKernel {
    op: Scan,
    /// The op's definition, for launches whose strides are more general than the routine.
    definition: Program,
    run: LanesFn,
    /// Bytes of a number that is scanned.
    wide: usize,
    /// From memory to what is scanned and back, where those differ.
    converts: Option<[LoopFn; 2]>,
    /// Repeats what a reduction over nothing gives, as it is scanned.
    start: LoopFn,
    nothing: [u8; 8],
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
        let scanned = scanned(op);
        let wide = scanned.size();
        let stored = if op.dtype == DType::Bool {
            DType::U8
        } else {
            op.dtype
        };
        let halves = load_half(isa, stored).zip(store_half(isa, stored));
        let converts = halves.or_else(|| {
            let load = cast(isa, Held::of(stored), scanned)?;
            Some((load, cast(isa, Held::of(scanned), stored)?))
        });
        let mut nothing = with_value!(op.dtype, T => bytes(T::narrow(nothing(op))));
        if let Some((load, _)) = converts {
            let (from, none) = (nothing, std::ptr::null());
            // SAFETY: both have an element.
            unsafe { load.run(1, nothing.as_mut_ptr(), from.as_ptr(), none, none) };
        }
        Ok(ScanKernel {
            op: op.clone(),
            definition: Program::compile(&library.definition()?, isa)?,
            run: loop_of(op, scanned),
            wide,
            converts: converts.map(|(load, store)| [load, store]),
            start: fill(isa, wide),
            nothing,
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
            self.scan(args, (x, out), parallel);
        }
    }

    unsafe fn scan(&self, args: &Args<'_>, (x, out): (&Arg<'_>, &Arg<'_>), parallel: &dyn Parallel) {
        let (axes, size) = (self.op.batch as usize, self.op.dtype.size());
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
        let along = [x.strides[axes + 1] as isize, out.strides[axes] as isize];
        let lines = along == [1; 2] || along == [-1; 2];
        let beside = near.is_some_and(|axis| [x.strides[axis], out.strides[axis]] == [1, 1]);
        let work = outer.saturating_mul(together).saturating_mul(len);
        let useful = parallel.threads().min(work / GRAIN).max(1);
        // Pieces of lanes, cut into units.
        let (unit, pieces) = match (lines, beside) {
            (true, _) => (1, together.div_ceil(LINES)),
            (false, false) => (1, together.div_ceil(LANES)),
            (false, true) => {
                let least = (together * self.wide).div_ceil(SUMS);
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
        let whole_lines = |elements: usize| elements.wrapping_mul(size).is_multiple_of(LINE);
        let far = self.converts.is_none()
            && (lines || beside)
            && work.saturating_mul(size) as u64 >= FAR
            && [STRIP, RUN, apart as usize].into_iter().all(whole_lines);
        // A line that is read from its end on begins with the last element of a run.
        let edge = |first: *mut u8| match along {
            [-1, -1] => first.wrapping_add(size),
            _ => first,
        };
        let groups = if useful == 1 { 1 } else { tasks.min(8 * useful) };
        let most = together.div_ceil(unit).div_ceil(pieces) * unit;
        let room = if self.converts.is_some() {
            CHUNK.max(most)
        } else {
            0
        };
        let body = |group: usize| {
            let scratch = Scratch::take((most + room) * self.wide);
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
                let place = |first: *mut u8, at: isize, step: isize| {
                    first.wrapping_offset((at + lanes.start as isize * step) * size as isize)
                };
                let to = place(out.ptr, at[1], steps[1]);
                let job = Lanes {
                    x: place(x.ptr, at[0], steps[0]),
                    out: to,
                    sums: scratch.start(),
                    count: lanes.len(),
                    steps,
                    len,
                    held,
                    along,
                    far: far && edge(to).addr().is_multiple_of(LINE),
                };
                let none = std::ptr::null();
                // SAFETY: the scratch memory has a sum for each lane and the room behind them. The caller vouches for the operands;
                // tasks write disjoint parts of the output.
                unsafe {
                    (self.start).run(job.count, job.sums, self.nothing.as_ptr(), none, none);
                    match &self.converts {
                        None => (self.run)(&job),
                        Some(converts) => self.converted(&job, converts, job.sums.add(most * self.wide)),
                    }
                }
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

    /// Scans lanes in `room`, some elements of each at a time.
    unsafe fn converted(&self, lanes: &Lanes, [load, store]: &[LoopFn; 2], room: *mut u8) {
        let size = self.op.dtype.size();
        let back = lanes.along == [-1, -1];
        let lines = back || lanes.along == [1, 1];
        let most = (CHUNK / lanes.count).clamp(1, lanes.len);
        for first in (0..lanes.len).step_by(most) {
            let len = most.min(lanes.len - first);
            let held = lanes.held.saturating_sub(first).min(len);
            // Runs, the elements of one, and what lies between two runs and two elements of x and of the output.
            let (runs, count, pitch, between) = match lines {
                true => ([lanes.count; 2], [held, len], most, [lanes.steps, lanes.along]),
                false => (
                    [held, len],
                    [lanes.count; 2],
                    lanes.count,
                    [lanes.along, lanes.steps],
                ),
            };
            let pitch = pitch * self.wide;
            // Elements of a line stand in the room as in memory.
            let last = |count: usize| if back { count.saturating_sub(1) } else { 0 };
            let place = |memory: *mut u8, run: usize, side: usize| {
                let at = (first + last(count[side])) as isize * lanes.along[side];
                memory.wrapping_offset((at + run as isize * between[0][side]) * size as isize)
            };
            let start = room.wrapping_add(last(len) * self.wide);
            let within = Lanes {
                x: start,
                out: start,
                steps: if lines { [most as isize; 2] } else { [1; 2] },
                len,
                held,
                along: if lines {
                    lanes.along
                } else {
                    [lanes.count as isize; 2]
                },
                ..*lanes
            };
            // Elements that lie apart, of as many lanes as are scanned together then.
            let mut packed = [0_u32; LANES];
            let (packed, none) = (packed.as_mut_ptr().cast::<u8>(), std::ptr::null());
            // SAFETY: the caller vouches for the elements and for the room.
            unsafe {
                for run in 0..runs[0] {
                    let mut from = place(lanes.x.cast_mut(), run, 0);
                    if !lines && between[1][0] != 1 {
                        apart(size, count[0], (packed, 1), (from, between[1][0]));
                        from = packed;
                    }
                    let to = start.sub(last(count[0]) * self.wide).add(run * pitch);
                    load.run(count[0], to, from, none, none);
                }
                (self.run)(&within);
                for run in 0..runs[1] {
                    let (to, from) = (place(lanes.out, run, 1), room.add(run * pitch));
                    if lines || between[1][1] == 1 {
                        store.run(count[1], to, from, none, none);
                    } else {
                        store.run(count[1], packed, from, none, none);
                        apart(size, count[1], (to, between[1][1]), (packed, 1));
                    }
                }
            }
        }
    }
}

fn bytes<T>(value: T) -> [u8; 8] {
    let mut bytes = [0; 8];
    // SAFETY: an element has at most 8 bytes.
    unsafe { bytes.as_mut_ptr().cast::<T>().write_unaligned(value) };
    bytes
}

/// Copies elements of at most 4 bytes, of which two lie a step apart.
unsafe fn apart(size: usize, count: usize, to: (*mut u8, isize), from: (*mut u8, isize)) {
    unsafe fn of<T>(count: usize, (to, step_to): (*mut u8, isize), (from, step): (*mut u8, isize)) {
        for at in 0..count as isize {
            // SAFETY: the caller vouches for the elements.
            unsafe { *to.cast::<T>().offset(at * step_to) = from.cast::<T>().offset(at * step).read() };
        }
    }
    // SAFETY: as above.
    unsafe {
        match size {
            1 => of::<u8>(count, to, from),
            2 => of::<u16>(count, to, from),
            _ => of::<u32>(count, to, from),
        }
    }
}

/// What is scanned in the stead of a dtype: in that, integers wrap to the same bits, and floats of 16 bits accumulate.
fn scanned(op: &Scan) -> DType {
    match op.dtype {
        DType::F64 => DType::F64,
        dtype if dtype.is_float() => DType::F32,
        DType::U64 if !op.op.rounds() => DType::U64,
        DType::I64 | DType::U64 | DType::U32 => DType::I64,
        _ if op.op.rounds() => DType::I64,
        _ => DType::I32,
    }
}
