//! Loops over lanes of numbers.

use crate::exec::stream_narrow;
use crate::loops::num::Num;
use crate::prefetch::ask_second;
use thalweg_hal::DType;
use thalweg_hal::ir::ReduceOp;
use thalweg_hal::library::Scan;

/// Rows that are read together, and neighbouring lanes whose sums stay in registers meanwhile.
const ROWS: usize = 4;
pub(super) const STRIP: usize = 16;
/// Lanes that are scanned together where each is a line of memory of its own: they do not compete for one set of the cache.
pub(super) const LINES: usize = 4;
/// Elements of a line that are read before any of them is written: lines often lie a multiple of 4 KiB apart, and then a
/// load waits for a store of another line that it takes for its own.
pub(super) const RUN: usize = 16;

/// Scans some lanes, whose sums stand at `sums`: `count` of them, `steps` apart in x and in the output, along `len` elements, of
/// which `held` exist.
#[derive(Clone, Copy)]
pub(super) struct Lanes {
    pub(super) x: *const u8,
    pub(super) out: *mut u8,
    pub(super) sums: *mut u8,
    pub(super) count: usize,
    pub(super) steps: [isize; 2],
    pub(super) len: usize,
    pub(super) held: usize,
    pub(super) along: [isize; 2],
    /// Whether runs of the output are whole lines of memory, to be written past the caches.
    pub(super) far: bool,
}

pub(super) type LanesFn = unsafe fn(&Lanes);

