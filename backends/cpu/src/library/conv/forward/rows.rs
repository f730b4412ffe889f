//! Tiles whose registers run along rows of the result.

use super::store::{Asked, Runs, runs_of};
use super::{Job, Task, weights};
use crate::library::conv::geometry::{Block, Layout};
use crate::library::conv::operands::Gathered;
use crate::library::conv::tile::{ASK_BYTES, ASK_TERMS, Run, TapArgs};
use crate::library::gemm::{Stored, piece};
use smallvec::SmallVec;
use std::ops::Range;

/// Most tiles whose sums are kept while blocks of terms go by.
pub(super) const HELD: usize = 32;
/// Tiles that are stored at once.
const STORED: usize = 4;
/// Bytes of weights that are packed together and stay near until they are used.
const PACKED_NEAR: usize = 64 << 10;
/// From row to row of turned tiles: at least the positions of tiles that are stored together.
pub(super) const PITCH: usize = 64;
/// Accumulators of turned tiles.
pub(super) const TURNED: usize = PITCH * 2 * super::WIDEST;

/// Whether the gathered operand may stand for the planes: every position meets one element a channel, the first position the
/// first one, and their order is that of the block.
pub(super) fn in_place<T: Stored>(job: &Job<'_, T>, layout: &Layout) -> bool {
    let (pass, gathered) = (job.pass, &job.gathered);
    let count = pass.count();
    let [_, lines, line] = gathered.spatial;
    let last = gathered.channel.saturating_mul(job.sizes.channels as isize);
    T::DIRECT
        && pass.is_plain()
        && count[0] == 1
        && layout.block[2] == count[2]
        && (count[2] == 1 || line == 1)
        && (count[1] == 1 || lines == count[2] as isize)
        && gathered.channel >= 0
        && u32::try_from(last).is_ok()
}

/// What the first position of a block meets in channel 0, where [`in_place`] holds.
pub(super) fn first<T>(gathered: &Gathered<T>, sample: usize, block: &Block) -> *const T {
    let at = block.at.iter().zip(gathered.spatial);
    let at: isize = at.map(|(&at, stride)| at as isize * stride).sum();
    gathered.at(sample, 0).wrapping_offset(at)
}

/// Cuts places into tiles of at most `most`, as even as they can be.
pub(super) fn cut(places: usize, most: usize) -> SmallVec<[Range<u32>; 64]> {
    let pieces = places.div_ceil(most);
    let at = |i: usize| (places * i / pieces) as u32;
    (0..pieces).map(|i| at(i)..at(i + 1)).collect()
}

/// Cuts the block's positions into tiles of at most `most` neighbouring places.
fn tiles_of(layout: &Layout, block: &Block, most: usize) -> SmallVec<[Range<u32>; 64]> {
    let [_, lines, width] = layout.extents;
    let mut tiles = SmallVec::new();
    let mut add = |start: usize, len: usize| {
        let of = |at: u32| start as u32 + at;
        tiles.extend(
            cut(len, most)
                .into_iter()
                .map(|tile| of(tile.start)..of(tile.end)),
        );
    };
    for i in 0..block.size[0] {
        if width == block.size[2] {
            add(i * lines * width, block.size[1] * width);
        } else {
            (0..block.size[1]).for_each(|j| add((i * lines + j) * width, block.size[2]));
        }
    }
    tiles
}

/// Computes the rows of the tiles `chosen`; `packed` holds the weights of all tiles of the group.
///
/// # Safety
/// The task's memory is that of the block, and no one else writes the result's rows.
pub(super) unsafe fn walk<T: Stored>(task: &Task<'_, T>, chosen: Range<usize>, packed: *const T::Acc) {
    let plan = task.plan;
    let tiles = tiles_of(&plan.layout, &task.block, plan.kernels.len());
    let of = |t: usize, term: usize| packed.wrapping_add(t * plan.packed + term * plan.width);
    // SAFETY: the caller's contract.
    unsafe {
        if plan.near >= plan.terms {
            for some in tiles.chunks(STORED) {
                for t in chosen.clone() {
                    compute(task, some, t, 0..plan.terms, [of(t, 0), of(t + 1, 0)]);
                }
            }
            return;
        }
        for t in chosen {
            for some in tiles.chunks(HELD) {
                // What follows the last terms of a tile is most often the next tile.
                for term in (0..plan.terms).step_by(plan.near) {
                    let near = term..plan.terms.min(term + plan.near);
                    compute(task, some, t, near, [of(t, term), of(t, term + plan.near)]);
                }
            }
        }
    }
}

