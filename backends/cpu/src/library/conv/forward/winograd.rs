//! Convolutions of three by three taps as products of transformed tiles: Winograd's way, where a launch asks for the fast form.
//!
//! A task turns what a block of tiles takes from, so that channels are neighbours, and transforms it. The products of each element of the
//! transform are those of a tap with tiles as positions, so the kernels on neighbouring channels sum them. The sums are transformed back
//! and stored as those of other tiles are.
//!
//! Which form a launch takes follows from its extents alone, and every element is computed from its own tile, so no bit depends on blocks,
//! threads or layouts.

mod block;

use super::deal::Deal;
use super::plan::EACH;
use super::shape::packed_rows;
use super::{Finished, GRAIN, Job, PACK_GRAIN, Pass, SLACK, weights};
use crate::library::conv::geometry::{Axis, distance};
use crate::library::conv::operands::{Shared, Sizes, Weights};
use crate::library::conv::steps::{StepFn, TOGETHER};
use crate::library::conv::winograd::{Form, TAPS, Taps};
use crate::library::conv::words::ConvKernels;
use crate::library::gemm::{Scratch, Stored};
use crate::parallel::Parallel;

/// Bytes of a block's transform, beside weights that L2 keeps and beside others.
const BLOCK: [usize; 2] = [256 << 10, 1536 << 10];
/// Bytes of transformed weights that L2 keeps.
const KEPT: usize = 1 << 20;
/// Fewest tiles for weights that L2 does not keep: they come from further away than their products take.
const MANY: usize = 32;
/// How many times fewer the products have to be, for tiles of four positions and of two.
const FEWER: [f64; 2] = [2.0, 1.4];
/// Transforms cost as much as so many products with each channel of the other side.
const TRANSFORM: usize = 16;
/// Most weights of a tap: transformed, they take up to four times the memory of the operand.
const MOST: usize = 1 << 20;

/// The form that a launch takes, if one suits it.
pub(in super::super) fn form<T: Stored>(
    kernels: &ConvKernels<T>,
    sizes: &Sizes,
    pass: &Pass,
) -> Option<&'static Form> {
    let forms = kernels.winograd?;
    let [far, lines, line] = &pass.axes;
    let (rows, channels) = (sizes.rows, sizes.channels);
    let suits = sizes.groups == 1
        && (far.count, far.taps.len(), far.extent) == (1, 1, 1)
        && takes(lines)
        && takes(line)
        && rows.saturating_mul(channels) >= TRANSFORM * (rows + channels)
        && rows.saturating_mul(channels) <= MOST;
    let positions = sizes
        .samples
        .saturating_mul(lines.count)
        .saturating_mul(line.count);
    let pays = |(form, fewer): &(&Form, f64)| {
        let tiles = [lines, line].map(|axis| axis.count.div_ceil(form.positions));
        let tiles = sizes.samples.saturating_mul(tiles[0]).saturating_mul(tiles[1]);
        let products = tiles.saturating_mul(form.area()) as f64;
        let bytes = form.area() * rows * channels * size_of::<f32>();
        (positions.saturating_mul(TAPS * TAPS)) as f64 >= fewer * products && (tiles >= MANY || bytes <= KEPT)
    };
    let mut forms = forms.iter().zip(FEWER);
    if suits {
        forms.find(pays).map(|(form, _)| form)
    } else {
        None
    }
}

/// Whether the taps along an axis are three neighbours, met one element further by each position.
fn takes(axis: &Axis) -> bool {
    let apart = |tap: usize| distance(axis, tap) - distance(axis, tap - 1);
    axis.step == 1 && axis.taps.len() == TAPS && apart(1).abs() == 1 && apart(1) == apart(2)
}

/// Accumulators of all transformed weights.
pub(in super::super) fn packed_len<T: Stored>(kernels: &ConvKernels<T>, form: &Form, sizes: &Sizes) -> usize {
    let width = packed_rows(kernels, sizes.rows);
    sizes.rows.div_ceil(width) * panel_len(form, sizes, width)
}

fn panel_len(form: &Form, sizes: &Sizes, width: usize) -> usize {
    form.area() * sizes.channels * width
}

/// Transforms the weights of all rows, every tap.
///
/// # Safety
/// The weights are readable, `to` has room for [`packed_len`] accumulators, and the kernels' instruction set exists.
pub(in super::super) unsafe fn pack_all<T: Stored>(
    kernels: &ConvKernels<T>,
    form: &Form,
    sizes: &Sizes,
    w: &Weights<T>,
    to: *mut T::Acc,
) {
    let pass = Pass {
        axes: w.extents.map(Axis::of_taps),
    };
    let width = packed_rows(kernels, sizes.rows);
    for panel in 0..sizes.rows.div_ceil(width) {
        let to = to.wrapping_add(panel * panel_len(form, sizes, width));
        // SAFETY: the caller vouches for weights and room; each panel has its own.
        unsafe { transform(kernels, form, sizes, (w, &pass), panel, to) };
    }
}

