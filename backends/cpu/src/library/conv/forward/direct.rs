//! Tiles along rows of the result, of an operand whose channels are neighbours. It is read where it lies. Of any other operand, what a block
//! takes from is turned once, into lines that have room for the padding at their ends.

use super::rows::{HELD, PITCH, cut};
use super::store::{Runs, runs_of};
use super::{Job, Task, pack_tile, weights};
use crate::isa::first_cache;
use crate::library::conv::geometry::{AXES, Axis, Block, Layout, Pass};
use crate::library::conv::steps::{LATER, PLACES, Place, Step, StepArgs, TAPS, TOGETHER};
use crate::library::conv::words::ConvKernels;
use crate::library::gemm::{Panel, Stored, piece};
use smallvec::SmallVec;
use std::ops::Range;

/// Tiles that are stored together.
const STORED: usize = PITCH / PLACES;
/// Fewest channels of a step: each step of a tile costs as much as some of them.
const FEW: usize = 8;
/// Bytes of weights that L2 still has when the next block of positions meets them.
const KEPT: usize = 512 << 10;
/// Bytes of weights that all tiles meet before the next ones, and the same where L2 is busy with fetching weights and the first cache has
/// `ROOM` to keep some.
const NEAR: usize = 160 << 10;
const NEAR_FIRST: usize = 20 << 10;
const ROOM: usize = 48 << 10;
/// Bytes of weights that are packed by the task and met before the next ones are packed.
const PACKED_NEAR: usize = 128 << 10;
/// What stands for elements of the padding.
pub(super) static ZEROS: [u64; TOGETHER] = [0; TOGETHER];

/// What all blocks share.
pub(super) struct Direct {
    steps: Vec<Step>,
    /// For each index along an axis the bits of the steps that meet an element.
    meets: [Vec<u64>; AXES],
    /// Elements from each element to the next along an axis, of the operand or of its copy.
    strides: [isize; AXES],
    /// Elements of the copy, if there is one.
    pub(super) copied: Option<usize>,
}

/// From what a position meets first along an axis to what a tap meets there.
pub(super) fn distance(axis: &Axis, tap: usize) -> isize {
    let tap = axis.taps[tap];
    tap.shift * axis.step as isize + axis.phases[tap.phase]
}

/// The elements along an axis from the first to the last one that so many positions from `at` on meet.
pub(super) fn reach(axis: &Axis, at: usize, positions: usize) -> Range<isize> {
    let distances = || (0..axis.taps.len()).map(|tap| distance(axis, tap));
    let [least, most] = [distances().min(), distances().max()].map(|of| of.unwrap_or(0));
    let first = |index: usize| (index * axis.step) as isize;
    first(at) + least..first(at + positions - 1) + most + 1
}

/// The channels of a step, or the elements of neighbouring taps where a copy has these side by side.
fn run(pass: &Pass, channels: usize, copied: bool) -> Option<usize> {
    let axis = &pass.axes[2];
    let taps = axis.taps.len();
    let neighbours = (1..taps).all(|tap| distance(axis, tap) == distance(axis, tap - 1) + 1);
    (copied && neighbours && taps * channels <= TOGETHER).then_some(taps * channels)
}

/// Whether the taps have bits enough, and steps channels enough. Strides beyond the taps would copy what nobody meets.
pub(super) fn suits(pass: &Pass, channels: usize, copied: bool) -> bool {
    if copied && pass.axes.iter().any(|axis| reach(axis, 0, 1).len() < axis.step) {
        return false;
    }
    let run = run(pass, channels, copied);
    let taps = match run {
        Some(_) => pass.taps() / pass.axes[2].taps.len().max(1),
        None => pass.taps(),
    };
    (1..=TAPS).contains(&taps) && run.unwrap_or(channels) >= FEW
}