/// The same with weights that nobody packed; `own` has room for those of one tile.
///
/// # Safety
/// As [`walk`].
pub(super) unsafe fn walk_packing<T: Stored>(task: &Task<'_, T>, chosen: Range<usize>, own: *mut T::Acc) {
    let plan = task.plan;
    let channels = task.job.sizes.channels;
    let terms = plan.width * task.job.pass.taps();
    let tiles = tiles_of(&plan.layout, &task.block, plan.kernels.len());
    let pack = |t: usize, channels: Range<usize>| {
        let rows = plan.rows_of(task.job.sizes.rows, t);
        // SAFETY: the weights are the caller's, and so is the room for them.
        unsafe {
            weights::pack(
                task.kernels,
                (&task.job.weights, task.job.pass),
                task.group,
                rows,
                channels,
                own,
            )
        };
    };
    // Channels whose weights are packed together: some, if no other tiles will ask for the first ones again.
    let at_once = if tiles.len() > HELD || plan.starts {
        channels
    } else {
        (PACKED_NEAR / (terms * size_of::<T::Acc>()).max(1)).next_multiple_of(plan.together)
    };
    for t in chosen {
        // SAFETY: the caller's contract.
        unsafe {
            if at_once >= channels {
                super::pack_tile(task.kernels, task.job, plan, (task.group, t), own);
            }
            for some in tiles.chunks(HELD) {
                for first in (0..channels.max(1)).step_by(at_once.max(1)) {
                    let these = first..channels.min(first + at_once);
                    let of = |channel: usize| channel * task.job.pass.taps();
                    let terms = of(these.start)..of(these.end).max(1);
                    if at_once < channels {
                        pack(t, these);
                    }
                    for term in terms.clone().step_by(plan.near) {
                        let packed = own.wrapping_add((term - terms.start) * plan.width).cast_const();
                        let near = term..terms.end.min(term + plan.near);
                        compute(task, some, t, near, [packed; 2]);
                    }
                }
            }
        }
    }
}

/// Adds to the sums of the tiles at `places` what the terms `near` give, and stores what is finished. The weights that follow are asked for
/// meanwhile.
unsafe fn compute<T: Stored>(
    task: &Task<'_, T>,
    places: &[Range<u32>],
    t: usize,
    near: Range<usize>,
    [packed, next]: [*const T::Acc; 2],
) {
    let (job, plan) = (task.job, task.plan);
    let terms = near.end.min(plan.terms) - near.start;
    let offsets = plan.offsets.as_ptr().wrapping_add(near.start);
    let slice = terms / ASK_TERMS * ASK_BYTES;
    let slices = (terms * plan.width * size_of::<T::Acc>()).div_ceil(slice.max(1));
    let (mut index, mut asked) = (0, Asked::new(task.sums));
    let mut add = |places: &Range<u32>, sums: *mut T::Acc, stored: (usize, *mut T, &[Run])| {
        let weights = (index < slices).then(|| next.wrapping_byte_add(index * slice));
        index += 1;
        // SAFETY: `packed` holds the channels' weights, the planes the tile's places, and `sums` has room for the tile.
        unsafe {
            if plan.starts && near.start == 0 {
                for place in 0..places.len() {
                    let start = packed.add(plan.weights);
                    sums.add(place * plan.width)
                        .copy_from_nonoverlapping(start, plan.width);
                }
            }
            (plan.kernels[places.len() - 1])(&TapArgs {
                accumulate: near.start > 0 || plan.starts,
                count: places.len(),
                a: packed,
                offsets,
                terms,
                x: task.elements.add(places.start as usize),
                out: sums,
                ahead: asked.tile(job, terms, weights, stored),
            });
        }
        sums.wrapping_add(places.len() * plan.width)
    };
    let mut sums = task.sums;
    if near.end < plan.terms {
        for places in places {
            sums = add(places, sums, (0, task.target, &[]));
        }
        return;
    }
    let (rows, _) = plan.rows_of(job.sizes.rows, t);
    let row = |row: usize| {
        task.target
            .wrapping_offset((rows.start + row) as isize * job.target.row)
    };
    let mut runs = Runs::new();
    // Tiles whose rows are neighbours in the result go there as they are.
    for some in places.chunks(if plan.result_beside { 1 } else { STORED }) {
        runs.clear();
        let mut positions = 0;
        for places in some {
            let places = places.start as usize..places.end as usize;
            let count = places.len();
            runs_of(
                &plan.layout,
                &task.block,
                job.target.spatial,
                places,
                positions,
                &mut runs,
            );
            positions += count;
        }
        let first = sums;
        for (i, places) in some.iter().enumerate() {
            // A part of the lines at a time: many at once would wait for each other.
            let part = piece(rows.len(), some.len(), i);
            sums = add(places, sums, (part.len(), row(part.start), &runs));
        }
        // SAFETY: the sums hold the tiles, one after another; the result is the caller's.
        unsafe {
            (task.storing()).tiles((first, plan.width), positions, rows.len(), row(0), &runs);
        };
    }
}
