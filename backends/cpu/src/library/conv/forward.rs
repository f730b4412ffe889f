//! Convolution, and its gradient with respect to the input, on padded planes.
//!
//! A task copies what a block of positions takes from into padded planes, once for all rows of the result. There, the elements
//! that a tap meets for neighbouring positions are neighbours, so a tile of rows by positions is a sum of products of packed
//! weights and unaligned loads: an implicit matrix product whose second operand is never packed. Positions are counted
//! through the padding between lines; what a tile computes there is not stored.
//!
//! Every element of the result is one chain of additions over channels and taps, whatever the blocks, tiles and threads are.

use super::geometry::{AXES, Block, Layout, Pass, blocks};
use super::operands::{Gathered, Rows, Shared, Sizes, Weights};
use super::planes::{self, SLACK};
use super::tile::{ConvElement, ConvKernels, PutArgs, Run, TILE, TapArgs, TapFn};
use crate::library::gemm::{Panel, Scratch, piece};
use crate::parallel::Parallel;
use smallvec::SmallVec;
use std::ops::Range;

/// Bytes of planes that stay in L2.
const PLANES: usize = 768 << 10;
/// Bytes of packed weights that stay in L2 beside the planes.
const PACKED: usize = 512 << 10;
/// Bytes of packed weights and of what they meet that stay in L1.
const NEAR: usize = 28 << 10;
/// Most tiles whose sums are kept while blocks of channels go by.
const HELD: usize = 8;
/// Products (multiply-adds) that are worth a hand-off to another thread.
pub(super) const GRAIN: usize = 1 << 19;
/// Positions of a block that is not cut further for the sake of threads.
const LEAST: usize = 256;
/// Packed weights that are worth a parallel region.
const PACK_GRAIN: usize = 1 << 16;

/// What is computed; every field is about all groups.
pub(super) struct Job<'a, T> {
    pub(super) sizes: Sizes,
    pub(super) gathered: Gathered<T>,
    pub(super) weights: Weights<T>,
    pub(super) target: Rows<*mut T>,
    pub(super) pass: &'a Pass,
}

/// A finished block of the result.
pub(super) struct Finished {
    pub(super) sample: usize,
    pub(super) group: usize,
    pub(super) rows: Range<usize>,
    pub(super) block: Block,
}

/// How the work is cut.
struct Plan<S: 'static> {
    layout: Layout,
    offsets: Vec<u32>,
    /// Pieces of the rows, each a tile high.
    tiles: usize,
    /// Width of a tile and its kernels.
    width: usize,
    kernels: &'static [TapFn<S>],
    /// Accumulators of one packed tile.
    packed: usize,
    /// Channels whose weights and elements stay in L1 together.
    near: usize,
    /// Groups of tiles that are tasks of their own.
    parts: usize,
    /// Only one block has a use for a tile's weights, so that it packs them itself, when it needs them.
    local: bool,
    /// Consecutive tasks that are handed out together.
    group: usize,
    tasks: usize,
}

/// Whether the planes of the smallest blocks are small enough for this file.
pub(super) fn fits(pass: &Pass, sizes: &Sizes) -> bool {
    const MOST: usize = 1 << 24;
    let least = Layout::new(pass, [1; AXES], 1)
        .channel()
        .saturating_mul(sizes.channels);
    let terms = pass.taps().saturating_mul(sizes.channels);
    let packed = terms.saturating_mul(sizes.rows).saturating_mul(sizes.groups);
    least <= MOST && terms <= MOST && packed <= 16 * MOST
}

