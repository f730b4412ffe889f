//! Few rows: registers run along lines of the result, each in as many lines as there are registers, so a line of the planes is loaded
//! once for all the lines that it meets. A task goes through the planes of many groups with one set of tables.

use super::copies::Copies;
use super::plan::{GRAIN_OF_GROUPS, LEAST};
use super::store::is_finite;
use super::{Finished, Job, target_of};
use crate::library::conv::geometry::{self, AXES, Block, Layout, Pass, Tap, blocks};
use crate::library::conv::lines::{HIGHEST, Lines, LinesArgs, LinesFn, MOST_ROWS};
use crate::library::conv::operands::{Shared, Sizes};
use crate::library::conv::planes::{self, SLACK};
use crate::library::conv::words::ConvKernels;
use crate::library::gemm::{Byte, Scratch, Stored};
use crate::parallel::Parallel;
use std::ops::Range;

/// Rows of a group beyond which tiles of rows share what they load, with one channel and with more.
const MOST: [usize; 2] = [4, 8];
/// Bytes of a block's planes of one channel, which stay in L1, and elements of all planes of several channels.
const PLANES: usize = 24 << 10;
const CHANNELS: usize = 16 << 10;
/// Elements of the result that stay in L2 until the epilogue is applied.
const FINISHED: usize = 32 << 10;
/// Lanes that the choice of this file counts with.
const LANES: usize = 8;

/// Whether the groups have few rows, and lines leave fewer lanes idle than tiles would. It follows from extents alone, because tiles add
/// in another order.
pub(super) fn suits(sizes: &Sizes, pass: &Pass) -> bool {
    let [one, more] = MOST;
    if pass.taps() == 0 || sizes.channels == 0 || sizes.rows > more {
        return false;
    }
    if sizes.channels == 1 && sizes.rows <= one {
        return true;
    }
    let (rows, [_, lines, count]) = (neighbours(pass), pass.count());
    if rows < 3
        || Layout::new(pass, pass.count(), 1)
            .channel()
            .saturating_mul(sizes.channels)
            > CHANNELS
    {
        return false;
    }
    // Products of a column of taps with the lines that exist, for all lines of the result.
    let axis = &pass.axes[1];
    let (_, there) = planes::exist(axis, axis.phases[0], 0, lines);
    let products = |line: usize| (line.min(rows - 1) + 1).min(lines + rows - 1 - line).min(lines);
    let products: usize = there.map(products).sum();
    let used = (lines * rows * count) as f64 / (products * count.next_multiple_of(LANES)) as f64;
    // Tiles run through the padding. With few rows loads are what bounds them.
    let of_tiles = count as f64 / (count + pass.axes[2].span) as f64;
    used * (1.0 + 1.0 / sizes.rows as f64) > of_tiles
}

/// What all blocks of all groups share.
struct Plan<S: 'static> {
    layout: Layout,
    /// Blocks of a group.
    pieces: usize,
    /// Rows of taps that share what they load, and their columns: from a position's place to what the first row meets there.
    rows: usize,
    offsets: Vec<u32>,
    /// From a row's first weight to that of each tap, column by column.
    weights: Vec<isize>,
    set: Lines<S>,
    /// Whether lines of the padding add nothing: products of zero with infinity would be NaN.
    skips: bool,
    /// Blocks of all groups and samples that are a task.
    group: usize,
    tasks: usize,
}

impl<S: Copy> Plan<S> {
    fn new<T: Stored<Acc = S>>(kernels: &ConvKernels<T>, job: &Job<'_, T>, threads: usize) -> Plan<S> {
        let (sizes, pass) = (&job.sizes, job.pass);
        let positions: usize = pass.count().iter().product();
        let outer = sizes.samples * sizes.groups;
        let work = outer
            .saturating_mul(positions)
            .saturating_mul(sizes.rows * sizes.channels * pass.taps());
        let useful = threads.min(work / GRAIN_OF_GROUPS).max(1);
        let wanted = if useful > 1 {
            (4 * useful).div_ceil(outer)
        } else {
            1
        };
        let layout = Layout::new(
            pass,
            blocks(
                pass,
                geometry::planes(pass, sizes.channels),
                PLANES / size_of::<S>() * sizes.channels.min(4),
                wanted,
                LEAST,
            ),
            1,
        );
        let pieces: usize = layout.pieces(pass).iter().product();
        let (rows, offsets, weights) = columns(job, &layout, kernels.bytes.map_or(1, |bytes| bytes.each));
        let [narrow, wide] = kernels.tiles.lines;
        let count = layout.block[2];
        let set = if count.next_multiple_of(narrow.lanes) < count.next_multiple_of(wide.lanes) {
            narrow
        } else {
            wide
        };
        let tasks = outer * pieces;
        let handed = if useful > 1 {
            (work / GRAIN_OF_GROUPS).min(8 * useful).clamp(1, tasks)
        } else {
            1
        };
        Plan {
            layout,
            pieces,
            rows,
            offsets,
            weights,
            set,
            skips: true,
            group: tasks.div_ceil(handed),
            tasks,
        }
    }
}

