//! Tiles along rows of the result, of an operand whose channels are neighbours. It is read where it lies. Of any other operand, what a block
//! takes from is turned once, into lines that have room for the padding at their ends.

mod points;
mod walk;

use super::order::{Places, Run};
use super::{Job, Task};
use crate::library::conv::geometry::{AXES, Axis, Block, Pass, distance, reach};
use crate::library::conv::steps::{Place, Step, TAPS, TOGETHER};
use crate::library::conv::words::ConvKernels;
use crate::library::gemm::{Panel, Stored};
use std::ops::Range;
pub(super) use walk::{Weights, walk};

/// Fewest channels of a step: each step of a tile costs as much as some of them.
const FEW: usize = 8;
/// What stands for elements of the padding.
pub(super) static ZEROS: [u64; TOGETHER] = [0; TOGETHER];

/// What all blocks share.
pub(super) struct Direct {
    steps: Vec<Step>,
    /// For each index along an axis the bits of the steps that meet an element.
    meets: [Vec<u64>; AXES],
    /// Elements from each element to the next along an axis, of the operand or of its copy, and bytes of an element.
    strides: [isize; AXES],
    element: usize,
    /// Elements of the copy, if there is one, and whether it has the padding at the ends of its lines.
    pub(super) copied: Option<usize>,
    padded: bool,
}

/// The elements along an axis that a copy has for so many positions from `at` on.
fn held(axis: &Axis, at: usize, positions: usize, padded: bool) -> Range<isize> {
    let all = reach(axis, at, positions);
    match padded {
        true => all,
        false => all.start.max(0)..all.end.min(axis.extent as isize).max(all.start.max(0)),
    }
}

/// Elements that a block takes from, or of their copy.
pub(super) fn taken_from(pass: &Pass, channels: usize, copied: bool, block: [usize; AXES]) -> usize {
    let padded = run(pass, channels, copied).is_some();
    (pass.axes.iter().zip(block)).fold(channels, |all, (axis, positions)| {
        all.saturating_mul(most(axis, positions, padded))
    })
}

/// Most elements along an axis that a copy has for so many positions.
fn most(axis: &Axis, positions: usize, padded: bool) -> usize {
    let all = reach(axis, 0, positions).len();
    if padded { all } else { all.min(axis.extent) }
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
    /// For blocks of at most `block` positions and panels of `width` rows; of a copy, if the operand is `copied`.
    pub(super) fn new<T: Stored>(
        job: &Job<'_, T>,
        kernels: &ConvKernels<T>,
        width: usize,
        block: [usize; AXES],
        copied: bool,
    ) -> Direct {
        let (pass, channels) = (job.pass, job.sizes.channels);
        let (size, element) = (size_of::<T>() as isize, kernels.element());
        let (of_term, together) = (width as isize * size, kernels.together());
        let run = run(pass, channels, copied);
        let padded = run.is_some();
        let [far, lines, line] = [0, 1, 2].map(|i| most(&pass.axes[i], block[i], padded));
        let strides = match copied {
            true => [lines * line * channels, line * channels, channels].map(|stride| stride as isize),
            false => job.gathered.spatial,
        };
        let mut steps = Vec::with_capacity(channels.div_ceil(together) * pass.taps());
        for first in (0..channels).step_by(together) {
            let some = run.unwrap_or(together.min(channels - first));
            each(pass, run.is_some(), |bit, at| {
                let distances = at.iter().zip(&pass.axes).map(|(&tap, axis)| distance(axis, tap));
                let tap: isize = distances.zip(strides).map(|(far, stride)| far * stride).sum();
                steps.push(Step {
                    end: tap * element as isize + (first + some) as isize * size,
                    bit,
                    back: -(some as isize * size),
                    weights: some as isize * of_term,
                });
            });
        }
        let meets = std::array::from_fn(|i| {
            let axis = &pass.axes[i];
            let mut bits = vec![0_u64; axis.taps.len()];
            each(pass, run.is_some(), |bit, at| bits[at[i]] |= 1 << bit);
            let of = |index: usize| {
                // Runs of a copy have the padding in them.
                let there = |tap: usize| {
                    let element = (index * axis.step) as isize + distance(axis, tap);
                    i == 2 && run.is_some() || (0..axis.extent as isize).contains(&element)
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
            element,
            copied: copied.then_some(far * lines * line * channels),
            padded,
        }
    }

    /// What the first position of the task's block meets at distance zero; `copy` is what [`Direct::copy`] wrote, if anything.
    fn origin<T: Stored>(&self, task: &Task<'_, T>, sample: usize, copy: *const T::Acc) -> *const u8 {
        let (axes, at) = (&task.job.pass.axes, task.block.at);
        let of = |elements: [isize; AXES]| {
            let far = elements.iter().zip(self.strides).map(|(&at, stride)| at * stride);
            far.sum::<isize>()
        };
        let first = std::array::from_fn(|i| (at[i] * axes[i].step) as isize);
        match self.copied {
            None => {
                let gathered = &task.job.gathered;
                let elements =
                    task.group as isize * gathered.group + sample as isize * gathered.sample + of(first);
                let bytes = elements.wrapping_mul(self.element as isize);
                gathered.ptr.cast::<u8>().wrapping_offset(bytes)
            }
            Some(_) => {
                let start = std::array::from_fn(|i| first[i] - held(&axes[i], at[i], 1, self.padded).start);
                copy.wrapping_offset(of(start)).cast()
            }
        }
    }

    /// The positions of the task's block, which have their sums `out` elements apart along each axis.
    fn places<T: Stored>(&self, task: &Task<'_, T>, origin: *const u8, out: [isize; AXES]) -> Places {
        let (axes, block, size) = (&task.job.pass.axes, &task.block, size_of::<T>() as isize);
        let step: [[isize; 2]; AXES] = std::array::from_fn(|axis| {
            let to_next = axes[axis].step as isize * self.strides[axis] * self.element as isize;
            [to_next, out[axis] * size]
        });
        let of = |axis: usize| &self.meets[axis][block.at[axis]..][..block.size[axis]];
        let mut runs = Vec::new();
        for (i, far) in of(0).iter().enumerate() {
            for (j, line) in of(1).iter().enumerate() {
                let mut k = 0;
                for some in of(2).chunk_by(|a, b| a == b) {
                    let [at, out] = [0, 1].map(|of| {
                        i as isize * step[0][of] + j as isize * step[1][of] + k as isize * step[2][of]
                    });
                    runs.push(Run {
                        first: Place {
                            at: origin.wrapping_offset(at),
                            meets: far & line & some[0],
                            out,
                        },
                        len: some.len(),
                    });
                    k += some.len();
                }
            }
        }
        Places { runs, step: step[2] }
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
        let [far, lines, line] =
            [0, 1, 2].map(|i| held(&job.pass.axes[i], block.at[i], block.size[i], self.padded));
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
