//! The gradient of a convolution with respect to its weight, as sums of outer products.
//!
//! A register holds one position of as many rows of dy as it has lanes. It is multiplied by the elements of x that the taps meet
//! there, each spread over a register, and added to one register of sums for each tap: no lane is lost to the shape of the result
//! and nothing is summed across lanes. x lies in padded planes, dy is transposed a sample at a time.
//!
//! An element's sum runs over the positions of one sample in order, then over samples, then over blocks of samples, which follow
//! from extents alone: the bits depend neither on the number of threads nor on the instruction set.

use super::forward::GRAIN;
use super::geometry::{AXES, Window};
use super::operands::Shared;
use super::planes::{Plane, SLACK};
use super::tile::{OUTER_LINES, OuterArgs};
use super::weight::Job;
use super::words::ConvKernels;
use crate::library::gemm::{Panel, Scratch, Stored, piece};
use crate::parallel::Parallel;
use smallvec::SmallVec;
use std::ops::Range;

/// Bytes of x's planes that stay in L2 beside dy's.
const PLANES: usize = 384 << 10;
/// Blocks of samples, where the sums of each are small.
const BLOCKS: usize = 8;
/// Sums that are small, in accumulators of rows in whole `LANES`: they follow from extents alone.
const SMALL: usize = 1 << 16;
const LANES: usize = 16;
/// Rows below which most lanes would be idle.
const ROWS: usize = 4;
/// Most positions of a plane: a task holds a register of rows for each.
const POSITIONS: usize = 1 << 18;
/// Most elements of the weight.
const WEIGHT: usize = 1 << 24;
/// Fewest channels for which a task transposes dy.
const CHANNELS: usize = 8;

/// How the work is cut.
struct Plan {
    /// Extents and elements of a padded plane of x.
    extents: [usize; AXES],
    plane: usize,
    /// Channels whose planes are copied at a time.
    at_once: usize,
    /// Lines of taps of a channel, and taps of a line, which are neighbours.
    lines: usize,
    taps: usize,
    /// Runs of taps that a kernel takes at a time, and the lines that it takes.
    wide: usize,
    high: usize,
    /// Registers that hold all rows of a group; blocks of samples; pieces of the channels.
    registers: usize,
    blocks: usize,
    cuts: usize,
    /// Accumulators of the sums of one register of rows.
    sums: usize,
    /// Which registers hold them, and their lanes.
    set: usize,
    lanes: usize,
    /// x is read where it is.
    in_place: bool,
}

impl Plan {
    fn new<T: Stored>(
        kernels: &ConvKernels<T>,
        job: &Job<'_, T>,
        windows: &[Window; AXES],
        threads: usize,
    ) -> Plan {
        let [narrow, wide] = kernels.tiles.outer;
        let rows = job.sizes.rows;
        let narrow = rows.next_multiple_of(narrow.0) < rows.next_multiple_of(wide.0);
        let (lanes, set, _) = kernels.tiles.outer[usize::from(!narrow)];
        let extents = windows.each_ref().map(reach);
        let plane = extents.iter().fold(1, |a: usize, &b| a.saturating_mul(b));
        let [a, b, c] = windows.each_ref().map(|w| w.taps);
        let (lines, taps) = match windows[AXES - 1].dilation {
            1 => (a * b, c),
            _ => (a * b * c, 1),
        };
        // The fewest runs, of equal length but for the last.
        let wide = taps.max(1).div_ceil(taps.max(1).div_ceil(set.len()));
        let at_once = (PLANES / size_of::<T::Acc>() / plane.max(1)).clamp(1, job.sizes.channels.max(1));
        let sums = (job.sizes.channels * lines).saturating_mul(taps * lanes);
        let registers = job.sizes.rows.div_ceil(lanes);
        let parts = registers * job.sizes.groups;
        let accumulators = (job.sizes.channels * lines * taps)
            .saturating_mul(job.sizes.rows.next_multiple_of(LANES) * job.sizes.groups);
        let blocks = match accumulators <= SMALL {
            true => job.sizes.samples.clamp(1, BLOCKS),
            false => 1,
        };
        // Several tasks a thread, so that none waits long for the last one.
        let cuts = (4 * threads)
            .div_ceil((parts * blocks).max(1))
            .clamp(1, (job.sizes.channels / CHANNELS).max(1));
        Plan {
            extents,
            plane,
            at_once,
            lines,
            taps,
            wide,
            high: set[wide - 1],
            registers,
            blocks,
            cuts,
            sums,
            set: usize::from(!narrow),
            lanes,
            in_place: in_place(job, windows, at_once),
        }
    }

    /// The place of the first tap of a line of a channel along each axis, which have so many taps. Taps that are no neighbours are lines
    /// of one tap each.
    fn first_tap(&self, line: usize, [_, b, c]: [usize; AXES]) -> [usize; AXES] {
        let apart = c / self.taps;
        let (line, k) = (line / apart, line % apart);
        [line / b, line % b, k]
    }
}