impl Direct {
    /// For blocks of at most `block` positions; of a copy, if the operand is `copied`.
    pub(super) fn new<T: Stored>(
        job: &Job<'_, T>,
        together: usize,
        block: [usize; AXES],
        copied: bool,
    ) -> Direct {
        let (pass, channels) = (job.pass, job.sizes.channels);
        let size = size_of::<T>() as isize;
        let [far, lines, line] = [0, 1, 2].map(|i| reach(&pass.axes[i], 0, block[i]).len());
        let strides = match copied {
            true => [lines * line * channels, line * channels, channels].map(|stride| stride as isize),
            false => job.gathered.spatial,
        };
        let run = run(pass, channels, copied);
        let mut steps = Vec::with_capacity(channels.div_ceil(together) * pass.taps());
        for first in (0..channels).step_by(together) {
            let some = run.unwrap_or(together.min(channels - first));
            each(pass, run.is_some(), |bit, at| {
                let distances = at.iter().zip(&pass.axes).map(|(&tap, axis)| distance(axis, tap));
                let tap: isize = distances.zip(strides).map(|(far, stride)| far * stride).sum();
                steps.push(Step {
                    end: (tap + (first + some) as isize) * size,
                    bit,
                    back: -(some as isize * size),
                });
            });
        }
        let meets = std::array::from_fn(|i| {
            let axis = &pass.axes[i];
            let mut bits = vec![0_u64; axis.taps.len()];
            each(pass, run.is_some(), |bit, at| bits[at[i]] |= 1 << bit);
            let of = |index: usize| {
                // Lines of a copy have room for the padding.
                let there = |tap: usize| {
                    let element = (index * axis.step) as isize + distance(axis, tap);
                    i == 2 && copied || (0..axis.extent as isize).contains(&element)
                };
                let there = bits.iter().enumerate().filter(|&(tap, _)| there(tap));
                there.fold(0, |all, (_, bits)| all | bits)
            };
            (0..axis.count).map(of).collect()
        });
        Direct {
            steps,
            meets,
            strides,
            copied: copied.then_some(far * lines * line * channels),
        }
    }

    /// The positions of the task's block; `copy` is what [`Direct::copy`] wrote, if anything.
    fn places<T: Stored>(
        &self,
        task: &Task<'_, T>,
        sample: usize,
        copy: *const T::Acc,
    ) -> Vec<Place<T::Acc>> {
        let (gathered, block) = (task.job.gathered.of_group(task.group), &task.block);
        let axes = &task.job.pass.axes;
        let of = |axis: usize| {
            let step = axes[axis].step as isize * self.strides[axis];
            let indices = block.at[axis]..block.at[axis] + block.size[axis];
            indices.map(move |index| (index as isize * step, self.meets[axis][index]))
        };
        let first = match self.copied {
            None => gathered.at(sample, 0).cast::<T::Acc>(),
            Some(_) => {
                let starts = (0..AXES).map(|i| reach(&axes[i], block.at[i], 1).start * self.strides[i]);
                copy.wrapping_offset(-starts.sum::<isize>())
            }
        };
        let mut places = Vec::with_capacity(block.size.iter().product());
        for (far, meets) in of(0) {
            for (line, of_line) in of(1) {
                let (line, meets) = (first.wrapping_offset(far + line), meets & of_line);
                places.extend(of(2).map(|(at, of_place)| Place {
                    at: line.wrapping_offset(at),
                    meets: meets & of_place,
                }));
            }
        }
        places
    }