/// Whether machine code that is wanted for lines is there.
pub(super) fn is_written<T: Stored>(kernels: &ConvKernels<T>, pass: &Pass) -> bool {
    let rows = neighbours(pass);
    kernels.tiles.lines.iter().all(|lines| lines.is_written(rows))
}

/// Rows of taps that meet neighbouring lines of a plane.
pub(super) fn neighbours(pass: &Pass) -> usize {
    let axis = &pass.axes[1];
    let taps = axis.taps.len();
    if axis.phases.len() == 1 && axis.span + 1 == taps && taps <= MOST_ROWS {
        taps
    } else {
        1
    }
}

/// The taps of a channel in the order in which their products are added: columns of so many [`neighbours`], one after the other.
pub(super) fn terms(pass: &Pass, rows: usize) -> Vec<[Tap; AXES]> {
    let [a, b, c] = &pass.axes;
    let mut lines = b.taps.clone();
    lines.sort_by_key(|tap| (tap.phase, tap.shift));
    let mut terms = Vec::with_capacity(pass.taps());
    for &i in &a.taps {
        for column in lines.chunks(rows) {
            for &k in &c.taps {
                terms.extend(column.iter().map(|&j| [i, j, k]));
            }
        }
    }
    terms
}

/// [`neighbours`], the offset of each column of them for each channel, and the places of their weights. The order is that of the lines.
fn columns<T>(job: &Job<'_, T>, layout: &Layout, each: usize) -> (usize, Vec<u32>, Vec<isize>) {
    let (pass, w) = (job.pass, &job.weights);
    let rows = neighbours(pass);
    let terms = terms(pass, rows);
    let (mut offsets, mut weights) = (Vec::new(), Vec::new());
    for channel in 0..job.sizes.channels {
        for (term, &taps) in terms.iter().enumerate() {
            if term % rows == 0 {
                offsets.push((channel * layout.channel() + layout.offset(pass, taps)) as u32);
            }
            weights.push((channel * each) as isize * w.channel + w.tap(taps));
        }
    }
    (rows, offsets, weights)
}

/// The weights of all rows in the order of the terms; whether all are finite goes to the plan.
///
/// # Safety
/// The weights are valid.
unsafe fn pack<T: Stored>(kernels: &ConvKernels<T>, job: &Job<'_, T>, plan: &mut Plan<T::Acc>) -> Scratch {
    let (sizes, w, terms) = (&job.sizes, &job.weights, plan.weights.len());
    let scratch = Scratch::take(sizes.groups * sizes.rows * terms * size_of::<T::Acc>());
    let packed: *mut T::Acc = scratch.start().cast();
    for index in 0..sizes.groups * sizes.rows {
        let (group, row) = ((index / sizes.rows) as isize, (index % sizes.rows) as isize);
        let from = group * w.group + row * w.row;
        let to = packed.wrapping_add(index * terms);
        // SAFETY: the weights are the caller's; the scratch memory has room for all of them.
        unsafe {
            match kernels.bytes {
                Some(bytes) => {
                    for (i, &at) in plan.weights.iter().enumerate() {
                        let lane = i / (terms / sizes.channels);
                        let src = w.ptr.cast::<Byte>().wrapping_offset(from + at);
                        let count = bytes.each.min(w.channels - lane * bytes.each);
                        let lane = (bytes.lane)(src, w.channel, count);
                        to.add(i).cast::<i32>().write(lane);
                    }
                }
                None if T::DIRECT => {
                    let from = w.ptr.wrapping_offset(from).cast::<T::Acc>();
                    for (i, &at) in plan.weights.iter().enumerate() {
                        to.add(i).write(*from.offset(at));
                    }
                }
                None => {
                    for (i, &at) in plan.weights.iter().enumerate() {
                        (kernels.widen)(to.add(i), w.ptr.wrapping_offset(from + at));
                    }
                }
            }
        }
    }
    if kernels.bytes.is_none() {
        // SAFETY: all of them were written.
        let all = unsafe { std::slice::from_raw_parts(packed, sizes.groups * sizes.rows * terms) };
        plan.skips = all.iter().fold(true, |finite, weight| finite & is_finite(weight));
    }
    scratch
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
    let mut plan = Plan::new(kernels, job, parallel.threads());
    // SAFETY: the caller's promise.
    let packed = unsafe { pack(kernels, job, &mut plan) };
    let shared = Shared((job, &plan, kernels, packed.start().cast::<T::Acc>().cast_const()));
    let shared = &shared;
    let body = |index: usize| {
        let (job, plan, kernels, packed) = shared.0;
        let (first, end) = (index * plan.group, ((index + 1) * plan.group).min(plan.tasks));
        // SAFETY: tasks write disjoint parts of the result.
        unsafe { task(kernels, job, plan, packed, first..end, finish) };
    };
    match plan.tasks.div_ceil(plan.group) {
        1 => body(0),
        groups => parallel.run(groups, &body),
    }
}

