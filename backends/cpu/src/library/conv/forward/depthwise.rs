//! One channel a group: no sum is shared between rows, so lines of the result are computed one after another, and a task goes
//! through the planes of many groups with one set of tables.

use super::{Finished, GRAIN, Job, target_of};
use crate::library::conv::geometry::{Block, Layout, blocks};
use crate::library::conv::lines::{LinesArgs, LinesFn};
use crate::library::conv::operands::{Shared, Sizes};
use crate::library::conv::planes::{self, SLACK};
use crate::library::conv::words::ConvKernels;
use crate::library::gemm::{Scratch, Stored};
use crate::parallel::Parallel;
use smallvec::SmallVec;

/// Rows of a group beyond which tiles of rows share what they load.
const MOST_ROWS: usize = 4;
/// Bytes of a block's planes, which stay in L1.
const PLANES: usize = 24 << 10;
/// Elements of the result that stay in L2 until the epilogue is applied.
const FINISHED: usize = 32 << 10;

/// Whether the groups have one channel and few rows.
pub(super) fn suits(sizes: &Sizes) -> bool {
    sizes.channels == 1 && sizes.rows <= MOST_ROWS
}

/// What all blocks of all groups share.
struct Plan<S: 'static> {
    layout: Layout,
    /// Blocks of a group.
    pieces: usize,
    /// From a position's place to what each tap meets there, and from a row's first weight to that of each tap.
    offsets: Vec<u32>,
    weights: Vec<isize>,
    /// Kernels for one line and for `high` lines.
    one: LinesFn<S>,
    many: LinesFn<S>,
    high: usize,
    /// Each line of the result follows the last one upwards: taps go down the planes.
    upwards: bool,
    /// Blocks of all groups and samples that are a task.
    group: usize,
    tasks: usize,
}

impl<S> Plan<S> {
    fn new<T: Stored<Acc = S>>(kernels: &ConvKernels<T>, job: &Job<'_, T>, threads: usize) -> Plan<S> {
        let (sizes, pass) = (&job.sizes, job.pass);
        let positions: usize = pass.count().iter().product();
        let outer = sizes.samples * sizes.groups;
        let work = outer
            .saturating_mul(positions)
            .saturating_mul(sizes.rows * pass.taps().max(1));
        let useful = threads.min(work / GRAIN).max(1);
        let wanted = if useful > 1 {
            (4 * useful).div_ceil(outer)
        } else {
            1
        };
        let layout = Layout::new(
            pass,
            blocks(pass, 1, PLANES / size_of::<S>(), wanted, super::LEAST),
            1,
        );
        let pieces: usize = layout.pieces(pass).iter().product();
        let offsets = layout.offsets(pass, 1, 0);
        let mut weights = Vec::with_capacity(pass.taps());
        pass.each_tap(|taps| {
            let steps = taps.iter().zip(job.weights.taps);
            weights.push(steps.map(|(tap, step)| tap.index as isize * step).sum());
        });
        let count = layout.block[2];
        let [narrow, wide] = &kernels.tiles.lines;
        let lines = if count >= wide.lanes { wide } else { narrow };
        let square = square(&offsets, layout.extents[2] as isize);
        let (one, (high, many)) = match square {
            Some(_) => lines.three,
            None => lines.any,
        };
        let tasks = outer * pieces;
        let handed = if useful > 1 {
            (work / GRAIN).min(8 * useful).clamp(1, tasks)
        } else {
            1
        };
        Plan {
            layout,
            pieces,
            offsets,
            weights,
            one,
            many,
            high,
            upwards: square.is_some_and(|step| step < 0),
            group: tasks.div_ceil(handed),
            tasks,
        }
    }
}

/// The step from one row of taps to the next, if there are three rows of three taps and it is that of lines of `width`, up or down.
fn square(offsets: &[u32], width: isize) -> Option<isize> {
    let &[a, _, _, b, ..] = offsets else { return None };
    let step = b as isize - a as isize;
    let regular = |at: usize| offsets[at] as isize == offsets[at - 3] as isize + step;
    (offsets.len() == 9 && step.abs() == width && (3..9).all(regular)).then_some(step)
}

/// As [`super::run`].
///
/// # Safety
/// As there.
pub(super) unsafe fn run<T: Stored>(
    kernels: &ConvKernels<T>,
    job: &Job<'_, T>,
    parallel: &dyn Parallel,
    finish: Option<&(dyn Fn(&Finished) + Sync)>,
) {
    let plan = Plan::new(kernels, job, parallel.threads());
    let shared = Shared((job, &plan, kernels));
    let shared = &shared;
    let body = |index: usize| {
        let (job, plan, kernels) = shared.0;
        let (first, end) = (index * plan.group, ((index + 1) * plan.group).min(plan.tasks));
        // SAFETY: tasks write disjoint parts of the result.
        unsafe { task(kernels, job, plan, first..end, finish) };
    };
    match plan.tasks.div_ceil(plan.group) {
        1 => body(0),
        groups => parallel.run(groups, &body),
    }
}