    /// Turns what a block takes from: the channels of each element become neighbours.
    ///
    /// # Safety
    /// The operand is readable, its elements are accumulators, and `to` has room for the copy and [`SLACK`](super::SLACK) more.
    pub(super) unsafe fn copy<T: Stored>(
        &self,
        kernels: &ConvKernels<T>,
        job: &Job<'_, T>,
        (group, sample): (usize, usize),
        block: &Block,
        to: *mut T::Acc,
    ) {
        let (gathered, channels) = (job.gathered.of_group(group), job.sizes.channels);
        let [far, lines, line] = [0, 1, 2].map(|i| reach(&job.pass.axes[i], block.at[i], block.size[i]));
        let exist = |of: &Range<isize>, axis: usize| {
            let end = of.end.min(job.pass.axes[axis].extent as isize);
            of.start.max(0)..end.max(0)
        };
        let there = exist(&line, 2);
        for (i, j) in exist(&far, 0).flat_map(|i| exist(&lines, 1).map(move |j| (i, j))) {
            let to =
                to.wrapping_offset((i - far.start) * self.strides[0] + (j - lines.start) * self.strides[1]);
            let at = |element: isize| to.wrapping_offset((element - line.start) * channels as isize);
            let first = [i, j, there.start];
            let from = first
                .iter()
                .zip(gathered.spatial)
                .map(|(&at, stride)| at * stride);
            // SAFETY: the caller's contract. What is written past the end of a line is overwritten by what follows.
            unsafe {
                if !there.is_empty() {
                    (kernels.pack)(&Panel {
                        dst: at(there.start),
                        pitch: channels,
                        src: gathered.at(sample, 0).wrapping_offset(from.sum()),
                        width: channels,
                        w_step: gathered.channel,
                        k_step: gathered.spatial[2],
                        kc: there.len(),
                    });
                }
                for padding in [
                    line.start..there.start.min(line.end),
                    there.end.max(line.start)..line.end,
                ] {
                    at(padding.start).write_bytes(0, padding.len() * channels);
                }
            }
        }
    }
}

/// Calls `visit` with the number of each tap and its place along each axis; with the first ones of each line, if they stand for all.
fn each(pass: &Pass, by_lines: bool, mut visit: impl FnMut(usize, [usize; AXES])) {
    let [a, b, c] = [0, 1, 2].map(|i| pass.axes[i].taps.len());
    let c = if by_lines { 1 } else { c };
    for bit in 0..a * b * c {
        visit(bit, [bit / (b * c), bit / c % b, bit % c]);
    }
}

/// The weights of a walk.
#[derive(Clone, Copy)]
pub(super) enum Weights<S> {
    /// Those of all tiles of the group, packed.
    Packed(*const S),
    /// Room for those of the tiles that are computed together; nobody has packed them.
    Own(*mut S),
}

/// Computes the rows of the tiles `chosen`. Where `cold`, no task of this thread has met their weights.
///
/// # Safety
/// The task's memory is that of the block, `copy` is its copy, if there is one, and no one else writes the result's rows.
pub(super) unsafe fn walk<T: Stored>(
    task: &Task<'_, T>,
    direct: &Direct,
    (sample, cold): (usize, bool),
    copy: *const T::Acc,
    chosen: Range<usize>,
    weights: Weights<T::Acc>,
) {
    let (job, plan, size) = (task.job, task.plan, task.block.size);
    let places = direct.places(task, sample, copy);
    let tiles = cut(places.len(), PLACES);
    let [far, lines, step] = job.target.spatial;
    // Whether positions follow one another in the result.
    let dense = plan.result_beside
        && (size[1] == 1 || lines == size[2] as isize * step)
        && (size[0] == 1 || far == (size[1] * size[2]) as isize * step);
    let are_many = chosen.len() * plan.packed * size_of::<T::Acc>() > KEPT;
    for t in chosen.clone().step_by(plan.at_once) {
        let panels = t..chosen.end.min(t + plan.at_once);
        let (first, _) = plan.rows_of(job.sizes.rows, t);
        let (last, _) = plan.rows_of(job.sizes.rows, panels.end - 1);
        let rows = first.start..last.end;
        let in_place = dense && rows.len() == panels.len() * plan.width;
        let weights = match weights {
            Weights::Packed(all) => Weights::Packed(all.wrapping_add(t * plan.packed)),
            // Sums of some tiles at a time would ask for the first weights again.
            Weights::Own(own) if !in_place && tiles.len() > HELD => {
                for panel in panels.clone() {
                    let to = own.wrapping_add((panel - t) * plan.packed);
                    // SAFETY: the weights are the caller's, and so is the room for them.
                    unsafe { pack_tile(task.kernels, job, plan, (task.group, panel), to) };
                }
                Weights::Packed(own.cast_const())
            }
            own => own,
        };
        let walk = Walk {
            task,
            direct,
            places: &places,
            panels,
            rows,
            weights,
            near: match are_many && first_cache() >= ROOM {
                true => NEAR_FIRST,
                false => NEAR,
            },
            asks: (cold || are_many) && !plan.local,
        };
        // SAFETY: the caller's contract.
        unsafe {
            if in_place {
                walk.in_place(&tiles);
            } else {
                tiles.chunks(HELD).for_each(|some| walk.by_sums(some));
            }
        }
    }
}

