//! Channels that lie side by side, each convolved by itself: registers run along the channels of a position, and a tap outside of the
//! operand meets zeros. Sums are added in the order of `lines.rs`, which takes the other layouts, so the bits are the same.

mod strips;

use super::deal::Deal;
use super::lines::{neighbours, terms};
use super::plan::GRAIN_OF_GROUPS;
use super::store::is_finite;
use super::{Finished, Job, target_of, weights};
use crate::library::conv::beside::{BesideArgs, CHANNELS};
use crate::library::conv::geometry::{AXES, Block, Layout, Pass, Tap};
use crate::library::conv::operands::{Shared, Weights};
use crate::library::conv::planes;
use crate::library::conv::words::ConvKernels;
use crate::library::gemm::{Scratch, Stored};
use crate::parallel::Parallel;
use smallvec::SmallVec;
use std::ops::Range;
use strips::Sliding;

/// Taps that stand on the stack.
const MOST: usize = 64;
/// Elements of the result that stay in L2 until the epilogue is applied.
const FINISHED: usize = 32 << 10;
/// Accumulators that packing writes past its end.
const SLACK: usize = 16;

/// Whether a launch of which `lines.rs` takes other layouts is taken.
pub(super) fn suits<T: Stored>(kernels: &ConvKernels<T>, job: &Job<'_, T>) -> bool {
    let (sizes, pass) = (&job.sizes, job.pass);
    let rows = neighbours(pass);
    let [_, lines, _] = pass.count();
    // Lines of the padding are left out as far as taps have neighbours.
    let (_, there) = planes::exist(&pass.axes[1], pass.axes[1].phases[0], 0, lines);
    let outside = there.start.max(lines + pass.axes[1].span - there.end);
    T::DIRECT
        && kernels.bytes.is_none()
        && (sizes.channels, sizes.rows) == (1, 1)
        && sizes.groups >= CHANNELS
        && (job.gathered.group, job.target.group) == (1, 1)
        && (rows == 1 || outside < rows)
}

struct Plan<S: 'static> {
    layout: Layout,
    pieces: usize,
    taps: Vec<[Tap; AXES]>,
    /// Whether lines of the padding are left out.
    skips: bool,
    /// Kernels that share what neighbours load.
    sliding: Option<Sliding<S>>,
}