/// The blocks `units`, counted by samples, groups and pieces.
unsafe fn task<T: Stored>(
    kernels: &ConvKernels<T>,
    job: &Job<'_, T>,
    plan: &Plan<T::Acc>,
    units: std::ops::Range<usize>,
    finish: Option<&(dyn Fn(&Finished) + Sync)>,
) {
    let (sizes, layout) = (&job.sizes, &plan.layout);
    let planes = layout.channel() + 2 * SLACK;
    // Lines that are rounded or spread on their way to the result.
    let sums = plan.high * layout.block[2];
    let scratch = Scratch::take((planes + sums) * size_of::<T::Acc>());
    let planes_at: *mut T::Acc = scratch.start().cast();
    for slack in 1..=2 * SLACK {
        // SAFETY: the memory has the length asked for. Planes are read past their end, where they hold zeros or what lines hold.
        unsafe { planes_at.add(planes - slack).write(T::ZERO) };
    }
    let at_once = match plan.pieces {
        1 => (FINISHED / layout.block.iter().product::<usize>()).max(1),
        _ => 1,
    };
    let mut next = units.start;
    while next < units.end {
        let block = layout.block(job.pass, next % plan.pieces);
        let channel = next / plan.pieces;
        let (sample, group) = (channel / sizes.groups, channel % sizes.groups);
        let count = at_once.min(units.end - next).min(sizes.groups - group);
        for group in group..group + count {
            let gathered = job.gathered.of_group(group);
            // SAFETY: the scratch memory has room for the planes of one channel and the slack behind them, then for sums; the
            // operands are the caller's.
            unsafe {
                planes::copy(
                    kernels.plane,
                    &gathered,
                    job.pass,
                    layout,
                    block,
                    (sample..sample + 1, 0..1),
                    planes_at,
                );
                for row in 0..sizes.rows {
                    let target =
                        target_of(job, group, sample, &block).wrapping_offset(row as isize * job.target.row);
                    lines(
                        kernels,
                        job,
                        plan,
                        &block,
                        (group, row),
                        planes_at,
                        target,
                        planes_at.add(planes),
                    );
                }
            }
        }
        if let Some(finish) = finish {
            finish(&Finished {
                sample,
                groups: group..group + count,
                rows: 0..sizes.rows,
                block,
            });
        }
        next += count;
    }
}

/// A row of a block.
///
/// # Safety
/// The planes are those of the block, `target` is the row's element at its first position, and `sums` has room for `high` lines.
#[expect(clippy::too_many_arguments, reason = "what is computed, and where it lies")]
unsafe fn lines<T: Stored>(
    kernels: &ConvKernels<T>,
    job: &Job<'_, T>,
    plan: &Plan<T::Acc>,
    block: &Block,
    (group, row): (usize, usize),
    planes: *const T::Acc,
    target: *mut T,
    sums: *mut T::Acc,
) {
    let w = job
        .weights
        .ptr
        .wrapping_offset(group as isize * job.weights.group + row as isize * job.weights.row);
    let mut weights: SmallVec<[T::Acc; 32]> = SmallVec::from_elem(T::ZERO, plan.weights.len());
    for (to, &at) in weights.iter_mut().zip(&plan.weights) {
        // SAFETY: the weights are the caller's.
        unsafe { (kernels.widen)(to, w.offset(at)) };
    }
    let [_, lines, width] = plan.layout.extents;
    let [high, count] = [block.size[1], block.size[2]];
    let direct = T::DIRECT && job.target.spatial[2] == 1;
    for i in 0..block.size[0] {
        let mut next = 0;
        while next < high {
            let whole = high >= plan.high;
            let taken = if whole { plan.high } else { 1 };
            // The last lines are computed again where a whole number of them does not fit.
            let first = next.min(high - taken);
            next = first + taken;
            // The line that comes first for the kernel, and its way from there.
            let (line, way) = if plan.upwards {
                (high - 1 - first, -1)
            } else {
                (first, 1)
            };
            let x = planes.wrapping_add((i * lines + line) * width);
            let to = i as isize * job.target.spatial[0] + line as isize * job.target.spatial[1];
            let (to, to_line) = (target.wrapping_offset(to), way * job.target.spatial[1]);
            let args = LinesArgs {
                x,
                x_line: way * width as isize,
                taps: weights.len(),
                offsets: plan.offsets.as_ptr(),
                weights: weights.as_ptr(),
                out: if direct { to.cast() } else { sums },
                out_line: if direct { to_line } else { count as isize },
                count,
            };
            // SAFETY: the planes hold what each tap meets at the lines' positions, and what is read behind them is there; the result
            // or `sums` has room for the lines.
            unsafe {
                (if whole { plan.many } else { plan.one })(&args);
                if !direct {
                    for i in 0..taken {
                        let to = to.offset(i as isize * to_line);
                        (kernels.narrow)(to, job.target.spatial[2], sums.add(i * count), count);
                    }
                }
            }
        }
    }
}
