//! Updates at indices along one axis.
//!
//! Updates are applied in the order of their index m, so the bits depend on the data alone: threads share out the batch, or where
//! there is too little of it the places along d, and then each of them passes over all indices.

use super::value::{Value, accumulates, with_sum, with_value};
use crate::exec::{Arg, Args, Program};
use crate::isa::Isa;
use crate::library::gemm::piece;
use crate::loops::num::Num;
use crate::memory;
use crate::parallel::Parallel;
use smallvec::SmallVec;
use std::hint::{black_box, select_unpredictable};
use std::ops::Range;
use thalweg_hal::ir::{Access, Kernel, Level, MAX_RANK, ReduceOp, Role};
use thalweg_hal::library::{LibraryOp, Scatter};
use thalweg_hal::{DType, Error, Result};

/// Updates that are worth a hand-off to another thread.
const GRAIN: usize = 1 << 14;
/// Elements of a slice that a task takes at least.
const SLICE: usize = 64;

/// A compiled scatter.
pub struct ScatterKernel {
    op: Scatter,
    /// base to output.
    copy: Program,
    /// The op's definition, for launches whose strides are more general than the routine.
    definition: Program,
}

/// A launch, with one batch axis singled out along which the indices are the same.
struct Launch<'a> {
    /// Extents and strides of the other batch axes: of updates, indices and the output.
    batch: Vec<(u64, [i64; 3])>,
    /// Extent of the slice and its strides in updates and output.
    slice: (usize, [isize; 2]),
    /// Extent of the scattered axis and its stride in the output.
    places: (usize, isize),
    updates: usize,
    /// Strides of updates and indices along m, and how many updates there are in memory.
    steps: [isize; 2],
    /// Whether indices have 64 bits.
    is_wide: bool,
    held: u64,
    source: &'a Arg<'a>,
    index: &'a Arg<'a>,
    out: &'a Arg<'a>,
}

impl ScatterKernel {
    pub(super) fn supports(op: &Scatter) -> Result<()> {
        let sums = op.combine.is_some_and(ReduceOp::rounds);
        if op.combine.is_some() {
            accumulates("scatter", op.dtype, op.accumulate, sums)?;
        }
        if sums && matches!(op.dtype, DType::F16 | DType::BF16) {
            return Err(Error::unsupported(format!(
                "scatter of sums of {}; lower it",
                op.dtype
            )));
        }
        Ok(())
    }

    pub(super) fn compile(library: &LibraryOp, op: &Scatter, isa: Isa) -> Result<ScatterKernel> {
        ScatterKernel::supports(op)?;
        let mut copy = Kernel::new("scatter_base", op.batch + 1, 0);
        let base = copy.param(op.dtype, Role::In, Level::Row, Access::Strided);
        let out = copy.param(op.dtype, Role::Out, Level::Row, Access::Strided);
        let value = copy.load(base);
        copy.store(out, value);
        Ok(ScatterKernel {
            op: op.clone(),
            copy: Program::compile(&copy, isa)?,
            definition: Program::compile(&library.definition()?, isa)?,
        })
    }

    /// Nanoseconds on one core, roughly.
    pub(super) fn cost(&self, extents: &[u64]) -> u64 {
        let axes = self.op.batch as usize;
        let [places, updates] = [axes, axes + 1].map(|axis| extents.get(axis).copied().unwrap_or(0));
        (extents.iter().take(axes)).fold(places.saturating_add(2 * updates), |all, &extent| {
            all.saturating_mul(extent)
        })
    }

