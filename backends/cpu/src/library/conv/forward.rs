//! Convolution, and its gradient with respect to the input, on padded planes.
//!
//! A task copies what a block of positions takes from into padded planes, once for all rows of the result. There, the elements
//! that a tap meets for neighbouring positions are neighbours, so a tile of rows by positions is a sum of products of packed
//! weights and elements of the planes: an implicit matrix product whose second operand is never packed. Registers run along
//! positions where the rows are few (`positions.rs`), and else along rows (`rows.rs`).
//!
//! Tiles along rows read elements whose channels are neighbours, if there are enough of them: in the operand where it lies so, and else in a
//! copy of what a block takes from (`direct.rs`). Where channels are neighbours in the result, tiles along rows go there as they are.
//!
//! Every element of the result is one chain of additions: over blocks of channels, in each over taps, and for each of these over channels,
//! whatever the layouts, blocks, tiles and threads are.

mod beside;
mod copies;
mod cut;
mod deal;
mod direct;
mod lines;
mod order;
pub(super) mod phases;
mod plan;
mod positions;
mod rows;
mod shape;
mod squares;
mod store;
mod weights;
pub(super) mod winograd;

use super::geometry::{AXES, Axis, Block, Layout, Pass};
use super::operands::{Gathered, Rows, Shared, Sizes, Weights};
use super::planes::SLACK;
use super::tile::TILE;
use super::words::ConvKernels;
#[cfg(target_arch = "x86_64")]
use crate::library::gemm::SIDE;
use crate::library::gemm::{Scratch, Stored};
use crate::parallel::Parallel;
use copies::Copies;
use deal::{Deal, Kept};
pub(super) use plan::GRAIN;
use plan::{Plan, packed_tile};
use shape::{Along, Shape, WIDEST};
pub(super) use shape::{Channels, packed_rows};
use std::ops::Range;
use store::{Storing, target_of};

/// Bytes of packed weights that stay in L2 beside the planes.
const PACKED: usize = 512 << 10;
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

impl<T: Stored> Job<'_, T> {
    fn channels(&self, kernels: &ConvKernels<T>) -> Channels {
        let (x, y) = (&self.gathered, &self.target);
        Channels::new(kernels, [x.channel, x.spatial[2]], [y.row, y.spatial[2]])
    }
}

/// A finished block of the result.
pub(super) struct Finished {
    pub(super) sample: usize,
    pub(super) groups: Range<usize>,
    pub(super) rows: Range<usize>,
    pub(super) block: Block,
}

/// Whether the planes of the smallest blocks are small enough for this file.
pub(super) fn fits(pass: &Pass, sizes: &Sizes) -> bool {
    const MOST: usize = 1 << 24;
    let least = Layout::new(pass, [1; AXES], 1)
        .channel()
        .saturating_mul(sizes.channels);
    let terms = pass.taps().saturating_mul(sizes.channels);
    let packed = terms
        .saturating_mul(sizes.rows + WIDEST)
        .saturating_mul(sizes.groups);
    least <= MOST && terms <= MOST && packed <= 16 * MOST
}

/// Whether the kernels suit the launch: those on lines begin their sums at zero, and lanes of four are machine code alone.
pub(super) fn takes<T: Stored>(kernels: &ConvKernels<T>, sizes: &Sizes, pass: &Pass) -> bool {
    !lines::suits(sizes, pass) || (kernels.starts(1) == 0 && lines::is_written(kernels, pass))
}

/// Whether a launch has kernels on lines.
pub(super) fn takes_lines(sizes: &Sizes, pass: &Pass) -> bool {
    lines::suits(sizes, pass)
}

/// Whether tiles of a launch read lanes of an operand with neighbouring channels where it lies.
pub(super) fn reads_where_it_lies(sizes: &Sizes, pass: &Pass) -> bool {
    !lines::suits(sizes, pass) && direct::suits(pass, sizes.channels, false)
}

/// Whether AMX suits the launch: whole squares of lanes, enough rows, and no lines for kernels of their own.
#[cfg(target_arch = "x86_64")]
pub(super) fn takes_squares(sizes: &Sizes, pass: &Pass) -> bool {
    sizes.channels > 0
        && sizes.channels.is_multiple_of(SIDE)
        && sizes.rows > SIDE / 2
        && !lines::suits(sizes, pass)
}