impl<S> Plan<S> {
    fn new<T: ConvElement<Acc = S>>(kernels: &ConvKernels<T>, job: &Job<'_, T>, threads: usize) -> Plan<S> {
        let (sizes, pass) = (&job.sizes, job.pass);
        let terms = sizes.channels * pass.taps();
        let positions: usize = pass.count().iter().product();
        let work = (sizes.samples * sizes.groups)
            .saturating_mul(positions)
            .saturating_mul(sizes.rows * terms.max(1));
        let useful = threads.min(work / GRAIN).max(1);
        let outer = sizes.samples * sizes.groups;
        let wanted = if useful > 1 {
            (4 * useful).div_ceil(outer)
        } else {
            1
        };
        let most = PLANES / size_of::<S>();
        let layout = Layout::new(pass, blocks(pass, sizes.channels, most, wanted, LEAST), 1);
        let (wide, high) = (kernels.tiles.wide, kernels.tiles.high);
        let tiles = sizes.rows.div_ceil(high.1.len());
        let height = sizes.rows.div_ceil(tiles);
        let (width, set) = if height <= wide.1.len() { wide } else { high };
        // A channel's weights, and the lines that a tile's width of its elements lies on.
        let line = 64 / size_of::<S>();
        let lines = |axis: &super::geometry::Axis| (axis.span + 1).min(axis.taps.len()).max(1);
        let elements = lines(&pass.axes[0])
            * lines(&pass.axes[1])
            * layout.phases.max(1)
            * (width + pass.axes[2].span + 2 * line);
        let channel = (pass.taps() * height + elements) * size_of::<S>();
        let near = (NEAR / channel).clamp(1, sizes.channels.max(1));
        let near = sizes
            .channels
            .max(1)
            .div_ceil(sizes.channels.max(1).div_ceil(near));
        let blocks = outer * layout.pieces(pass).iter().product::<usize>();
        let parts = if useful > 1 {
            (2 * useful).div_ceil(blocks).min(tiles)
        } else {
            1
        };
        let tasks = blocks * parts;
        let handed = if useful > 1 {
            (work / GRAIN).min(8 * useful).clamp(1, tasks)
        } else {
            1
        };
        Plan {
            offsets: layout.offsets(pass, sizes.channels),
            layout,
            tiles,
            width,
            kernels: set,
            packed: (terms * height + 16).next_multiple_of(16),
            near,
            parts,
            local: blocks == sizes.groups,
            group: tasks.div_ceil(handed),
            tasks,
        }
    }
}

/// Computes the pass and calls `finish` for each block of the result that is done, while it is in cache.
///
/// # Safety
/// The operands are readable and the result is writable at every index, no element of it is named twice, and it overlaps no
/// operand; `fits` holds and the kernels' instruction set exists.
pub(super) unsafe fn run<T: ConvElement>(
    kernels: &ConvKernels<T>,
    job: &Job<'_, T>,
    parallel: &dyn Parallel,
    finish: Option<&(dyn Fn(&Finished) + Sync)>,
) {
    let sizes = job.sizes;
    if sizes.samples * sizes.groups * sizes.rows == 0 || job.pass.count().contains(&0) {
        return;
    }
    let plan = Plan::new(kernels, job, parallel.threads());
    let tiles = if plan.local { 0 } else { sizes.groups * plan.tiles };
    let scratch = Scratch::take(tiles * plan.packed * size_of::<T::Acc>());
    let packed: *mut T::Acc = scratch.start().cast();
    let shared = Shared((job, &plan, kernels, packed));
    let shared = &shared;
    let pack = |index: usize| {
        let (job, plan, kernels, packed) = shared.0;
        let (group, tile) = (index / plan.tiles, index % plan.tiles);
        let rows = piece(job.sizes.rows, plan.tiles, tile);
        // SAFETY: each tile has its own part of the scratch memory.
        unsafe { pack_tile(kernels, job, group, rows, packed.add(index * plan.packed)) };
    };
    if plan.tasks > plan.group && tiles * plan.packed >= PACK_GRAIN {
        parallel.run(tiles, &pack);
    } else {
        (0..tiles).for_each(pack);
    }
    let body = |index: usize| {
        let (job, plan, kernels, packed) = shared.0;
        for task in index * plan.group..((index + 1) * plan.group).min(plan.tasks) {
            // SAFETY: tasks write disjoint parts of the result.
            unsafe { block(kernels, job, plan, packed, task, finish) };
        }
    };
    match plan.tasks.div_ceil(plan.group) {
        1 => body(0),
        groups => parallel.run(groups, &body),
    }
}