/// A pass whose planes are computed by whoever asks for them.
pub(super) struct Planned<S: 'static> {
    plan: Plan<S>,
    packed: Scratch,
}

impl<S: Copy> Planned<S> {
    /// # Safety
    /// The weights are valid.
    pub(super) unsafe fn new<T: Stored<Acc = S>>(kernels: &ConvKernels<T>, job: &Job<'_, T>) -> Planned<S> {
        let mut plan = Plan::new(kernels, job, 1);
        // SAFETY: the caller's promise.
        let packed = unsafe { pack(kernels, job, &mut plan) };
        Planned { plan, packed }
    }

    /// Planes of the result, counted by samples and groups, of a job like the one it was made for.
    ///
    /// # Safety
    /// As [`super::run`], for these planes.
    pub(super) unsafe fn planes<T: Stored<Acc = S>>(
        &self,
        kernels: &ConvKernels<T>,
        job: &Job<'_, T>,
        planes: Range<usize>,
    ) {
        let pieces = self.plan.pieces;
        let units = planes.start * pieces..planes.end * pieces;
        let packed = self.packed.start().cast::<S>().cast_const();
        // SAFETY: the caller's promise.
        unsafe { task(kernels, job, &self.plan, packed, units, None) };
    }
}

/// The blocks `units`, counted by samples, groups and pieces.
unsafe fn task<T: Stored>(
    kernels: &ConvKernels<T>,
    job: &Job<'_, T>,
    plan: &Plan<T::Acc>,
    packed: *const T::Acc,
    units: Range<usize>,
    finish: Option<&(dyn Fn(&Finished) + Sync)>,
) {
    let (sizes, layout) = (&job.sizes, &plan.layout);
    let planes = layout.channel() * sizes.channels + 2 * SLACK;
    // Registers that are rounded or spread on their way to the result.
    let sums = HIGHEST * plan.set.lanes;
    let scratch = Scratch::take((planes + sums) * size_of::<T::Acc>());
    let planes_at: *mut T::Acc = scratch.start().cast();
    for slack in 1..=2 * SLACK {
        // SAFETY: the memory has the length asked for. Planes are read past their end, where they hold zeros or what lines hold.
        unsafe { planes_at.add(planes - slack).write(T::ZERO) };
    }
    let at_once = match plan.pieces {
        1 => (FINISHED / (sizes.rows * layout.block.iter().product::<usize>())).max(1),
        _ => 1,
    };
    let mut next = units.start;
    while next < units.end {
        let block = layout.block(job.pass, next % plan.pieces);
        let channel = next / plan.pieces;
        let (sample, group) = (channel / sizes.groups, channel % sizes.groups);
        let count = at_once.min(units.end - next).min(sizes.groups - group);
        let copies = Copies::new(kernels, job, layout, &block, planes_at);
        let mut framed = plan.pieces == 1 && next > units.start;
        let lines = BlockLines::new(job, plan, &block);
        // Behind these groups another thread writes, or something else lies there.
        let end = group + count;
        let is_last = next + count == units.end || end == sizes.groups;
        for group in group..end {
            let is_last = is_last && group + 1 == end;
            // SAFETY: the scratch memory has room for the planes of a group and the slack behind them, then for sums; the operands are
            // the caller's.
            unsafe {
                copies.copy(kernels, job, group, sample, framed);
                framed = true;
                let target = target_of(job, group, sample, &block);
                for row in 0..sizes.rows {
                    let weights = packed.add((group * sizes.rows + row) * plan.weights.len());
                    let target = target.wrapping_offset(row as isize * job.target.row);
                    lines.run(
                        kernels,
                        (weights, planes_at),
                        target,
                        planes_at.add(planes),
                        is_last,
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

/// How the lines of a block are computed.
struct BlockLines<'a, T: Stored> {
    job: &'a Job<'a, T>,
    plan: &'a Plan<T::Acc>,
    block: &'a Block,
    /// Lines of a call, and what is called.
    taken: usize,
    kernel: LinesFn<T::Acc>,
    /// Elements of a register that are stored.
    lanes: usize,
    /// Lines of the block that exist in the operand.
    there: Range<usize>,
    /// Whether a register may run over the end of a line: what follows in the result is the next line, then the next group, both written
    /// later.
    runs_over: bool,
}

impl<'a, T: Stored> BlockLines<'a, T> {
    fn new(job: &'a Job<'a, T>, plan: &'a Plan<T::Acc>, block: &'a Block) -> BlockLines<'a, T> {
        let [deep, high, count] = block.size;
        let (taken, kernel) = plan.set.kernel(plan.rows, high);
        let axis = &job.pass.axes[1];
        let (_, there) = planes::exist(axis, axis.phases[0], block.at[1], high);
        let follows = (deep, plan.pieces, job.sizes.rows) == (1, 1, 1)
            && job.target.spatial[1] == count as isize
            && job.target.group == (high * count) as isize;
        BlockLines {
            job,
            plan,
            block,
            taken,
            kernel,
            lanes: plan.set.lanes.min(count),
            there,
            runs_over: follows && count < plan.set.lanes && plan.set.lanes <= high * count,
        }
    }

    /// A row of the block; `is_last` where nothing follows that is written later.
    ///
    /// # Safety
    /// The planes are those of the block, `target` is the row's element at its first position, and `sums` has room for a register of
    /// each line of a kernel.
    unsafe fn run(
        &self,
        kernels: &ConvKernels<T>,
        (weights, planes): (*const T::Acc, *const T::Acc),
        target: *mut T,
        sums: *mut T::Acc,
        is_last: bool,
    ) {
        let (plan, taken, lanes) = (self.plan, self.taken, self.lanes);
        let [_, lines, width] = plan.layout.extents;
        let [to_plane, to_line, to_next] = self.job.target.spatial;
        let [deep, high, count] = self.block.size;
        let beside = T::DIRECT && to_next == 1;
        let firsts = |count: usize, step: usize| (0..count).step_by(step).map(move |at| at.min(count - step));
        for i in 0..deep {
            // The last lines, and the last register of a line, begin earlier where they would not fit: what is computed again has the
            // same bits.
            for line in firsts(high, taken) {
                let end = line + taken + plan.rows - 1;
                let (above, below) = match plan.skips {
                    true => (
                        self.there.start.saturating_sub(line),
                        end.saturating_sub(self.there.end),
                    ),
                    false => (0, 0),
                };
                let is_last = is_last && line + taken == high;
                let direct = beside && (lanes == plan.set.lanes || (self.runs_over && !is_last));
                for at in firsts(count, lanes) {
                    let to = i as isize * to_plane + line as isize * to_line + at as isize * to_next;
                    let to = target.wrapping_offset(to);
                    let args = LinesArgs {
                        x: planes.wrapping_add((i * lines + line) * width + at),
                        x_line: width,
                        columns: plan.offsets.len(),
                        offsets: plan.offsets.as_ptr(),
                        weights,
                        out: if direct { to.cast() } else { sums },
                        out_line: if direct { to_line } else { plan.set.lanes as isize },
                        // Others hold zeros.
                        above: above.min(plan.rows - 1),
                        below: below.min(plan.rows - 1),
                        high: taken,
                        rows: plan.rows,
                    };
                    // SAFETY: the planes hold what each tap meets at the lines' positions, and what is read behind them is there; the
                    // result or `sums` has room for the lines, and what a register writes behind a line is written again.
                    unsafe {
                        (self.kernel)(&args);
                        if direct {
                            continue;
                        }
                        for line in 0..taken {
                            let to = to.offset(line as isize * to_line);
                            (kernels.narrow)(to, to_next, sums.add(line * plan.set.lanes), lanes);
                        }
                    }
                }
            }
        }
    }
}