/// Rows of a tile of packed weights, if [`run`] reads weights that [`pack_all`] has packed.
pub(super) fn reads_packed<T: Stored>(
    kernels: &ConvKernels<T>,
    sizes: &Sizes,
    pass: &Pass,
    extents: [usize; AXES],
    channels: Channels,
) -> Option<usize> {
    if lines::suits(sizes, pass)
        || sizes.samples * sizes.groups * sizes.rows == 0
        || pass.count().contains(&0)
    {
        return None;
    }
    let shape = Shape::new(kernels, sizes, pass, channels);
    (shape.along != Along::Positions && pass.uses_all(extents)).then_some(shape.width)
}

/// Accumulators of all packed weights, in tiles of `width` rows.
pub(super) fn packed_len<T: Stored>(
    kernels: &ConvKernels<T>,
    sizes: &Sizes,
    extents: [usize; AXES],
    width: usize,
) -> usize {
    let terms = extents.iter().product::<usize>() * sizes.channels;
    sizes.groups * sizes.rows.div_ceil(width) * (packed_tile(terms, width) + kernels.starts(width))
}

/// Packs the weights of all groups and rows, every tap.
///
/// # Safety
/// The weights are readable, `to` has room for [`packed_len`] accumulators, and the kernels' instruction set exists.
pub(super) unsafe fn pack_all<T: Stored>(
    kernels: &ConvKernels<T>,
    sizes: &Sizes,
    w: &Weights<T>,
    to: *mut T::Acc,
) {
    let pass = Pass {
        axes: w.extents.map(Axis::of_taps),
    };
    let width = shape::packed_rows(kernels, sizes.rows);
    let tiles = sizes.rows.div_ceil(width);
    let weights = packed_tile(pass.taps() * sizes.channels, width);
    let len = weights + kernels.starts(width);
    for group in 0..sizes.groups {
        for tile in 0..tiles {
            let rows = tile * width..sizes.rows.min((tile + 1) * width);
            let dst = to.wrapping_add((group * tiles + tile) * len);
            // SAFETY: the caller vouches for weights and room; each tile has its own.
            unsafe {
                weights::pack(kernels, (w, &pass), group, (rows, width), 0..sizes.channels, dst);
                squares::arrange(kernels, sizes, &pass, dst);
                weights::start(
                    kernels,
                    dst,
                    pass.taps() * sizes.channels,
                    width,
                    dst.add(weights),
                );
            };
        }
    }
}

/// Computes the pass and calls `finish` for each block of the result that is done, while it is in cache.
///
/// # Safety
/// The operands are readable and the result is writable at every index, no element of it is named twice, and it overlaps no
/// operand; `fits` holds and the kernels' instruction set exists; `prepared` is null or what [`pack_all`] wrote, or
/// [`winograd::pack_all`] for the form that [`winograd::form`] returns.
pub(super) unsafe fn run<T: Stored>(
    kernels: &ConvKernels<T>,
    job: &Job<'_, T>,
    prepared: *const T::Acc,
    parallel: &dyn Parallel,
    finish: Option<&(dyn Fn(&Finished) + Sync)>,
) {
    let sizes = job.sizes;
    if sizes.samples * sizes.groups * sizes.rows == 0 || job.pass.count().contains(&0) {
        return;
    }
    if lines::suits(&sizes, job.pass) {
        // SAFETY: the caller's contract.
        unsafe {
            match beside::suits(kernels, job) {
                true => beside::run(kernels, job, parallel, finish),
                false => lines::run(kernels, job, parallel, finish),
            }
        }
        return;
    }
    if let Some(form) = winograd::form(kernels, &sizes, job.pass) {
        // SAFETY: the caller's contract.
        unsafe { winograd::run(kernels, job, form, prepared, parallel, finish) };
        return;
    }
    let shape = Shape::new(kernels, &sizes, job.pass, job.channels(kernels));
    let spread = shape.spread.then(|| job.pass.spread());
    let job = &Job {
        pass: spread.as_ref().unwrap_or(job.pass),
        ..*job
    };
    let ready =
        !prepared.is_null() && shape.along != Along::Positions && job.pass.uses_all(job.weights.extents);
    let plan = Plan::new(job, kernels, &shape, parallel.threads(), ready);
    let tiles = if plan.local || ready {
        0
    } else {
        sizes.groups * plan.tiles
    };
    let scratch = Scratch::take(tiles * plan.packed * size_of::<T::Acc>());
    let packed: *mut T::Acc = if ready {
        prepared.cast_mut()
    } else {
        scratch.start().cast()
    };
    let shared = Shared((job, &plan, kernels, packed));
    let shared = &shared;
    let pack = |index: usize| {
        let (job, plan, kernels, packed) = shared.0;
        let (group, tile) = (index / plan.tiles, index % plan.tiles);
        // SAFETY: each tile has its own part of the scratch memory.
        unsafe { pack_tile(kernels, job, plan, (group, tile), packed.add(index * plan.packed)) };
    };
    if plan.tasks > plan.group && tiles * plan.packed >= PACK_GRAIN {
        parallel.run(tiles, &pack);
    } else {
        (0..tiles).for_each(pack);
    }
    let pieces = plan.tasks.div_ceil(plan.group);
    let deal = Deal::new(pieces, plan.shares);
    let body = |call| {
        deal.run(call, |index, kept| {
            let (job, plan, kernels, packed) = shared.0;
            for task in index * plan.group..((index + 1) * plan.group).min(plan.tasks) {
                // SAFETY: tasks write disjoint parts of the result.
                unsafe { block(kernels, job, plan, packed, task, kept, finish) };
            }
        });
    };
    match pieces {
        1 => body(0),
        pieces => parallel.run(pieces, &body),
    }
}