/// Elements of x that an axis reaches, those of the padding among them.
fn reach(w: &Window) -> usize {
    (w.output.max(1) - 1) * w.stride as usize + (w.taps.max(1) - 1) * w.dilation as usize + 1
}

/// Whether x may stand for its planes: it has no padding, and its elements are neighbours.
fn in_place<T: Stored>(job: &Job<'_, T>, windows: &[Window; AXES], channels: usize) -> bool {
    let strides = [job.x.channel, job.x.spatial[0], job.x.spatial[1]];
    let extents = [channels, windows[0].input, windows[1].input];
    let end = (strides.iter().zip(extents)).fold(windows[2].input as isize, |end, (&stride, extent)| {
        end.saturating_add(stride.saturating_mul(extent as isize))
    });
    T::DIRECT
        && windows.iter().all(|w| w.padding == 0 && reach(w) <= w.input)
        && job.x.spatial[2] == 1
        && strides.iter().all(|&stride| stride >= 0)
        && u32::try_from(end).is_ok()
}

/// Whether this file is for the job: enough rows, and planes and sums of reasonable size.
pub(super) fn suits<T>(job: &Job<'_, T>, windows: &[Window; AXES]) -> bool {
    let plane = windows.iter().fold(1_usize, |size, w| {
        size.saturating_mul(w.output * w.stride as usize + w.taps * w.dilation as usize)
    });
    job.sizes.rows >= ROWS
        && plane <= POSITIONS
        && windows.iter().all(|w| w.output > 0 && w.taps > 0)
        && (job.sizes.channels * job.sizes.rows).saturating_mul(windows.iter().map(|w| w.taps).product())
            <= WEIGHT
}

/// Computes the gradient.
///
/// # Safety
/// As [`super::weight::run`]; [`suits`] holds.
pub(super) unsafe fn run<T: Stored>(
    kernels: &ConvKernels<T>,
    job: &Job<'_, T>,
    windows: &[Window; AXES],
    parallel: &dyn Parallel,
) {
    let plan = Plan::new(kernels, job, windows, parallel.threads());
    let parts = job.sizes.groups * plan.registers;
    let scratch = Scratch::take(parts * plan.blocks * plan.sums * size_of::<T::Acc>());
    let sums: *mut T::Acc = scratch.start().cast();
    let shared = Shared((job, &plan, kernels, windows, sums));
    let shared = &shared;
    let compute = |task: usize| {
        let (job, plan, kernels, windows, sums) = shared.0;
        let (task, cut) = (task / plan.cuts, task % plan.cuts);
        let (part, block) = (task / plan.blocks, task % plan.blocks);
        let samples = piece(job.sizes.samples, plan.blocks, block);
        let channels = piece(job.sizes.channels, plan.cuts, cut);
        // SAFETY: every task has its own channels of the sums of its part and block.
        unsafe {
            let sums = sums.add(task * plan.sums);
            block_of(kernels, job, plan, windows, part, samples, channels, sums);
        };
    };
    let finish = |task: usize| {
        let (job, plan, kernels, _, sums) = shared.0;
        let (part, cut) = (task / plan.cuts, task % plan.cuts);
        let channels = piece(job.sizes.channels, plan.cuts, cut);
        let pitch = plan.lines * plan.taps * plan.lanes;
        // SAFETY: all sums are there; every task has its own rows and channels of them and of the result.
        unsafe {
            let first = sums.add(part * plan.blocks * plan.sums);
            for block in 1..plan.blocks {
                let (start, count) = (channels.start * pitch, channels.len() * pitch);
                let from = first.add(block * plan.sums + start).cast_const();
                (kernels.plus)(first.add(start), from, count);
            }
            put(kernels, job, plan, part, channels, first);
        }
    };
    let work = windows
        .iter()
        .map(|w| w.output)
        .product::<usize>()
        .saturating_mul(job.sizes.samples * plan.sums)
        .saturating_mul(parts);
    let (first, second) = (parts * plan.blocks * plan.cuts, parts * plan.cuts);
    if parallel.threads().min(work / GRAIN) > 1 {
        parallel.run(first, &compute);
    } else {
        (0..first).for_each(compute);
    }
    if parallel.threads().min(plan.sums * parts * plan.blocks / GRAIN) > 1 {
        parallel.run(second, &finish);
    } else {
        (0..second).for_each(finish);
    }
}