/// Some panels of rows.
struct Walk<'a, T: Stored> {
    task: &'a Task<'a, T>,
    direct: &'a Direct,
    places: &'a [Place<T::Acc>],
    panels: Range<usize>,
    rows: Range<usize>,
    /// From those of the first panel on.
    weights: Weights<T::Acc>,
    /// Bytes of them that all tiles meet before the next ones.
    near: usize,
    /// Whether weights are asked for before they are met.
    asks: bool,
}

impl<T: Stored> Walk<'_, T> {
    fn row(&self) -> *mut T {
        let stride = self.task.job.target.row;
        self.task
            .target
            .wrapping_offset(self.rows.start as isize * stride)
    }

    /// Sums where the result lies.
    unsafe fn in_place(&self, tiles: &[Range<u32>]) {
        let (row, step) = (self.row(), self.task.job.target.spatial[2]);
        let of = |places: &Range<u32>| row.wrapping_offset(places.start as isize * step).cast();
        // The places of a tile, before it is begun.
        let asked = |index: usize, [first, _]: [bool; 2]| {
            let out = of(&tiles[index]);
            if first { (out, step) } else { (out, 0) }
        };
        // SAFETY: the caller's contract; elements are sums.
        unsafe { self.sums(tiles, step, of, asked) };
    }

    /// Sums beside the result, to which they are copied.
    unsafe fn by_sums(&self, tiles: &[Range<u32>]) {
        let (task, width) = (self.task, self.panels.len() * self.task.plan.width);
        let start = tiles[0].start;
        let of = |places: &Range<u32>| task.sums.wrapping_add((places.start - start) as usize * width);
        let size = task.block.size;
        let layout = Layout {
            block: size,
            extents: size,
            plane: self.places.len(),
            samples: 1,
            phases: 1,
        };
        let target = &task.job.target;
        let some = tiles.chunks(STORED).map(|some| {
            let (first, end) = (some[0].start as usize, some[some.len() - 1].end as usize);
            let mut runs = Runs::new();
            runs_of(&layout, &task.block, target.spatial, first..end, 0, &mut runs);
            (of(&some[0]).cast_const(), end - first, runs)
        });
        let some: SmallVec<[_; HELD.div_ceil(STORED)]> = some.collect();
        // Some rows of the tiles that are stored together, before the last of their sums are begun.
        let asked = |index: usize, [_, last]: [bool; 2]| {
            let (_, _, runs) = &some[index / STORED];
            let each = self.rows.len().div_ceil(STORED);
            let row = index % STORED * each;
            let to = self.row().wrapping_offset(row as isize * target.row + runs[0].at);
            match last && target.spatial[2] == 1 {
                true => (to.cast(), target.row),
                false => (task.sums, 0),
            }
        };
        // SAFETY: the caller's contract; there is room for the sums of `HELD` tiles.
        unsafe { self.sums(tiles, width as isize, of, asked) };
        for (sums, positions, runs) in &some {
            // SAFETY: the sums are there, and the result is the caller's.
            unsafe {
                task.storing()
                    .tiles((*sums, width), *positions, self.rows.len(), self.row(), runs)
            };
        }
    }

    /// Computes the sums of the tiles, at the places of `of` and `step` accumulators from one to the next. `asked` has for a tile, and whether
    /// its first or last sums are begun, what is asked for with each step: where, and accumulators to what the next step asks for.
    unsafe fn sums(
        &self,
        tiles: &[Range<u32>],
        step: isize,
        of: impl Fn(&Range<u32>) -> *mut T::Acc,
        asked: impl Fn(usize, [bool; 2]) -> (*mut T::Acc, isize),
    ) {
        let (task, plan, panels) = (self.task, self.task.plan, self.panels.len());
        let (job, steps, size) = (task.job, &self.direct.steps, size_of::<T::Acc>());
        let of_step = plan.together * plan.width * panels * size;
        // Steps of the channels whose weights are packed together.
        let of_block = steps.len() / job.sizes.channels.div_ceil(plan.together);
        let blocks = (PACKED_NEAR / (of_block * of_step)).max(1);
        let (portion, mut packed) = match self.weights {
            Weights::Packed(packed) => (steps.len(), packed),
            Weights::Own(own) => (blocks * of_block, own.cast_const()),
        };
        let (mut first, end) = (true, steps.as_ptr_range().end);
        for (index, portion) in steps.chunks(portion).enumerate() {
            if let Weights::Own(own) = self.weights {
                let channels =
                    [index, index + 1].map(|i| (i * blocks * plan.together).min(job.sizes.channels));
                // SAFETY: the weights are the caller's, and so is the room for them.
                unsafe { self.pack(channels[0]..channels[1], own) };
                packed = own.cast_const();
            }
            let chunks = portion.len().div_ceil((self.near / of_step).max(1));
            for chunk in 0..chunks {
                let some = &portion[piece(portion.len(), chunks, chunk)];
                let terms = some.iter().map(|step| step.back.unsigned_abs()).sum::<usize>() / size;
                let after = packed.wrapping_add(terms * plan.width);
                // The next weights of each panel, or those of the panels behind them.
                let (next, last) = match chunk + 1 < chunks {
                    true => (after, 0),
                    false => (after.wrapping_sub(plan.terms * plan.width), panels),
                };
                let slice = terms * LATER;
                let slices = (terms * plan.width * size).div_ceil(slice);
                for (index, places) in tiles.iter().enumerate() {
                    let out = of(places);
                    let of_panel = next.wrapping_add((last + index / slices) * plan.packed);
                    let later = match self.asks && index < slices * panels {
                        true => of_panel.wrapping_byte_add(index % slices * slice).cast(),
                        false => std::ptr::null(),
                    };
                    let (to, apart) = asked(index, [first, some.as_ptr_range().end == end]);
                    // SAFETY: the places are positions of the block, whose elements exist where their bits say so. There are weights for
                    // each step and room for the sums.
                    unsafe {
                        plan.steps[panels - 1][places.len() - 1](&mut StepArgs {
                            accumulate: !first,
                            count: places.len(),
                            places: self.places.as_ptr().add(places.start as usize),
                            steps: some.as_ptr_range().start,
                            last: some.as_ptr_range().end,
                            zeros: ZEROS.as_ptr().cast::<T::Acc>().add(TOGETHER),
                            weights: packed,
                            next_panel: (plan.packed * size) as isize,
                            out_step: step * size as isize,
                            out,
                            asked: to,
                            asked_step: apart * size as isize,
                            later,
                        });
                    }
                }
                (packed, first) = (after, false);
            }
        }
    }

    /// Packs the weights of some channels.
    unsafe fn pack(&self, channels: Range<usize>, to: *mut T::Acc) {
        let (task, plan) = (self.task, self.task.plan);
        let (job, kernels) = (task.job, task.kernels);
        for (i, panel) in self.panels.clone().enumerate() {
            let (rows, to) = (
                plan.rows_of(job.sizes.rows, panel),
                to.wrapping_add(i * plan.packed),
            );
            let of = (&job.weights, job.pass);
            // SAFETY: the caller has the weights, and room for those of all channels.
            unsafe { weights::pack(kernels, of, task.group, rows, channels.clone(), to) };
        }
    }
}