/// Some rows of one block of one group of one sample.
struct Task<'a, T: Stored> {
    kernels: &'a ConvKernels<T>,
    job: &'a Job<'a, T>,
    plan: &'a Plan<T::Acc>,
    block: Block,
    /// The result at the block's first position.
    target: *mut T,
    /// What position 0 of the block meets at offset 0.
    elements: *const T::Acc,
    group: usize,
    /// Room for the sums that the walk keeps.
    sums: *mut T::Acc,
}

impl<T: Stored> Task<'_, T> {
    /// How tiles along rows are stored.
    fn storing(&self) -> Storing<'_, T> {
        Storing {
            kernels: self.kernels,
            job: self.job,
            beside: self.plan.result_beside,
            turned: self.sums.wrapping_add(rows::HELD * TILE),
        }
    }
}

/// Packs the weights of a tile, every channel.
///
/// # Safety
/// The weights are readable, and `dst` has room for the plan's `packed` accumulators.
unsafe fn pack_tile<T: Stored>(
    kernels: &ConvKernels<T>,
    job: &Job<'_, T>,
    plan: &Plan<T::Acc>,
    (group, tile): (usize, usize),
    dst: *mut T::Acc,
) {
    let (rows, channels) = (plan.rows_of(job.sizes.rows, tile), job.sizes.channels);
    let (pitch, terms) = (rows.1, channels * job.pass.taps());
    // SAFETY: the caller's contract.
    unsafe {
        weights::pack(kernels, (&job.weights, job.pass), group, rows, 0..channels, dst);
        squares::arrange(kernels, &job.sizes, job.pass, dst);
        weights::start(kernels, dst, terms, pitch, dst.add(plan.weights));
    }
}