    /// # Safety
    /// As [`Program::run`].
    pub(super) unsafe fn run(&self, args: &Args<'_>, parallel: &dyn Parallel) {
        let axes = self.op.batch as usize;
        let [base, source, index, out] = args.args else {
            return;
        };
        if args.extents[..=axes].contains(&0) {
            return;
        }
        let still = |arg: &Arg<'_>| args.extents[axes] <= 1 || arg.strides[axes] == 0;
        // SAFETY: the caller vouches for the operands.
        unsafe {
            if !still(source) || !still(index) {
                self.definition.run(args, parallel);
                return;
            }
            let extents = &args.extents[..=axes];
            // Along an axis of one element, no stride counts.
            let mut strides = extents.iter().zip(base.strides.iter().zip(out.strides));
            let alike = strides.all(|(&extent, (base, out))| base == out || extent == 1);
            let whole = dense(extents, out.strides).filter(|_| alike);
            if let (Some(elements), true) = (whole, base.ptr != out.ptr) {
                // Much of it is read again at once, so it is not for the kernel, which writes past the caches.
                let bytes = elements * self.op.dtype.size();
                memory::copy((out.ptr, bytes), (base.ptr, bytes), bytes, 1, parallel);
            } else if base.ptr != out.ptr || !alike {
                let copied = Args {
                    extents,
                    args: &[*base, *out],
                    scalars: &[],
                };
                self.copy.run(&copied, parallel);
            }
            let launch = launch(&self.op, args, source, index, out);
            spread(&self.op, &launch, parallel);
        }
    }
}

/// How many elements there are, if they fill a range of memory from the first one on.
fn dense(extents: &[u64], strides: &[i64]) -> Option<usize> {
    let axes = extents.iter().zip(strides).filter(|&(&extent, _)| extent != 1);
    let mut axes: SmallVec<[_; MAX_RANK]> = axes.collect();
    axes.sort_unstable_by_key(|&(_, &stride)| stride);
    let filled = |all: usize, (&extent, &stride): (&u64, &i64)| {
        (stride == all as i64).then_some(all.wrapping_mul(extent as usize))
    };
    axes.into_iter().try_fold(1, filled)
}

fn launch<'a>(
    op: &Scatter,
    args: &Args<'a>,
    source: &'a Arg<'a>,
    index: &'a Arg<'a>,
    out: &'a Arg<'a>,
) -> Launch<'a> {
    let axes = op.batch as usize;
    // The longest of the axes whose neighbours are nearest in the output.
    let slice = (0..axes)
        .filter(|&axis| index.strides[axis] == 0 && args.extents[axis] > 1)
        .min_by_key(|&axis| {
            (
                out.strides[axis].unsigned_abs(),
                source.strides[axis].unsigned_abs(),
            )
        });
    Launch {
        batch: (0..axes)
            .filter(|&axis| Some(axis) != slice)
            .map(|axis| {
                (
                    args.extents[axis],
                    [source.strides[axis], index.strides[axis], out.strides[axis]],
                )
            })
            .collect(),
        slice: slice.map_or((1, [0, 0]), |axis| {
            let strides = [source.strides[axis] as isize, out.strides[axis] as isize];
            (args.extents[axis] as usize, strides)
        }),
        places: (args.extents[axes] as usize, out.strides[axes] as isize),
        updates: args.extents[axes + 1] as usize,
        steps: [source.gather_stride as isize, index.strides[axes + 1] as isize],
        is_wide: op.index == DType::I64,
        held: source.gather_extent,
        source,
        index,
        out,
    }
}

/// Indices that are read at once, where they are not read from where they stand.
const AT_ONCE: usize = 256;

/// A first element and the step to the next.
type Line<P> = (P, isize);
/// Of a slice: where it stands in the output, its updates, how many there are, and the steps of both.
type Slice = unsafe fn(*mut u8, *const u8, usize, [isize; 2]);
/// Of lone elements: the output by places, the updates, and the places, of which those in the range count, and whether the range has all
/// that there are.
type Lone = unsafe fn(Line<*mut u8>, Line<*const u8>, &[i64], (&Range<usize>, bool));

// Ops as constants of functions; what is none of these is a minimum.
const SET: u32 = 0;
const SUM: u32 = 1;
const PROD: u32 = 2;
const MAX: u32 = 3;
const MIN: u32 = 4;

/// How updates are combined with the output.
struct Combine {
    slice: Slice,
    lone: Lone,
    /// Bytes of an element.
    size: isize,
}

