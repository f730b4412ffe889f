//! Tiles whose registers run along positions: through the padding between lines, and what a tile computes there is not stored.

use super::Task;
use super::store::{Asked, Runs, runs_of, store};
use crate::library::conv::tile::{TILE, TapArgs};
use crate::library::gemm::Stored;
use std::ops::Range;

/// Most tiles whose sums are kept while blocks of terms go by.
pub(super) const HELD: usize = 8;

/// Computes the rows of the tiles `chosen`, whose weights lie in `packed`.
///
/// # Safety
/// The task's memory is that of the block, and no one else writes the result's rows.
pub(super) unsafe fn walk<T: Stored>(task: &Task<'_, T>, chosen: Range<usize>, packed: *const T::Acc) {
    let (job, plan) = (task.job, task.plan);
    let sizes = &job.sizes;
    let flat = plan.layout.flat(task.block.size);
    // With all channels at once a tile is stored before the next one is begun.
    let held = if plan.near < plan.terms { HELD } else { 1 };
    let (mut runs, mut asked) = (Runs::new(), Asked::new(task.sums));
    for p in (0..flat).step_by(plan.width) {
        let places = p..(p + plan.width).min(flat);
        runs.clear();
        runs_of(
            &plan.layout,
            &task.block,
            job.target.spatial,
            places,
            0,
            &mut runs,
        );
        for first in (0..plan.terms.max(1)).step_by(plan.near) {
            let terms = plan.near.min(plan.terms - first);
            let last = first + plan.near >= plan.terms;
            for t in chosen.clone() {
                let (rows, pitch) = plan.rows_of(sizes.rows, t);
                let index = t - chosen.start;
                let dst = task.target.wrapping_offset(rows.start as isize * job.target.row);
                let stored = if last { &runs[..] } else { &[] };
                // SAFETY: `packed` holds the tiles' weights, the planes a tile's width behind each place, and `sums` the tiles.
                unsafe {
                    let tile = task.sums.add(if held > 1 { index * TILE } else { 0 });
                    let packed = packed.add(index * plan.packed);
                    if plan.starts && first == 0 {
                        for row in 0..rows.len() {
                            let start = *packed.add(plan.weights + row);
                            (0..plan.width).for_each(|i| tile.add(row * plan.width + i).write(start));
                        }
                    }
                    (plan.kernels[rows.len() - 1])(&TapArgs {
                        accumulate: first > 0 || plan.starts,
                        count: rows.len(),
                        a: packed.add(first * pitch),
                        offsets: plan.offsets.as_ptr().wrapping_add(first),
                        terms,
                        x: task.elements.add(p),
                        out: tile,
                        ahead: asked.tile(job, terms, None, (rows.len(), dst, stored)),
                    });
                    if last {
                        store(task.kernels, job, tile, plan.width, rows.len(), dst, &runs);
                    }
                }
            }
        }
    }
}
