//! The gradient of a convolution with respect to its weight.
//!
//! Input and output gradient lie in planes of the same shape, the latter with zeros in the padding, so an element of the result is
//! a dot product of two runs of memory: rows of dy by taps of x, a tile at a time, with no operand packed or transposed.
//!
//! Positions are cut into blocks by their extents alone, and an element's blocks are added in order: the bits do not depend on
//! the number of threads.

use super::forward::GRAIN;
use super::geometry::{AXES, Block, Layout, Pass, blocks, planes};
use super::operands::{Gathered, Rows, Shared, Sizes, Weights};
use super::planes::{Plane, Planes, SLACK};
use super::tile::{DOTS, DotArgs};
use super::words::ConvKernels;
use crate::library::gemm::{Scratch, Stored, piece};
use crate::parallel::Parallel;
use std::ops::Range;

/// Places of a block's plane: five rows of dy and the planes of a channel stay near L1.
const PLACES: usize = 2048;
/// Bytes of x's planes that stay in L2 beside dy's.
const PLANES: usize = 768 << 10;

/// What is computed; every field is about all groups.
pub(super) struct Job<'a, T> {
    /// `rows` are channels of dy, `channels` those of x.
    pub(super) sizes: Sizes,
    pub(super) x: Gathered<T>,
    pub(super) dy: Rows<*const T>,
    /// The result, in the terms of a kernel.
    pub(super) target: Weights<T>,
    pub(super) out: *mut T,
    /// The convolution's pass.
    pub(super) pass: &'a Pass,
}

struct Plan {
    layout: Layout,
    /// Blocks of positions, for each run of samples.
    pieces: usize,
    /// Offsets of the taps of the channels that are copied at a time.
    offsets: Vec<u32>,
    at_once: usize,
    taps: usize,
    /// Elements from one row of dy to the next.
    row: usize,
    /// Rows and channels are cut into this many parts, a task each.
    row_parts: usize,
    channel_parts: usize,
}

impl Plan {
    fn new<T: Stored>(kernels: &ConvKernels<T>, job: &Job<'_, T>, threads: usize) -> Plan {
        let (sizes, pass) = (&job.sizes, job.pass);
        let taps = pass.taps();
        let one = Layout::new(
            pass,
            blocks(pass, planes(pass, 1), PLACES * pass.phases().max(1), 1, 1),
            1,
        );
        let pieces = one.pieces(pass).iter().product();
        let samples = match pieces {
            1 => (PLACES / one.plane.max(1)).clamp(1, sizes.samples.max(1)),
            _ => 1,
        };
        let layout = Layout::new(pass, one.block, samples);
        let at_once =
            (PLANES / size_of::<T::Acc>() / layout.channel().max(1)).clamp(1, sizes.channels.max(1));
        let work = (sizes.samples * sizes.groups)
            .saturating_mul(pass.count().iter().product())
            .saturating_mul(sizes.rows * sizes.channels * taps);
        let useful = threads.min(work / GRAIN).max(1);
        let mut parts = (1, 1);
        if useful > 1 {
            // Rows first: a part of them copies all of x, a part of the channels copies all of dy.
            let wanted = useful.div_ceil(sizes.groups);
            let tall = kernels.tiles.dots.1.len();
            parts.0 = wanted.min(sizes.rows.div_ceil(tall));
            parts.1 = wanted.div_ceil(parts.0).min(sizes.channels);
        }
        let tallest = samples * layout.plane;
        Plan {
            offsets: padded(layout.offsets(pass, (at_once, layout.channel()), (1, false))),
            pieces,
            at_once,
            taps,
            row: (tallest + SLACK).next_multiple_of(16),
            layout,
            row_parts: parts.0,
            channel_parts: parts.1,
        }
    }
}

/// A whole number of tiles; what is beyond the last tap is computed and not used.
fn padded(mut offsets: Vec<u32>) -> Vec<u32> {
    let whole = offsets.len().next_multiple_of(DOTS);
    offsets.resize(whole, offsets.last().copied().unwrap_or(0));
    offsets
}