/// Packs the weights of some rows of a group: for each channel and tap one weight a row.
unsafe fn pack_tile<T: ConvElement>(
    kernels: &ConvKernels<T>,
    job: &Job<'_, T>,
    group: usize,
    rows: Range<usize>,
    dst: *mut T::Acc,
) {
    let (w, pass, channels) = (&job.weights, job.pass, job.sizes.channels);
    let taps = pass.taps();
    let src = w
        .ptr
        .wrapping_offset(group as isize * w.group + rows.start as isize * w.row);
    let panel = |channel: usize, k_step: isize, kc: usize| Panel::<T> {
        dst: dst.wrapping_add(channel * taps * rows.len()),
        pitch: rows.len(),
        src: src.wrapping_offset(channel as isize * w.channel),
        width: rows.len(),
        w_step: w.row,
        k_step,
        kc,
    };
    if taps * channels == 0 {
        return;
    }
    let [_, b, c] = w.extents.map(|extent| extent as isize);
    let row_major =
        (w.extents.iter().zip(w.taps).zip([b * c, c, 1])).all(|((&n, step), dense)| n == 1 || step == dense);
    // SAFETY: the weights are readable; a panel runs over its end into the next one or into the tile's slack.
    unsafe {
        if pass.uses_all(w.extents) && taps == 1 {
            (kernels.pack)(&panel(0, w.channel, channels));
        } else if pass.uses_all(w.extents) && row_major && w.channel == taps as isize {
            (kernels.pack)(&panel(0, 1, channels * taps));
        } else if pass.uses_all(w.extents) && row_major {
            for channel in 0..channels {
                (kernels.pack)(&panel(channel, 1, taps));
            }
        } else {
            let mut at = dst;
            for channel in 0..channels {
                pass.each_tap(|[i, j, k]| {
                    let tap = i.index as isize * w.taps[0]
                        + j.index as isize * w.taps[1]
                        + k.index as isize * w.taps[2];
                    let from = src.wrapping_offset(channel as isize * w.channel + tap);
                    for row in 0..rows.len() {
                        at.write((*from.offset(row as isize * w.row)).widen());
                        at = at.add(1);
                    }
                });
            }
        }
    }
}

/// One task: some rows of one block of one group of one sample.
unsafe fn block<T: ConvElement>(
    kernels: &ConvKernels<T>,
    job: &Job<'_, T>,
    plan: &Plan<T::Acc>,
    packed: *const T::Acc,
    task: usize,
    finish: Option<&(dyn Fn(&Finished) + Sync)>,
) {
    let (pass, sizes, layout) = (job.pass, &job.sizes, &plan.layout);
    let pieces: usize = layout.pieces(pass).iter().product();
    let (part, rest) = (task % plan.parts, task / plan.parts);
    let (block, rest) = (layout.block(pass, rest % pieces), rest / pieces);
    let (group, sample) = (rest % sizes.groups, rest / sizes.groups);
    let tiles = piece(plan.tiles, plan.parts, part);
    let length = layout.channel() * sizes.channels;
    // With all channels at once a tile is stored before the next one is begun.
    let held = if plan.near < sizes.channels { HELD } else { 1 };
    let sums_len = held * TILE + SLACK;
    let scratch = Scratch::take((length + 2 * SLACK + sums_len) * size_of::<T::Acc>());
    let planes_at: *mut T::Acc = scratch.start().cast();
    let gathered = job.gathered.of_group(group);
    let target = target_of(job, group, sample, &block);
    let mut at_once = (PACKED / (plan.packed * size_of::<T::Acc>())).clamp(1, tiles.len());
    if held > 1 {
        at_once = at_once.min(held);
    }
    let own_len = if plan.local { at_once * plan.packed } else { 0 };
    let own = Scratch::take(own_len * size_of::<T::Acc>());
    let sums = planes_at.wrapping_add(length + 2 * SLACK);
    let taps = pass.taps();
    let flat = layout.flat(block.size);
    let mut runs = SmallVec::<[Run; 8]>::new();
    // SAFETY: the scratch memory has the length asked for; a tile reads at most `SLACK` elements past its planes, which hold
    // zeros; the operands are the caller's.
    unsafe {
        let all = (sample..sample + 1, 0..sizes.channels);
        planes::copy(kernels.plane, &gathered, pass, layout, block, all, planes_at);
        for slack in 0..2 * SLACK {
            planes_at.add(length + slack).write(T::ZERO);
        }
        for i in 0..sums_len {
            sums.add(i).write(T::ZERO);
        }
        for first in tiles.clone().step_by(at_once) {
            let chosen = first..(first + at_once).min(tiles.end);
            let packed = if plan.local {
                let own: *mut T::Acc = own.start().cast();
                for t in chosen.clone() {
                    let rows = piece(sizes.rows, plan.tiles, t);
                    pack_tile(kernels, job, group, rows, own.add((t - first) * plan.packed));
                }
                own.cast_const()
            } else {
                packed.add((group * plan.tiles + first) * plan.packed)
            };
            for p in (0..flat).step_by(plan.width) {
                runs_of(
                    layout,
                    &block,
                    job.target.spatial,
                    p..(p + plan.width).min(flat),
                    &mut runs,
                );
                for c in (0..sizes.channels.max(1)).step_by(plan.near) {
                    let terms = (plan.near.min(sizes.channels - c)) * taps;
                    let last = c + plan.near >= sizes.channels;
                    for t in chosen.clone() {
                        let rows = piece(sizes.rows, plan.tiles, t);
                        let tile = sums.add(if held > 1 { (t - first) * TILE } else { 0 });
                        (plan.kernels[rows.len() - 1])(&TapArgs {
                            accumulate: c > 0,
                            a: packed.add((t - first) * plan.packed + c * taps * rows.len()),
                            offsets: plan.offsets.as_ptr().wrapping_add(c * taps),
                            terms,
                            x: planes_at.add(p),
                            out: tile,
                        });
                        if last {
                            let dst = target.wrapping_offset(rows.start as isize * job.target.row);
                            store(kernels, job, tile, plan.width, rows.len(), dst, &runs);
                        }
                    }
                }
            }
        }
    }
    if let Some(finish) = finish {
        let rows = piece(sizes.rows, plan.tiles, tiles.start).start
            ..piece(sizes.rows, plan.tiles, tiles.end - 1).end;
        finish(&Finished {
            sample,
            group,
            rows,
            block,
        });
    }
}