/// The sums of one register of rows of a group and some channels over some samples.
#[allow(
    clippy::too_many_arguments,
    reason = "a piece of the work along each of its axes"
)]
unsafe fn block_of<T: Stored>(
    kernels: &ConvKernels<T>,
    job: &Job<'_, T>,
    plan: &Plan,
    windows: &[Window; AXES],
    part: usize,
    samples: Range<usize>,
    own: Range<usize>,
    sums: *mut T::Acc,
) {
    let (lanes, _, set) = kernels.tiles.outer[plan.set];
    let (group, first) = (part / plan.registers, part % plan.registers * lanes);
    let rows = lanes.min(job.sizes.rows - first);
    let [deep, high, wide] = windows.each_ref().map(|w| w.output);
    let steps = windows.each_ref().map(|w| w.stride as usize);
    debug_assert!(high > 0 && wide > 0 && steps[2] > 0);
    let y_len = deep * high * wide * lanes + SLACK;
    let x_len = if plan.in_place {
        0
    } else {
        plan.at_once * plan.plane
    };
    let scratch = Scratch::take((y_len + x_len + SLACK) * size_of::<T::Acc>());
    let y: *mut T::Acc = scratch.start().cast();
    let x_job = job.x.of_group(group);
    let [plane, layer, line_of_x] = if plan.in_place {
        [x_job.channel, x_job.spatial[0], x_job.spatial[1]].map(isize::cast_unsigned)
    } else {
        [plan.plane, plan.extents[1] * plan.extents[2], plan.extents[2]]
    };
    let of_taps = windows.each_ref().map(|w| w.taps);
    let far = |line: usize| -> usize {
        let tap = plan.first_tap(line, of_taps);
        let places = tap.iter().zip(windows).map(|(tap, w)| tap * w.dilation as usize);
        places
            .zip([layer, line_of_x, 1])
            .map(|(place, step)| place * step)
            .sum()
    };
    let taps: SmallVec<[usize; 32]> = (0..plan.lines).map(far).collect();
    // SAFETY: the scratch memory has the length asked for; the operands are the caller's.
    unsafe {
        let x = y.add(y_len);
        let pitch = plan.lines * plan.taps * lanes;
        for i in own.start * pitch..own.end * pitch {
            sums.add(i).write(T::ZERO);
        }
        for sample in samples {
            let rows = (first..first + rows, lanes);
            transpose(kernels, job, group, sample, rows, [deep, high, wide], y);
            for channel in own.clone().step_by(plan.at_once) {
                let channels = plan.at_once.min(own.end - channel);
                let x = if plan.in_place {
                    x_job.at(sample, channel).cast()
                } else {
                    for c in 0..channels {
                        let dst = x.add(c * plan.plane);
                        let src = x_job.at(sample, channel + c);
                        pad(kernels, plan, windows, src, x_job.spatial, dst);
                    }
                    x.cast_const()
                };
                let lines = channels * plan.lines;
                for line in (0..lines).step_by(plan.high) {
                    // Lines beyond the last are those of the last again; their sums go nowhere.
                    let mut offsets = [0_u32; OUTER_LINES];
                    for (i, offset) in offsets.iter_mut().enumerate().take(plan.high) {
                        let at = (line + i).min(lines - 1);
                        let (c, tap) = (at / plan.lines, at % plan.lines);
                        *offset = (c * plane + taps[tap]) as u32;
                    }
                    for tap in (0..plan.taps).step_by(plan.wide) {
                        let columns = plan.wide.min(plan.taps - tap);
                        for i in 0..deep {
                            (set[columns - 1])(&OuterArgs {
                                y: y.add(i * high * wide * lanes),
                                x: x.add(i * steps[0] * layer + tap),
                                offsets: offsets.as_ptr(),
                                used: plan.high.min(lines - line),
                                taps: columns,
                                high,
                                wide,
                                step: steps[2],
                                line: steps[1] * line_of_x,
                                sums: sums.add(((channel * plan.lines + line) * plan.taps + tap) * lanes),
                                pitch: plan.taps * lanes,
                            });
                        }
                    }
                }
            }
        }
    }
}

/// Writes a sample's rows of dy position by position.
unsafe fn transpose<T: Stored>(
    kernels: &ConvKernels<T>,
    job: &Job<'_, T>,
    group: usize,
    sample: usize,
    (rows, lanes): (Range<usize>, usize),
    [deep, high, wide]: [usize; AXES],
    y: *mut T::Acc,
) {
    let dy = &job.dy;
    let src = dy.ptr.wrapping_offset(
        sample as isize * dy.sample + group as isize * dy.group + rows.start as isize * dy.row,
    );
    let panel = |dst: *mut T::Acc, src: *const T, kc: usize| Panel {
        dst,
        pitch: lanes,
        src,
        width: rows.len(),
        w_step: dy.row,
        k_step: dy.spatial[2],
        kc,
    };
    let dense = (high == 1 || dy.spatial[1] == wide as isize * dy.spatial[2])
        && (deep == 1 || dy.spatial[0] == (high * wide) as isize * dy.spatial[2]);
    // SAFETY: the caller's operand; a panel runs over its end into the next one or into the slack.
    unsafe {
        if dense {
            return (kernels.pack)(&panel(y, src, deep * high * wide));
        }
        for i in 0..deep {
            for j in 0..high {
                let from = src.wrapping_offset(i as isize * dy.spatial[0] + j as isize * dy.spatial[1]);
                (kernels.pack)(&panel(y.add((i * high + j) * wide * lanes), from, wide));
            }
        }
    }
}

