//! Tiles of AMX: squares of rows by places, through the padding between lines.

use super::Task;
use super::shape::WIDEST;
use super::store::{Asked, Runs, runs_of, store};
use crate::library::conv::geometry::{Layout, Pass};
use crate::library::conv::operands::Sizes;
use crate::library::conv::words::ConvKernels;
use crate::library::gemm::Stored;
use std::ops::Range;

/// Sums of a tile.
pub(super) const SUMS: usize = WIDEST * WIDEST;

/// From a place to what each term meets: for each tap, 16 lanes of channels after another.
pub(super) fn offsets(layout: &Layout, pass: &Pass, lanes: usize) -> Vec<u32> {
    let mut offsets = Vec::with_capacity(pass.taps() * lanes.div_ceil(16));
    pass.each_tap(|taps| {
        let tap = layout.offset(pass, taps);
        offsets.extend(
            (0..lanes)
                .step_by(16)
                .map(|lane| (lane * layout.channel() + tap) as u32),
        );
    });
    offsets
}

/// Makes squares of a tile's packed weights, if the kernels want them.
///
/// # Safety
/// `packed` has the weights of [`WIDEST`] rows.
pub(super) unsafe fn arrange<T: Stored>(
    kernels: &ConvKernels<T>,
    sizes: &Sizes,
    pass: &Pass,
    packed: *mut T::Acc,
) {
    #[cfg(target_arch = "x86_64")]
    if kernels.by_squares() {
        // SAFETY: the caller's promise.
        unsafe {
            crate::library::conv::bytes::squares::arrange(packed.cast(), sizes.channels, pass.taps());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (kernels, sizes, pass, packed);
}

/// Computes the rows of the tiles `chosen`, whose weights `packed` gives one after another.
///
/// # Safety
/// The task's memory is that of the block, and no one else writes the result's rows.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn walk<T: Stored>(
    task: &Task<'_, T>,
    chosen: Range<usize>,
    packed: impl Fn(usize) -> *const T::Acc,
) {
    use crate::library::conv::bytes::squares::SquareArgs;
    use crate::library::gemm::InUse;

    let (job, plan) = (task.job, task.plan);
    let Some(kernel) = task.kernels.bytes.and_then(|bytes| bytes.squares) else {
        return;
    };
    let flat = plan.layout.flat(task.block.size);
    let cut = |p: usize| {
        let places = p..(p + WIDEST).min(flat);
        let mut runs = Runs::new();
        runs_of(
            &plan.layout,
            &task.block,
            job.target.spatial,
            places,
            0,
            &mut runs,
        );
        (p, runs)
    };
    let tiles: Vec<(usize, Runs)> = (0..flat).step_by(WIDEST).map(cut).collect();
    // SAFETY: the machine has AMX where there is a kernel. The weights are those of the tile, planes have as many places as a tile behind
    // each one, and the sums have room for a tile.
    unsafe {
        if plan.offsets.is_empty() {
            task.sums.write_bytes(0, SUMS);
        }
        let _in_use = InUse::new();
        let mut asked = Asked::new(task.sums);
        for t in chosen {
            let (rows, _) = plan.rows_of(job.sizes.rows, t);
            let weights = packed(t);
            let dst = task.target.wrapping_offset(rows.start as isize * job.target.row);
            for (p, runs) in &tiles {
                // The kernel does not ask.
                asked.tile(job, 0, None, (rows.len(), dst, runs));
                if !plan.offsets.is_empty() {
                    kernel(&SquareArgs {
                        weights: weights.cast(),
                        offsets: plan.offsets.as_ptr(),
                        terms: plan.offsets.len(),
                        x: task.elements.add(*p).cast(),
                        apart: plan.layout.channel() * size_of::<T::Acc>(),
                        out: task.sums.cast(),
                    });
                }
                store(task.kernels, job, task.sums, WIDEST, rows.len(), dst, runs);
            }
        }
    }
}

/// There is no AMX.
///
/// # Safety
/// None is asked for.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn walk<T: Stored>(_: &Task<'_, T>, _: Range<usize>, _: impl Fn(usize) -> *const T::Acc) {}