/// Whether the planes of the smallest blocks are small enough for this file.
pub(super) fn fits(pass: &Pass, sizes: &Sizes) -> bool {
    const MOST: usize = 1 << 24;
    let least = Layout::new(pass, [1; AXES], 1).channel();
    let result = pass
        .taps()
        .saturating_mul(sizes.channels)
        .saturating_mul(sizes.rows);
    least <= MOST && result <= 16 * MOST && sizes.rows.saturating_mul(least.max(PLACES)) <= 16 * MOST
}

/// Computes the gradient.
///
/// # Safety
/// The operands are readable and the result is writable at every index, no element of it is named twice, and it overlaps no
/// operand; `fits` holds and the kernels' instruction set exists.
pub(super) unsafe fn run<T: Stored>(kernels: &ConvKernels<T>, job: &Job<'_, T>, parallel: &dyn Parallel) {
    let sizes = job.sizes;
    if sizes.groups * sizes.rows * sizes.channels == 0 || job.target.extents.contains(&0) {
        return;
    }
    let plan = Plan::new(kernels, job, parallel.threads());
    let shared = Shared((job, &plan, kernels));
    let shared = &shared;
    let body = |task: usize| {
        let (job, plan, kernels) = shared.0;
        let (part, group) = (
            task % (plan.row_parts * plan.channel_parts),
            task / (plan.row_parts * plan.channel_parts),
        );
        let rows = piece(job.sizes.rows, plan.row_parts, part % plan.row_parts);
        let channels = piece(job.sizes.channels, plan.channel_parts, part / plan.row_parts);
        // SAFETY: tasks write disjoint parts of the result.
        unsafe { part_of(kernels, job, plan, group, rows, channels) };
    };
    match sizes.groups * plan.row_parts * plan.channel_parts {
        tasks if plan.row_parts * plan.channel_parts > 1 => parallel.run(tasks, &body),
        tasks => {
            let handed = handed(&plan, job, parallel.threads()).min(tasks);
            match handed {
                1 => (0..tasks).for_each(body),
                _ => parallel.run(handed, &|index| piece(tasks, handed, index).for_each(&body)),
            }
        }
    }
}

/// Into how many pieces groups are handed out.
fn handed<T>(plan: &Plan, job: &Job<'_, T>, threads: usize) -> usize {
    let work = (job.sizes.samples * job.sizes.groups)
        .saturating_mul(job.pass.count().iter().product())
        .saturating_mul(job.sizes.rows * job.sizes.channels * plan.taps);
    match threads.min(work / GRAIN) {
        0 | 1 => 1,
        useful => (work / GRAIN).min(8 * useful),
    }
}

/// The gradient of some rows and channels of a group.
unsafe fn part_of<T: Stored>(
    kernels: &ConvKernels<T>,
    job: &Job<'_, T>,
    plan: &Plan,
    group: usize,
    rows: Range<usize>,
    channels: Range<usize>,
) {
    let (sizes, layout) = (&job.sizes, &plan.layout);
    let columns = channels.len() * plan.taps;
    let (x_len, y_len, sums_len) = (
        plan.at_once * layout.channel() + 2 * SLACK,
        rows.len() * plan.row + SLACK,
        rows.len() * columns,
    );
    let scratch = Scratch::take((x_len + y_len + sums_len) * size_of::<T::Acc>());
    let x: *mut T::Acc = scratch.start().cast();
    // SAFETY: the scratch memory has the length asked for; the operands are the caller's.
    unsafe {
        let y = x.add(x_len);
        let sums = y.add(y_len);
        for i in 0..sums_len {
            sums.add(i).write(T::ZERO);
        }
        for first in (0..sizes.samples).step_by(layout.samples) {
            let samples = first..(first + layout.samples).min(sizes.samples);
            for index in 0..plan.pieces {
                let block = layout.block(job.pass, index);
                if block.size.contains(&0) || plan.taps == 0 {
                    continue;
                }
                let places = (samples.len() - 1) * layout.plane + layout.flat(block.size);
                let (lanes, set) = kernels.tiles.dots;
                copy_rows(
                    kernels,
                    job,
                    plan,
                    group,
                    samples.clone(),
                    rows.clone(),
                    &block,
                    y,
                );
                for c in channels.clone().step_by(plan.at_once) {
                    let some = c..(c + plan.at_once).min(channels.end);
                    let used = some.len() * plan.taps;
                    let end = some.len() * layout.channel();
                    let gathered = job.x.of_group(group);
                    Planes::new((1, T::ZERO), gathered.spatial, job.pass, layout, &block, x).copy(
                        kernels.plane,
                        &gathered,
                        (samples.clone(), some),
                        false,
                    );
                    for slack in 0..2 * SLACK {
                        x.add(end + slack).write(T::ZERO);
                    }
                    let pieces = rows.len().div_ceil(set.len());
                    for tile in 0..pieces {
                        let high = piece(rows.len(), pieces, tile);
                        for l in (0..used).step_by(DOTS) {
                            let mut out = [T::ZERO; DOTS * DOTS];
                            set[high.len() - 1](&DotArgs {
                                y: y.add(high.start * plan.row),
                                y_row: plan.row,
                                x,
                                offsets: plan.offsets.as_ptr().add(l),
                                registers: places.div_ceil(lanes),
                                out: out.as_mut_ptr(),
                            });
                            let wide = DOTS.min(used - l);
                            for (i, row) in high.clone().enumerate() {
                                let to = sums.add(row * columns + (c - channels.start) * plan.taps + l);
                                (kernels.plus)(to, out[i * DOTS..].as_ptr(), wide);
                            }
                        }
                    }
                }
            }
        }
        put(kernels, job, group, rows, channels, plan.taps, sums);
    }
}