/// What a reduction over nothing gives.
pub(super) fn nothing<A: Num>(op: &Scan) -> A {
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
pub(super) fn join<A: Num, const OP: u32>(a: A, b: A) -> A {
    match OP {
        1 => a.add(b),
        2 => a.mul(b),
        3 => a.max(b),
        _ => a.min(b),
    }
}

unsafe fn lanes<A: Num, const OP: u32>(lanes: &Lanes) {
    // SAFETY: the caller's promise.
    unsafe {
        let sums = std::slice::from_raw_parts_mut(lanes.sums.cast::<A>(), lanes.count);
        match lanes.along {
            [1, 1] => lines::<A, OP, false>(lanes, sums),
            [-1, -1] => lines::<A, OP, true>(lanes, sums),
            _ if lanes.steps == [1, 1] => side_by_side::<A, OP>(lanes, sums),
            _ => walk::<A, OP, false>(lanes, sums, lanes.steps, 0),
        }
    }
}

/// Lanes that are lines of memory each, read from its end on where they go `BACK`.
#[inline(always)]
unsafe fn lines<A: Num, const OP: u32, const BACK: bool>(lanes: &Lanes, sums: &mut [A]) {
    let whole = lanes.held.min(lanes.len) / RUN * RUN;
    let mut done = 0;
    // SAFETY: the caller vouches for the elements.
    unsafe {
        if let [sum] = sums {
            *sum = alone::<A, OP, BACK>(lanes, *sum, whole);
            done = whole;
        } else if let Ok(sums) = <&mut [A; LINES]>::try_from(&mut *sums) {
            for first in (0..whole).step_by(RUN) {
                run_of_lines::<A, OP, BACK>(lanes, sums, first);
            }
            done = whole;
        }
        walk::<A, OP, false>(lanes, sums, lanes.steps, done);
    }
}

unsafe fn exclusive<A: Num, const OP: u32>(lanes: &Lanes) {
    // SAFETY: the caller's promise.
    unsafe {
        let sums = std::slice::from_raw_parts_mut(lanes.sums.cast::<A>(), lanes.count);
        walk::<A, OP, true>(lanes, sums, lanes.steps, 0);
    }
}

/// Lanes that are neighbours in memory.
#[inline(always)]
unsafe fn side_by_side<A: Num, const OP: u32>(lanes: &Lanes, sums: &mut [A]) {
    let (strips, rows) = (lanes.count / STRIP, lanes.held.min(lanes.len) / ROWS * ROWS);
    let (x, out) = (lanes.x.cast::<A>(), lanes.out.cast::<A>());
    // SAFETY: the caller vouches for the elements.
    unsafe {
        let (sums, rest) = sums.split_at_mut(strips * STRIP);
        for row in (0..rows).step_by(ROWS) {
            let x = x.wrapping_offset(row as isize * lanes.along[0]);
            let out = out.wrapping_offset(row as isize * lanes.along[1]);
            for (i, sums) in sums.as_chunks_mut::<STRIP>().0.iter_mut().enumerate() {
                strip::<A, OP>(lanes, sums, x.add(i * STRIP), out.add(i * STRIP));
            }
        }
        walk::<A, OP, false>(lanes, sums, [1, 1], rows);
        let others = Lanes {
            x: x.wrapping_add(strips * STRIP).cast(),
            out: out.wrapping_add(strips * STRIP).cast(),
            ..*lanes
        };
        walk::<A, OP, false>(&others, rest, [1, 1], 0);
    }
}

/// Some neighbouring lanes of some rows that exist.
#[inline(always)]
unsafe fn strip<A: Num, const OP: u32>(lanes: &Lanes, sums: &mut [A; STRIP], x: *const A, out: *mut A) {
    let mut held = *sums;
    for row in 0..ROWS as isize {
        let x = x.wrapping_offset(row * lanes.along[0]);
        let out = out.wrapping_offset(row * lanes.along[1]);
        if lanes.far {
            let next = x.wrapping_offset(ROWS as isize * lanes.along[0]);
            ask_second(next.cast(), STRIP * size_of::<A>());
        }
        // SAFETY: the caller vouches for the elements; one in memory that the output shares is read before it is written.
        unsafe {
            for (i, sum) in held.iter_mut().enumerate() {
                *sum = join::<A, OP>(*sum, *x.add(i));
            }
            put(held, out, lanes.far);
        }
    }
    *sums = held;
}

/// A run of elements that exist, of lines.
#[inline(always)]
unsafe fn run_of_lines<A: Num, const OP: u32, const BACK: bool>(
    lanes: &Lanes,
    sums: &mut [A; LINES],
    first: usize,
) {
    let mut run = [[A::ZERO; RUN]; LINES];
    // In registers, where the caller's may be in memory.
    let mut held = *sums;
    let (x, out) = (
        run_at::<A, BACK>(lanes.x.cast(), first),
        run_at::<A, BACK>(lanes.out.cast(), first),
    );
    // A loop that the compiler does not unroll leaves the run in memory, and takes twice the time.
    macro_rules! elements {
        ($($i:literal)*) => { $(
            for (lane, (run, sum)) in run.iter_mut().zip(&mut held).enumerate() {
                let at = if BACK { RUN - 1 - $i } else { $i };
                *sum = join::<A, OP>(*sum, *x.offset(lane as isize * lanes.steps[0]).add(at));
                run[at] = *sum;
            }
        )* };
    }
    // SAFETY: the caller vouches for the elements.
    unsafe {
        elements!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        for (lane, run) in run.into_iter().enumerate() {
            put(
                run,
                out.cast_mut().offset(lane as isize * lanes.steps[1]),
                lanes.far,
            );
        }
    }
    *sums = held;
}

/// So many elements of a line that is scanned alone: its sum stays in a register.
#[inline(always)]
unsafe fn alone<A: Num, const OP: u32, const BACK: bool>(lanes: &Lanes, mut sum: A, count: usize) -> A {
    for first in (0..count).step_by(RUN) {
        let (x, out) = (
            run_at::<A, BACK>(lanes.x.cast(), first),
            run_at::<A, BACK>(lanes.out.cast(), first),
        );
        let mut run = [A::ZERO; RUN];
        // SAFETY: the caller vouches for the elements; those in memory that the output shares are read before they are written.
        unsafe {
            for i in 0..RUN {
                let at = if BACK { RUN - 1 - i } else { i };
                sum = join::<A, OP>(sum, *x.add(at));
                run[at] = sum;
            }
            put(run, out.cast_mut(), lanes.far);
        }
    }
    sum
}

/// Where in memory the run of a line begins whose first element is that of number `first`.
#[inline(always)]
fn run_at<A, const BACK: bool>(line: *const A, first: usize) -> *const A {
    match BACK {
        true => line.wrapping_sub(first + RUN - 1),
        false => line.wrapping_add(first),
    }
}

/// Writes a run; past the caches where it is whole lines of memory.
#[inline(always)]
unsafe fn put<A: Num, const N: usize>(run: [A; N], out: *mut A, far: bool) {
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
unsafe fn walk<A: Num, const OP: u32, const EXCLUSIVE: bool>(
    lanes: &Lanes,
    sums: &mut [A],
    steps: [isize; 2],
    first: usize,
) {
    for i in first..lanes.len {
        let x = lanes.x.cast::<A>().wrapping_offset(i as isize * lanes.along[0]);
        let out = lanes.out.cast::<A>().wrapping_offset(i as isize * lanes.along[1]);
        let held = i < lanes.held;
        sums.iter_mut().enumerate().for_each(|(lane, sum)| {
            // SAFETY: the caller vouches for the elements; one in memory that the output shares is read before it is written.
            unsafe {
                let next = if held {
                    join::<A, OP>(*sum, *x.offset(lane as isize * steps[0]))
                } else {
                    *sum
                };
                *out.offset(lane as isize * steps[1]) = if EXCLUSIVE { *sum } else { next };
                *sum = next;
            }
        });
    }
}

/// The loop of an op on what is scanned.
pub(super) fn loop_of(op: &Scan, scanned: DType) -> LanesFn {
    match scanned {
        DType::F64 => sums::<f64>(op),
        DType::F32 => sums::<f32>(op),
        DType::I64 => sums::<i64>(op),
        DType::U64 => extremes::<u64>(op),
        _ => extremes::<i32>(op),
    }
}

fn sums<A: Num>(op: &Scan) -> LanesFn {
    match op.op {
        ReduceOp::Sum => version::<A, 1>(op),
        ReduceOp::Prod => version::<A, 2>(op),
        _ => extremes::<A>(op),
    }
}

fn extremes<A: Num>(op: &Scan) -> LanesFn {
    match op.op {
        ReduceOp::Max => version::<A, 3>(op),
        _ => version::<A, 4>(op),
    }
}

/// Exclusive scans, which no op of a tensor has, walk.
fn version<A: Num, const OP: u32>(op: &Scan) -> LanesFn {
    match op.exclusive {
        true => exclusive::<A, OP>,
        false => lanes::<A, OP>,
    }
}