/// As [`super::run`].
///
/// # Safety
/// As there, and [`suits`].
pub(super) unsafe fn run<T: Stored>(
    kernels: &ConvKernels<T>,
    job: &Job<'_, T>,
    parallel: &dyn Parallel,
    finish: Option<&(dyn Fn(&Finished) + Sync)>,
) {
    let pass = job.pass;
    let (samples, channels) = (job.sizes.samples, job.sizes.groups);
    let rows = neighbours(pass);
    let taps = terms(pass, rows);
    let sliding = Sliding::new(kernels, pass, rows);
    let lanes = kernels.tiles.beside.lanes;
    // Taps as they lie, and behind them in their order, of all channels or of some after the others.
    let (lying, registers) = (taps.len() * channels + SLACK, channels.div_ceil(lanes));
    let len = lying + taps.len() * registers * lanes;
    let scratch = Scratch::take(len * size_of::<T::Acc>());
    let lie: *mut T::Acc = scratch.start().cast();
    let packed = lie.wrapping_add(lying);
    let w = Weights {
        row: job.weights.group,
        group: 0,
        ..job.weights
    };
    let mut finite = true;
    // SAFETY: the weights are the caller's; the scratch memory has room for all of them twice.
    unsafe {
        weights::pack(kernels, (&w, pass), 0, (0..channels, channels), 0..1, lie);
        for (term, wanted) in taps.iter().enumerate() {
            let from = lie.add(lies(pass, wanted) * channels);
            for channel in 0..channels {
                finite &= is_finite(&*from.add(channel));
            }
            if sliding.is_none() {
                let to = packed.add(term * channels);
                to.copy_from_nonoverlapping(from, channels);
                continue;
            }
            for register in 0..registers {
                let first = (register * lanes).min(channels - lanes);
                let to = packed.add((register * taps.len() + term) * lanes);
                to.copy_from_nonoverlapping(from.add(first), lanes);
            }
        }
    }
    let count = pass.count();
    let work = (samples * channels * taps.len()).saturating_mul(count.iter().product());
    let useful = parallel.threads().min(work / GRAIN_OF_GROUPS).max(1);
    let wanted = if useful > 1 {
        (4 * useful).div_ceil(samples)
    } else {
        1
    };
    let lines = count[0] * count[1];
    let most = (FINISHED / (count[2] * channels)).clamp(1, lines.div_ceil(wanted).max(1));
    let block = match most < count[1] {
        true => [1, most, count[2]],
        false => [most / count[1], count[1], count[2]],
    };
    let layout = Layout::new(pass, block, 1);
    let plan = Plan {
        pieces: layout.pieces(pass).iter().product(),
        layout,
        taps,
        skips: finite && rows > 1,
        sliding,
    };
    let tasks = samples * plan.pieces;
    let shared = Shared((job, &plan, kernels, packed.cast_const()));
    let shared = &shared;
    let piece = |index: usize| {
        let (job, plan, kernels, packed) = shared.0;
        let block = plan.layout.block(job.pass, index % plan.pieces);
        let sample = index / plan.pieces;
        // SAFETY: tasks write disjoint parts of the result.
        unsafe {
            match &plan.sliding {
                Some(sliding) => sliding.task(job, plan, packed, sample, &block),
                None => task(kernels, job, plan, packed, sample, &block),
            }
        };
        if let Some(finish) = finish {
            finish(&Finished {
                sample,
                groups: 0..job.sizes.groups,
                rows: 0..1,
                block,
            });
        }
    };
    if useful == 1 {
        (0..tasks).for_each(piece);
        return;
    }
    let deal = Deal::new(tasks, useful);
    parallel.run(tasks, &|call| deal.run(call, |index, _| piece(index)));
}

/// Which tap it is in the order of [`Pass::each_tap`].
fn lies(pass: &Pass, wanted: &[Tap; AXES]) -> usize {
    (pass.axes.iter().zip(wanted)).fold(0, |at, (axis, wanted)| {
        let index = axis.taps.iter().position(|tap| tap.index == wanted.index);
        at * axis.taps.len() + index.unwrap_or(0)
    })
}

/// Where a tap leads along an axis, in elements of the gathered operand; `None` is outside.
fn place(pass: &Pass, axis: usize, position: usize, tap: Tap) -> Option<isize> {
    let of = &pass.axes[axis];
    let place = (position as isize + tap.shift) * of.step as isize + of.phases[tap.phase];
    (0..of.extent as isize).contains(&place).then_some(place)
}

/// The positions of a line that meet no padding: they are neighbours.
fn inside(pass: &Pass, block: &Block) -> Range<usize> {
    let wide = block.size[2];
    let taps = &pass.axes[2].taps;
    let is_inside = |&at: &usize| {
        let at = block.at[2] + at;
        taps.iter().all(|&tap| place(pass, 2, at, tap).is_some())
    };
    let first = (0..wide).find(is_inside).unwrap_or(wide);
    first..(first..wide).rfind(is_inside).map_or(first, |last| last + 1)
}

/// Zeros that stand for the channels of an element outside.
fn zeros<T: Stored>(channels: usize, more: usize) -> Scratch {
    let scratch = Scratch::take((channels + more) * size_of::<T::Acc>());
    let start: *mut T::Acc = scratch.start().cast();
    for channel in 0..channels {
        // SAFETY: the memory has the length asked for.
        unsafe { start.add(channel).write(T::ZERO) };
    }
    scratch
}