/// Copies dy's rows into planes of x's shape, with zeros where there is no position.
#[expect(clippy::too_many_arguments, reason = "what is copied, and where to")]
unsafe fn copy_rows<T: Stored>(
    kernels: &ConvKernels<T>,
    job: &Job<'_, T>,
    plan: &Plan,
    group: usize,
    samples: Range<usize>,
    rows: Range<usize>,
    block: &Block,
    y: *mut T::Acc,
) {
    let (dy, layout) = (&job.dy, &plan.layout);
    for (index, row) in rows.enumerate() {
        let mut at = group as isize * dy.group + row as isize * dy.row;
        for i in 0..AXES {
            at += block.at[i] as isize * dy.spatial[i];
        }
        // SAFETY: rows lie one after another, each with slack behind it.
        unsafe {
            let start = y.add(index * plan.row);
            for (number, sample) in samples.clone().enumerate() {
                (kernels.plane)(&Plane {
                    dst: start.add(number * layout.plane),
                    extents: layout.extents,
                    from: [0; AXES],
                    to: block.size,
                    src: dy.ptr.wrapping_offset(at + sample as isize * dy.sample),
                    steps: dy.spatial,
                    framed: false,
                    zero: T::ZERO,
                    count: 1,
                    apart: 0,
                });
            }
            for slack in samples.len() * layout.plane..plan.row {
                start.add(slack).write(T::ZERO);
            }
        }
    }
}

/// Rounds the sums into the result; taps that reach nothing get 0.
unsafe fn put<T: Stored>(
    kernels: &ConvKernels<T>,
    job: &Job<'_, T>,
    group: usize,
    rows: Range<usize>,
    channels: Range<usize>,
    taps: usize,
    sums: *const T::Acc,
) {
    let (target, zero) = (&job.target, T::ZERO);
    let columns = channels.len() * taps;
    let [a, b, c] = target.extents;
    for (row, m) in rows.enumerate() {
        for (channel, n) in channels.clone().enumerate() {
            let at = group as isize * target.group + m as isize * target.row + n as isize * target.channel;
            let to = job.out.wrapping_offset(at);
            let place = |[i, j, k]: [usize; AXES]| {
                i as isize * target.taps[0] + j as isize * target.taps[1] + k as isize * target.taps[2]
            };
            // SAFETY: the caller's result; a sum for each row, channel and tap.
            unsafe {
                if taps < a * b * c {
                    for i in 0..a * b * c {
                        let to = to.offset(place([i / (b * c), i / c % b, i % c]));
                        (kernels.narrow)(to, 1, &raw const zero, 1);
                    }
                }
                let mut from = sums.add(row * columns + channel * taps);
                job.pass.each_tap(|taps| {
                    (kernels.narrow)(to.offset(place(taps.map(|tap| tap.index))), 1, from, 1);
                    from = from.add(1);
                });
            }
        }
    }
}