impl Combine {
    fn new(op: &Scatter) -> Combine {
        match op.combine {
            None => match op.dtype.size() {
                1 => Combine::of::<u8, SET>(),
                2 => Combine::of::<u16, SET>(),
                4 => Combine::of::<u32, SET>(),
                _ => Combine::of::<u64, SET>(),
            },
            Some(ReduceOp::Sum) => with_sum!(op.dtype, T => Combine::of::<T, SUM>()),
            Some(ReduceOp::Prod) => with_sum!(op.dtype, T => Combine::of::<T, PROD>()),
            Some(ReduceOp::Max) => with_value!(op.dtype, T => Combine::of::<T, MAX>()),
            Some(ReduceOp::Min | ReduceOp::ArgMax | ReduceOp::ArgMin) => {
                with_value!(op.dtype, T => Combine::of::<T, MIN>())
            }
        }
    }

    fn of<T: Value, const OP: u32>() -> Combine {
        Combine {
            slice: slice::<T, OP>,
            lone: lone::<T, OP>,
            size: size_of::<T>() as isize,
        }
    }
}

/// Combines one update with an element of the output.
///
/// # Safety
/// Both are there.
#[inline(always)]
unsafe fn one<T: Value, const OP: u32>(to: *mut T, from: *const T) {
    // SAFETY: the caller's promise.
    unsafe {
        let new = *from;
        if OP == SET {
            *to = new;
            return;
        }
        let (a, b) = ((*to).widen(), new.widen());
        *to = T::narrow(match OP {
            SUM => a.add(b),
            PROD => a.mul(b),
            MAX => a.max(b),
            _ => a.min(b),
        });
    }
}

unsafe fn slice<T: Value, const OP: u32>(to: *mut u8, from: *const u8, len: usize, steps: [isize; 2]) {
    let (to, from): (*mut T, *const T) = (to.cast(), from.cast());
    // SAFETY: the caller vouches for `len` elements of both.
    unsafe {
        match steps {
            [1, 1] => (0..len).for_each(|i| one::<T, OP>(to.wrapping_add(i), from.wrapping_add(i))),
            [a, b] => (0..len as isize)
                .for_each(|i| one::<T, OP>(to.wrapping_offset(i * b), from.wrapping_offset(i * a))),
        }
    }
}

unsafe fn lone<T: Value, const OP: u32>(
    (to, step): Line<*mut u8>,
    from: Line<*const u8>,
    places: &[i64],
    (range, is_whole): (&Range<usize>, bool),
) {
    // SAFETY: the caller's promise.
    unsafe {
        match step {
            1 if is_whole => lone_at::<T, OP, true>((to, 1), from, places, range),
            1 => lone_at::<T, OP, false>((to, 1), from, places, range),
            _ => lone_at::<T, OP, false>((to, step), from, places, range),
        }
    }
}

/// A place is seldom left out where there is a `BRANCH`.
#[inline(always)]
unsafe fn lone_at<T: Value, const OP: u32, const BRANCH: bool>(
    (to, step): Line<*mut u8>,
    (from, along): Line<*const u8>,
    places: &[i64],
    range: &Range<usize>,
) {
    let (to, from): (*mut T, *const T) = (to.cast(), from.cast());
    let (start, count) = (range.start as u64, range.len() as u64);
    // Zero of every dtype. Where the compiler knew that nothing reads it, it would branch.
    let mut nowhere = std::mem::MaybeUninit::<T>::zeroed();
    let beside = black_box(nowhere.as_mut_ptr());
    for (m, &place) in places.iter().enumerate() {
        let at = (place as isize).wrapping_mul(step);
        let update = from.wrapping_offset(m as isize * along);
        // Places before the range, negative ones too, are beyond its count.
        let counts = (place as u64).wrapping_sub(start) < count;
        let to = to.wrapping_offset(at);
        // SAFETY: the caller vouches for the updates and for the places of the range.
        unsafe {
            if !BRANCH || OP == SET {
                // Masks, and the ranges of several threads, leave places out as chance has it.
                one::<T, OP>(select_unpredictable(counts, to, beside), update);
            } else if counts {
                one::<T, OP>(to, update);
            }
        }
    }
}