/// A block of the result.
///
/// # Safety
/// As [`run`]; `packed` has the weights of each tap.
unsafe fn task<T: Stored>(
    kernels: &ConvKernels<T>,
    job: &Job<'_, T>,
    plan: &Plan<T::Acc>,
    packed: *const T::Acc,
    sample: usize,
    block: &Block,
) {
    let (pass, channels, x) = (job.pass, job.sizes.groups, &job.gathered);
    let [deep, high, wide] = block.size;
    let zeros = zeros::<T>(channels, plan.taps.len() * channels);
    let outside: *const T::Acc = zeros.start().cast();
    let own = outside.cast_mut().wrapping_add(channels);
    let x_at: *const T::Acc = x.at(sample, 0).cast();
    // What positions meet along a line: the same for all lines.
    let along = |at: usize, tap: Tap| place(pass, 2, block.at[2] + at, tap).map(|place| place * x.spatial[2]);
    let column = |at: usize| plan.taps.iter().map(move |taps| along(at, taps[2]));
    let inside = inside(pass, block);
    let step = pass.axes[2].step as isize * x.spatial[2];
    let mut table: Vec<*const T::Acc> = Vec::new();
    let target = target_of(job, 0, sample, block);
    let mut chosen_before: SmallVec<[bool; MOST]> = SmallVec::new();
    for (i, j) in (0..deep).flat_map(|i| (0..high).map(move |j| (i, j))) {
        let [at_i, at_j] = [block.at[0] + i, block.at[1] + j];
        let lines: SmallVec<[(Option<isize>, bool); MOST]> = (plan.taps.iter())
            .map(|taps| {
                let line = place(pass, 1, at_j, taps[1]);
                let plane = place(pass, 0, at_i, taps[0]);
                let of = line.zip(plane);
                let at = of.map(|(line, plane)| line * x.spatial[1] + plane * x.spatial[0]);
                (at, line.is_some() || !plan.skips)
            })
            .collect();
        let chosen: SmallVec<[bool; MOST]> = lines.iter().map(|&(_, chosen)| chosen).collect();
        let terms = chosen.iter().filter(|&&chosen| chosen).count();
        let mut weights = packed;
        if terms < plan.taps.len() {
            weights = own;
            if chosen != chosen_before {
                let taken = (0..plan.taps.len()).filter(|&term| chosen[term]);
                for (to, from) in taken.enumerate() {
                    let (to, from) = (
                        own.wrapping_add(to * channels),
                        packed.wrapping_add(from * channels),
                    );
                    // SAFETY: both have as many channels.
                    unsafe { to.copy_from_nonoverlapping(from, channels) };
                }
                chosen_before.clone_from(&chosen);
            }
        }
        let to = i as isize * job.target.spatial[0] + j as isize * job.target.spatial[1];
        let mut meets = |positions: Range<usize>, single: bool| {
            if positions.is_empty() {
                return;
            }
            table.clear();
            for at in positions.start..if single {
                positions.start + 1
            } else {
                positions.end
            } {
                let each = lines.iter().zip(column(at)).filter(|((_, chosen), _)| *chosen);
                table.extend(each.map(|(&(line, _), column)| {
                    let at = line
                        .zip(column)
                        .map(|(line, column)| x_at.wrapping_offset(line + column));
                    at.unwrap_or(outside)
                }));
            }
            let to = to + positions.start as isize * job.target.spatial[2];
            let args = BesideArgs {
                table: table.as_ptr(),
                entries: if single { 0 } else { terms },
                step: if single { step } else { 0 },
                positions: positions.len(),
                terms,
                weights,
                channels,
                out: target.wrapping_offset(to).cast::<T::Acc>(),
                out_position: job.target.spatial[2],
            };
            // SAFETY: the table has what exists, or zeros; positions of the block are in the result.
            unsafe { (kernels.tiles.beside.compiled)(&args) };
        };
        let whole = lines.iter().all(|&(line, chosen)| line.is_some() || !chosen);
        meets(0..inside.start, false);
        meets(inside.clone(), whole);
        meets(inside.end..wide, false);
    }
}