/// Copies a channel of x into a padded plane.
unsafe fn pad<T: Stored>(
    kernels: &ConvKernels<T>,
    plan: &Plan,
    windows: &[Window; AXES],
    src: *const T,
    spatial: [isize; AXES],
    dst: *mut T::Acc,
) {
    let mut plane = Plane {
        dst,
        extents: plan.extents,
        from: [0; AXES],
        to: [0; AXES],
        src,
        steps: spatial,
        framed: false,
        zero: T::ZERO,
        count: 1,
        apart: 0,
    };
    for (i, window) in windows.iter().enumerate() {
        let low = window.padding;
        let inside = |place: i64| place.clamp(0, plan.extents[i] as i64) as usize;
        (plane.from[i], plane.to[i]) = (inside(low), inside(low + window.input as i64));
        plane.src = plane.src.wrapping_offset(-low as isize * spatial[i]);
    }
    // SAFETY: only elements that exist are read; planes lie one after another, with slack behind the last.
    unsafe { (kernels.plane)(&plane) }
}

/// Writes registers of sums as rows of the result, `row` elements apart.
unsafe fn turn<T: Stored>(
    kernels: &ConvKernels<T>,
    (sums, lanes): (*const T::Acc, usize),
    (rows, row): (usize, isize),
    columns: usize,
    out: *mut T,
) {
    /// Columns that are transposed at once.
    const SOME: usize = 64;
    let mut turned = [T::ZERO; SOME * LANES + LANES];
    for start in (0..columns).step_by(SOME) {
        let count = SOME.min(columns - start);
        // SAFETY: the caller's sums, which are elements; there is room for as many rows as a register has lanes, and for what packing
        // writes behind them.
        unsafe {
            (kernels.pack)(&Panel {
                dst: turned.as_mut_ptr(),
                pitch: SOME,
                src: sums.add(start * lanes).cast(),
                width: count,
                w_step: lanes as isize,
                k_step: 1,
                kc: rows,
            });
            for i in 0..rows {
                let (from, to) = (
                    turned.as_ptr().add(i * SOME),
                    out.offset(i as isize * row).add(start),
                );
                to.copy_from_nonoverlapping(from.cast(), count);
            }
        }
    }
}

/// Rounds the sums of one register of rows and some channels into the result.
unsafe fn put<T: Stored>(
    kernels: &ConvKernels<T>,
    job: &Job<'_, T>,
    plan: &Plan,
    part: usize,
    channels: Range<usize>,
    sums: *const T::Acc,
) {
    let (lanes, target) = (plan.lanes, &job.target);
    let (group, first) = (part / plan.registers, part % plan.registers * lanes);
    let [a, b, c] = target.extents;
    let rows = lanes.min(job.sizes.rows - first);
    let dense = [
        (a, target.taps[0], b * c),
        (b, target.taps[1], c),
        (c, target.taps[2], 1),
    ]
    .into_iter()
    .all(|(extent, step, apart)| extent == 1 || step == apart as isize);
    if T::DIRECT && dense && target.channel == (a * b * c) as isize {
        let per = plan.lines * plan.taps;
        let at = group as isize * target.group
            + first as isize * target.row
            + channels.start as isize * target.channel;
        // SAFETY: the caller's sums and result, whose rows are contiguous for these channels.
        unsafe {
            let sums = sums.add(channels.start * per * lanes);
            turn(
                kernels,
                (sums, lanes),
                (rows, target.row),
                channels.len() * per,
                job.out.offset(at),
            );
        }
        return;
    }
    for row in 0..rows {
        for line in channels.start * plan.lines..channels.end * plan.lines {
            let (channel, tap) = (line / plan.lines, line % plan.lines);
            let at = group as isize * target.group
                + (first + row) as isize * target.row
                + channel as isize * target.channel
                + (plan.first_tap(tap, [a, b, c]).iter().zip(target.taps))
                    .map(|(&tap, step)| tap as isize * step)
                    .sum::<isize>();
            for k in 0..plan.taps {
                // SAFETY: the caller's result; a register of sums for each line and tap.
                unsafe {
                    let sum = sums.add((line * plan.taps + k) * lanes + row);
                    (kernels.narrow)(job.out.offset(at + k as isize * target.taps[2]), 1, sum, 1);
                }
            }
        }
    }
}