/// Transforms the weights of a panel of rows: `to[e][channel][row]`.
unsafe fn transform<T: Stored>(
    kernels: &ConvKernels<T>,
    form: &Form,
    sizes: &Sizes,
    (w, pass): (&Weights<T>, &Pass),
    panel: usize,
    to: *mut T::Acc,
) {
    let (width, channels, taps) = (packed_rows(kernels, sizes.rows), sizes.channels, TAPS * TAPS);
    let scratch = Scratch::take((taps * channels * width + SLACK) * size_of::<T::Acc>());
    let lying: *mut T::Acc = scratch.start().cast();
    let rows = panel * width..sizes.rows.min((panel + 1) * width);
    let reversed = |axis: &Axis| axis.taps[1].shift < axis.taps[0].shift;
    // SAFETY: the caller's contract, and the scratch memory has room for the taps. Accumulators are f32, as there are forms.
    unsafe {
        weights::pack(kernels, (w, pass), 0, (rows, width), 0..channels, lying);
        for first in (0..channels).step_by(TOGETHER) {
            (form.weights)(&Taps {
                from: lying.add(first * taps * width).cast(),
                channels: TOGETHER.min(channels - first),
                width,
                reversed: [reversed(&pass.axes[1]), reversed(&pass.axes[2])],
                to: to.add(first * width).cast(),
                apart: channels * width,
            });
        }
    }
}

/// How the work is cut.
struct Plan<'a, T: Stored> {
    kernels: &'a ConvKernels<T>,
    job: &'a Job<'a, T>,
    form: &'static Form,
    /// Rows of a panel, and kernels for one panel and for two.
    width: usize,
    steps: [&'static [StepFn<T::Acc>]; 2],
    /// Panels that are summed together, and pieces of them.
    at_once: usize,
    parts: usize,
    /// Tiles along the lines of all samples, and along a line.
    tiles: [usize; 2],
    /// How many blocks these are cut into.
    pieces: [usize; 2],
    /// Channels, whole registers at every instruction set.
    channels: usize,
    weights: *const T::Acc,
}

/// Computes the pass, as [`run`](super::run) does.
///
/// # Safety
/// As [`run`](super::run); `form` is what [`form`] returned, and `prepared` is null or what [`pack_all`] wrote for it.
pub(super) unsafe fn run<T: Stored>(
    kernels: &ConvKernels<T>,
    job: &Job<'_, T>,
    form: &'static Form,
    prepared: *const T::Acc,
    parallel: &dyn Parallel,
    finish: Option<&(dyn Fn(&Finished) + Sync)>,
) {
    let (sizes, [_, lines, line]) = (&job.sizes, &job.pass.axes);
    let width = packed_rows(kernels, sizes.rows);
    let [one, two, four] = kernels.tiles.steps;
    let steps = match width == kernels.tiles.rows[0].0 {
        true => [one, &[]],
        false => [two, four],
    };
    let at_once = if steps[1].is_empty() { 1 } else { 2 };
    let (panels, channels) = (sizes.rows.div_ceil(width), sizes.channels.next_multiple_of(16));
    let [high, wide] = [lines, line].map(|axis| axis.count.div_ceil(form.positions));
    let tiles = [sizes.samples * high, wide];
    let work = (tiles[0] * tiles[1])
        .saturating_mul(form.area())
        .saturating_mul(sizes.rows * sizes.channels);
    let useful = parallel.threads().min(work / GRAIN).max(1);
    let bytes = packed_len(kernels, form, sizes) * size_of::<T::Acc>();
    let most = BLOCK[usize::from(bytes > KEPT)] / (form.area() * channels * size_of::<T::Acc>());
    let most = most.max(1);
    let pairs = panels.div_ceil(at_once);
    let across = wide.div_ceil(most);
    let down = tiles[0].div_ceil((most / wide).max(1));
    let down = down.max(useful.div_ceil(pairs * across)).min(tiles[0]);
    let blocks = down * across;
    let parts = match useful {
        1 => 1,
        useful => (EACH * useful).div_ceil(blocks).min(pairs),
    };
    let ready = !prepared.is_null() && job.pass.uses_all(job.weights.extents);
    let scratch = Scratch::take(if ready { 0 } else { bytes });
    let own: *mut T::Acc = scratch.start().cast();
    let shared = Shared((kernels, job, own));
    let shared = &shared;
    let pack = |panel: usize| {
        let (kernels, job, own) = shared.0;
        let to = own.wrapping_add(panel * panel_len(form, &job.sizes, width));
        // SAFETY: the weights are the caller's, and each panel has its own part of the scratch memory.
        unsafe { transform(kernels, form, &job.sizes, (&job.weights, job.pass), panel, to) };
    };
    if !ready && useful > 1 && bytes >= PACK_GRAIN {
        parallel.run(panels, &pack);
    } else if !ready {
        (0..panels).for_each(pack);
    }
    let plan = Plan {
        kernels,
        job,
        form,
        width,
        steps,
        at_once,
        parts,
        tiles,
        pieces: [down, across],
        channels,
        weights: if ready { prepared } else { own.cast_const() },
    };
    let tasks = blocks * parts;
    let group = if useful > 1 {
        tasks.div_ceil(EACH * useful)
    } else {
        tasks
    };
    let pieces = tasks.div_ceil(group);
    let deal = Deal::new(pieces, useful);
    let shared = &Shared(plan);
    let body = |call| {
        deal.run(call, |index, kept| {
            for task in index * group..((index + 1) * group).min(tasks) {
                // SAFETY: tasks write disjoint parts of the result.
                unsafe { shared.0.task(task, kept, finish) };
            }
        });
    };
    match pieces {
        1 => body(0),
        pieces => parallel.run(pieces, &body),
    }
}