/// One task.
unsafe fn block<T: Stored>(
    kernels: &ConvKernels<T>,
    job: &Job<'_, T>,
    plan: &Plan<T::Acc>,
    packed: *const T::Acc,
    task: usize,
    kept: &mut Kept,
    finish: Option<&(dyn Fn(&Finished) + Sync)>,
) {
    let (pass, sizes, layout) = (job.pass, &job.sizes, &plan.layout);
    let pieces: usize = layout.pieces(pass).iter().product();
    let (part, index) = (task % plan.parts, task / plan.parts);
    let (block, rest) = (layout.block(pass, index % pieces), index / pieces);
    let (group, sample) = (rest % sizes.groups, rest / sizes.groups);
    let tiles = plan.tiles_of(part);
    let planes = layout.channel() * sizes.channels;
    let length = match &plan.direct {
        Some(direct) => direct.copied.map_or(0, |copied| copied + 2 * SLACK),
        None if plan.in_place => 0,
        None => planes + 2 * SLACK,
    };
    let (sums_len, unread) = match plan.along {
        Along::Positions => (positions::HELD * TILE + SLACK, 0),
        Along::Direct if plan.result_beside => (rows::HELD * TILE, rows::HELD * TILE),
        Along::Rows | Along::Direct => (rows::HELD * TILE + rows::TURNED + SLACK, rows::HELD * TILE),
        Along::Squares => (squares::SUMS + SLACK, squares::SUMS),
    };
    let scratch =
        (kept.scratch).get_or_insert_with(|| Scratch::take((length + sums_len) * size_of::<T::Acc>()));
    let planes_at: *mut T::Acc = scratch.start().cast();
    let before = kept.block.replace(index);
    let cold = kept.meets_first(group * plan.parts + part);
    let gathered = job.gathered.of_group(group);
    let most = match plan.along {
        Along::Rows | Along::Squares => 1,
        Along::Direct => plan.at_once,
        Along::Positions if plan.near < plan.terms => positions::HELD,
        Along::Positions => tiles.len(),
    };
    let at_once = (PACKED / (plan.packed * size_of::<T::Acc>())).clamp(1, tiles.len().min(most));
    let own_len = if plan.local { at_once * plan.packed } else { 0 };
    let own = Scratch::take(own_len * size_of::<T::Acc>());
    let own: *mut T::Acc = own.start().cast();
    // SAFETY: the scratch memory has the length asked for; a tile reads at most `SLACK` elements past its planes, which hold
    // zeros; the operands are the caller's.
    unsafe {
        let sums = planes_at.add(length);
        for i in unread..sums_len {
            sums.add(i).write(T::ZERO);
        }
        let elements = if let Some(direct) = &plan.direct {
            if direct.copied.is_some() && before != Some(index) {
                direct.copy(kernels, job, (group, sample), &block, planes_at);
            }
            planes_at.cast_const()
        } else if plan.in_place {
            rows::first(&gathered, sample, &block).cast()
        } else {
            if before != Some(index) {
                let framed = before.is_some_and(|before| before % pieces == index % pieces);
                Copies::new(kernels, job, layout, &block, planes_at)
                    .copy(kernels, job, group, sample, framed);
                for slack in 1..=2 * SLACK {
                    planes_at.add(length - slack).write(T::ZERO);
                }
            }
            planes_at.cast_const()
        };
        let task = Task {
            kernels,
            job,
            plan,
            block,
            group,
            target: target_of(job, group, sample, &block),
            elements,
            sums,
        };
        let packed = packed.add(group * plan.tiles * plan.packed);
        match plan.along {
            Along::Rows if plan.local => rows::walk_packing(&task, tiles.clone(), own),
            Along::Rows => rows::walk(&task, tiles.clone(), packed),
            Along::Squares => {
                let of = |t: usize| match plan.local {
                    true => {
                        pack_tile(kernels, job, plan, (group, t), own);
                        own.cast_const()
                    }
                    false => packed.add(t * plan.packed),
                };
                squares::walk(&task, tiles.clone(), of);
            }
            Along::Direct => {
                let weights = match plan.local {
                    true => direct::Weights::Own(own),
                    false => direct::Weights::Packed(packed),
                };
                if let Some(direct) = &plan.direct {
                    let of = (sample, cold);
                    direct::walk(
                        &task,
                        direct,
                        of,
                        elements,
                        tiles.clone(),
                        weights,
                        &mut kept.orders,
                    );
                }
            }
            Along::Positions => {
                for first in tiles.clone().step_by(at_once) {
                    let chosen = first..(first + at_once).min(tiles.end);
                    if plan.local {
                        for t in chosen.clone() {
                            let dst = own.add((t - first) * plan.packed);
                            pack_tile(kernels, job, plan, (group, t), dst);
                        }
                    }
                    let packed = if plan.local {
                        own.cast_const()
                    } else {
                        packed.add(first * plan.packed)
                    };
                    positions::walk(&task, chosen, packed);
                }
            }
        }
    }
    if let Some(finish) = finish {
        let (first, _) = plan.rows_of(sizes.rows, tiles.start);
        let (last, _) = plan.rows_of(sizes.rows, tiles.end - 1);
        finish(&Finished {
            sample,
            groups: group..group + 1,
            rows: first.start..last.end,
            block,
        });
    }
}