/// The result's element at a block's first position.
fn target_of<T>(job: &Job<'_, T>, group: usize, sample: usize, block: &Block) -> *mut T {
    let mut at = sample as isize * job.target.sample + group as isize * job.target.group;
    for i in 0..AXES {
        at += block.at[i] as isize * job.target.spatial[i];
    }
    job.target.ptr.wrapping_offset(at)
}

/// What of the places `columns` are positions of the block, and where they go.
fn runs_of(
    layout: &Layout,
    block: &Block,
    strides: [isize; AXES],
    columns: Range<usize>,
    runs: &mut SmallVec<[Run; 8]>,
) {
    runs.clear();
    let [_, lines, width] = layout.extents;
    let size = block.size;
    // Whether lines and planes of the block follow one another in the result without gaps.
    let whole = strides[2] == 1
        && (size[1] == 1 || strides[1] == size[2] as isize)
        && (size[0] == 1 || strides[0] == (size[1] * size[2]) as isize);
    let mut place = columns.start;
    while place < columns.end {
        let (line, k) = (place / width, place % width);
        let (i, j) = (line / lines, line % lines);
        if j >= size[1] {
            place += (lines - j) * width - k;
        } else if k >= size[2] {
            place += width - k;
        } else {
            let count = (size[2] - k).min(columns.end - place);
            let at = i as isize * strides[0] + j as isize * strides[1] + k as isize * strides[2];
            let room = if whole {
                size.iter().product::<usize>() - at.cast_unsigned()
            } else {
                count
            };
            let column = place - columns.start;
            match runs.last_mut() {
                Some(last) if whole && last.column + last.count == column => last.count += count,
                _ => runs.push(Run {
                    column,
                    count,
                    at,
                    room,
                }),
            }
            place += count;
        }
    }
}

/// Stores a tile, rounded.
unsafe fn store<T: ConvElement>(
    kernels: &ConvKernels<T>,
    job: &Job<'_, T>,
    tile: *const T::Acc,
    width: usize,
    rows: usize,
    dst: *mut T,
    runs: &[Run],
) {
    let step = job.target.spatial[2];
    // SAFETY: the caller's tile has the columns and its result the elements of each run.
    unsafe {
        if T::DIRECT && step == 1 {
            (kernels.tiles.put)(&PutArgs {
                tile,
                width,
                rows,
                dst: dst.cast(),
                dst_row: job.target.row,
                runs,
            });
            return;
        }
        for row in 0..rows {
            for run in runs {
                let src = tile.add(row * width + run.column);
                let dst = dst.offset(row as isize * job.target.row + run.at);
                if step == 1 {
                    let to = std::slice::from_raw_parts_mut(dst, run.count);
                    T::narrow_row(to, std::slice::from_raw_parts(src, run.count));
                } else {
                    for k in 0..run.count {
                        *dst.offset(k as isize * step) = T::narrow(*src.add(k));
                    }
                }
            }
        }
    }
}