/// All updates, by tasks.
///
/// # Safety
/// The launch's operands are there.
unsafe fn spread(op: &Scatter, launch: &Launch<'_>, parallel: &dyn Parallel) {
    let combine = Combine::new(op);
    let read = match op.index {
        DType::I32 => read::<i32>,
        _ => read::<i64>,
    };
    let outer: usize = launch.batch.iter().map(|&(extent, _)| extent as usize).product();
    let (slice, _) = launch.slice;
    let (places, _) = launch.places;
    let work = outer.saturating_mul(launch.updates).saturating_mul(slice);
    let useful = parallel.threads().min(work / GRAIN).max(1);
    // Slices first, then places: those are each read all indices.
    let cuts = useful.div_ceil(outer).min(slice.div_ceil(SLICE));
    let ranges = useful.div_ceil(outer * cuts).min(places);
    let tasks = outer * cuts * ranges;
    let groups = if useful == 1 { 1 } else { tasks.min(8 * useful) };
    let body = |group: usize| {
        for task in piece(tasks, groups, group) {
            let (range, rest) = (piece(places, ranges, task % ranges), task / ranges);
            let (cut, batch) = (piece(slice, cuts, rest % cuts), rest / cuts);
            // SAFETY: tasks write disjoint parts of the output.
            unsafe { part(launch, &combine, read, batch, cut, range) };
        }
    };
    match groups {
        1 => body(0),
        groups => parallel.run(groups, &body),
    }
}

/// Reads indices from number `first` on, `step` apart.
///
/// # Safety
/// There are so many.
unsafe fn read<I: Copy + Into<i64>>(index: *const u8, first: isize, step: isize, places: &mut [i64]) {
    let index = index.cast::<I>().wrapping_offset(first);
    for (m, place) in places.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *place = unsafe { *index.wrapping_offset(m as isize * step) }.into();
    }
}

type Read = unsafe fn(*const u8, isize, isize, &mut [i64]);

/// All updates of one point of the batch to some elements of the slice and some places.
unsafe fn part(
    launch: &Launch<'_>,
    combine: &Combine,
    read: Read,
    batch: usize,
    cut: Range<usize>,
    range: Range<usize>,
) {
    let mut at = [0_isize; 3];
    let mut rest = batch as u64;
    for &(extent, strides) in launch.batch.iter().rev() {
        let i = (rest % extent) as isize;
        rest /= extent;
        for (at, stride) in at.iter_mut().zip(strides) {
            *at += i * stride as isize;
        }
    }
    let (_, steps) = launch.slice;
    let size = combine.size;
    let from = (launch.source.ptr).wrapping_offset((at[0] + cut.start as isize * steps[0]) * size);
    let to = (launch.out.ptr).wrapping_offset((at[2] + cut.start as isize * steps[1]) * size);
    // Zero of every dtype.
    let zeros = 0_u64;
    let held = launch
        .updates
        .min(usize::try_from(launch.held).unwrap_or(usize::MAX));
    let mut read_places = [0; AT_ONCE];
    // Reading them first, however few, keeps a core from being at updates far apart at once, which takes twice the time.
    let stand = launch.steps[1] == 1 && launch.is_wide;
    // Updates beyond the gather's extent are 0.
    for (updates, from, along, within) in [
        (0..held, from.cast_const(), launch.steps[0], steps[0]),
        (held..launch.updates, (&raw const zeros).cast(), 0, 0),
    ] {
        for first in updates.clone().step_by(if stand { usize::MAX } else { AT_ONCE }) {
            let from = from.wrapping_offset(first as isize * along * size);
            let start = at[1] + first as isize * launch.steps[1];
            // SAFETY: the caller vouches for the operands.
            unsafe {
                let places = if stand {
                    let index = launch.index.ptr.cast::<i64>().wrapping_offset(start);
                    std::slice::from_raw_parts(index, updates.end - first)
                } else {
                    let places = &mut read_places[..AT_ONCE.min(updates.end - first)];
                    read(launch.index.ptr, start, launch.steps[1], places);
                    &*places
                };
                if cut.len() == 1 {
                    let is_whole = range == (0..launch.places.0);
                    (combine.lone)((to, launch.places.1), (from, along), places, (&range, is_whole));
                    continue;
                }
                for (m, &place) in places.iter().enumerate() {
                    if place >= range.start as i64 && place < range.end as i64 {
                        (combine.slice)(
                            to.wrapping_offset(place as isize * launch.places.1 * size),
                            from.wrapping_offset(m as isize * along * size),
                            cut.len(),
                            [within, steps[1]],
                        );
                    }
                }
            }
        }
    }
}
