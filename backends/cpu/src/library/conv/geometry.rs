//! Which elements of the gathered operand meet which taps of the kernel, axis by axis.
//!
//! Along one axis, position q of a result takes from input element `(q + shift) * step + phase` through each of its taps.
//! A convolution with stride s splits its input into s phases and reads each of them with step s; the gradient with respect
//! to the input splits its result into s phases instead, each of which is a convolution with stride 1 and some of the taps.
//! So every inner loop reads neighbours for neighbours, whatever the stride.

use std::ops::Range;

/// Number of spatial axes; missing ones have extent 1 and stand in front.
pub(super) const AXES: usize = 3;

/// One spatial axis of an op, in the terms of its definition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Extent of the input of the convolution (of x).
    pub(super) input: usize,
    /// Extent of its output.
    pub(super) output: usize,
    /// Extent of its kernel.
    pub(super) taps: usize,
    pub(super) stride: i64,
    pub(super) dilation: i64,
    pub(super) padding: i64,
}

/// One tap that reaches at least one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tap {
    /// Index along the kernel.
    pub(super) index: usize,
    /// Index among the axis's phases.
    pub(super) phase: usize,
    pub(super) shift: isize,
}

/// One axis of a pass over the result.
#[derive(Clone, Debug, Default)]
pub(super) struct Axis {
    /// Positions of the result.
    pub(super) count: usize,
    /// Index of position 0 in the result, and from one position to the next.
    pub(super) first: usize,
    pub(super) every: usize,
    /// Extent of the gathered operand.
    pub(super) extent: usize,
    /// Elements of the gathered operand from one position to the next.
    pub(super) step: usize,
    /// First elements of the phases in use.
    pub(super) phases: Vec<isize>,
    pub(super) taps: Vec<Tap>,
    /// Least shift.
    pub(super) low: isize,
    /// Greatest shift less the least one.
    pub(super) span: usize,
}

impl Axis {
    /// An axis with every tap and no positions: what packing of weights needs.
    pub(super) fn of_taps(taps: usize) -> Axis {
        let tap = |index| Tap {
            index,
            phase: 0,
            shift: 0,
        };
        Axis {
            taps: (0..taps).map(tap).collect(),
            ..Axis::default()
        }
    }

    /// The axis of the convolution itself.
    pub(super) fn forward(w: &Window) -> Axis {
        let mut axis = Axis {
            count: w.output,
            first: 0,
            every: 1,
            extent: w.input,
            step: w.stride as usize,
            ..Axis::default()
        };
        axis.take((0..w.taps).map(|k| (k, k as i64 * w.dilation - w.padding)));
        axis
    }

    /// The axis of its gradient with respect to the input, for the input's elements `first, first + stride, ..`.
    pub(super) fn backward(w: &Window, first: usize) -> Axis {
        let every = w.stride as usize;
        let mut axis = Axis {
            count: w.input.saturating_sub(first).div_ceil(every),
            first,
            every,
            extent: w.output,
            step: 1,
            ..Axis::default()
        };
        let place = |k: usize| first as i64 + w.padding - k as i64 * w.dilation;
        axis.take(
            (0..w.taps)
                .filter(|&k| place(k).rem_euclid(w.stride) == 0)
                .map(|k| (k, place(k) / w.stride)),
        );
        axis
    }

    /// Keeps the taps, given with the element that position 0 meets, that meet any element at all.
    fn take(&mut self, taps: impl Iterator<Item = (usize, i64)>) {
        let (step, extent) = (self.step as i64, self.extent as i64);
        let last = self.count as i64 - 1;
        for (index, place) in taps {
            if last < 0 || place >= extent || last * step + place < 0 {
                continue;
            }
            let phase = place.rem_euclid(step) as isize;
            let known = self.phases.iter().position(|&known| known == phase);
            let tap = Tap {
                index,
                phase: known.unwrap_or(self.phases.len()),
                shift: place.div_euclid(step) as isize,
            };
            if known.is_none() {
                self.phases.push(phase);
            }
            self.taps.push(tap);
        }
        let shifts = || self.taps.iter().map(|tap| tap.shift);
        self.low = shifts().min().unwrap_or(0);
        self.span = shifts().max().unwrap_or(0).abs_diff(self.low);
    }
}

impl Axis {
    /// The same axis with a phase for each tap, so that every tap meets the same index of its phase.
    fn spread(&self) -> Axis {
        let step = self.step as isize;
        let phases = self.taps.iter();
        let taps = self.taps.iter().enumerate();
        Axis {
            phases: phases
                .map(|tap| tap.shift * step + self.phases[tap.phase])
                .collect(),
            taps: taps
                .map(|(phase, tap)| Tap {
                    index: tap.index,
                    phase,
                    shift: 0,
                })
                .collect(),
            low: 0,
            span: 0,
            ..*self
        }
    }
}

/// A pass over the result, or over one phase of it.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    pub(super) axes: [Axis; AXES],
}

impl Pass {
    /// The passes of the gradient with respect to the input: one for each phase of the strides, that along the last axis changing first.
    pub(super) fn backward(windows: &[Window; AXES]) -> Vec<Pass> {
        let [a, b, c] = windows.each_ref().map(|window| -> Vec<Axis> {
            let phases = (window.stride as usize).min(window.input);
            (0..phases).map(|phase| Axis::backward(window, phase)).collect()
        });
        let mut passes = Vec::with_capacity(a.len() * b.len() * c.len());
        for i in &a {
            for j in &b {
                passes.extend(c.iter().map(|k| Pass {
                    axes: [i.clone(), j.clone(), k.clone()],
                }));
            }
        }
        passes
    }

    /// The same pass with a phase for each tap along the last axis.
    pub(super) fn spread(&self) -> Pass {
        let [a, b, c] = &self.axes;
        Pass {
            axes: [a.clone(), b.clone(), c.spread()],
        }
    }

    /// Whether every position meets one element a channel, the first position the first one and neighbours neighbours.
    pub(super) fn is_plain(&self) -> bool {
        (self.axes.iter())
            .all(|axis| axis.taps.len() == 1 && axis.step == 1 && axis.low == 0 && axis.count <= axis.extent)
    }

    /// Positions of the result.
    pub(super) fn count(&self) -> [usize; AXES] {
        std::array::from_fn(|i| self.axes[i].count)
    }

    /// Number of taps.
    pub(super) fn taps(&self) -> usize {
        self.axes.iter().map(|axis| axis.taps.len()).product()
    }

    /// Number of phases of the gathered operand.
    pub(super) fn phases(&self) -> usize {
        self.axes.iter().map(|axis| axis.phases.len()).product()
    }

    /// Whether every tap of a kernel of extents `taps` is in use, in the order of their indices.
    pub(super) fn uses_all(&self, taps: [usize; AXES]) -> bool {
        (self.axes.iter().zip(taps)).all(|(axis, taps)| axis.taps.len() == taps)
    }

    /// Calls `visit` with the taps along each axis.
    pub(super) fn each_tap(&self, mut visit: impl FnMut([Tap; AXES])) {
        let [a, b, c] = &self.axes;
        for &i in &a.taps {
            for &j in &b.taps {
                for &k in &c.taps {
                    visit([i, j, k]);
                }
            }
        }
    }
}

/// A part of the positions of a pass.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Block {
    pub(super) at: [usize; AXES],
    pub(super) size: [usize; AXES],
}

/// How a block of the result and what it takes from lie in scratch memory: one plane for each channel and phase, padded, so
/// that a position's place in its plane is the same for all taps up to a constant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Positions of a block; the last blocks may have fewer.
    pub(super) block: [usize; AXES],
    /// Extents of a plane.
    pub(super) extents: [usize; AXES],
    /// Elements of a plane.
    pub(super) plane: usize,
    /// Planes of a channel's phase: samples that lie side by side.
    pub(super) samples: usize,
    /// Phases of a channel.
    pub(super) phases: usize,
}

impl Layout {
    pub(super) fn new(pass: &Pass, block: [usize; AXES], samples: usize) -> Layout {
        let extents: [usize; AXES] = std::array::from_fn(|i| block[i] + pass.axes[i].span);
        Layout {
            block,
            extents,
            plane: extents
                .iter()
                .fold(1, |size, &extent| size.saturating_mul(extent)),
            samples,
            phases: pass.phases(),
        }
    }

    /// Elements of a channel's planes.
    pub(super) fn channel(&self) -> usize {
        self.plane.saturating_mul(self.phases * self.samples)
    }

    /// Number of blocks along each axis.
    pub(super) fn pieces(&self, pass: &Pass) -> [usize; AXES] {
        std::array::from_fn(|i| pass.axes[i].count.div_ceil(self.block[i]))
    }

    /// First position and extents of block `index`, counted row-major.
    pub(super) fn block(&self, pass: &Pass, index: usize) -> Block {
        let mut rest = index;
        let mut block = Block::default();
        for (i, pieces) in self.pieces(pass).into_iter().enumerate().rev() {
            block.at[i] = rest % pieces * self.block[i];
            block.size[i] = self.block[i].min(pass.axes[i].count - block.at[i]);
            rest /= pieces;
        }
        block
    }

    /// From a position's place to what each tap meets there, for each of `together` channels one after another; channels are `apart`
    /// places apart.
    pub(super) fn offsets(
        &self,
        pass: &Pass,
        (channels, apart): (usize, usize),
        (together, reversed): (usize, bool),
    ) -> Vec<u32> {
        let mut offsets = Vec::with_capacity(channels * pass.taps());
        for first in (0..channels).step_by(together) {
            let some = first..channels.min(first + together);
            pass.each_tap(|taps| {
                let tap = self.offset(pass, taps);
                let of = |channel: usize| (channel * apart + tap) as u32;
                match reversed {
                    true => offsets.extend(some.clone().rev().map(of)),
                    false => offsets.extend(some.clone().map(of)),
                }
            });
        }
        offsets
    }

    /// From a position's place in a channel to what a tap meets there.
    pub(super) fn offset(&self, pass: &Pass, taps: [Tap; AXES]) -> usize {
        let (mut phase, mut at) = (0, 0);
        for (i, tap) in taps.iter().enumerate() {
            let axis = &pass.axes[i];
            phase = phase * axis.phases.len() + tap.phase;
            at = at * self.extents[i] + tap.shift.abs_diff(axis.low);
        }
        phase * self.samples * self.plane + at
    }

    /// Places from the first to the last position of a block of `block` positions.
    pub(super) fn flat(&self, block: [usize; AXES]) -> usize {
        if block.contains(&0) {
            return 0;
        }
        ((block[0] - 1) * self.extents[1] + block[1] - 1) * self.extents[2] + block[2]
    }
}

/// Elements of the planes of `channels` channels of a block.
pub(super) fn planes(pass: &Pass, channels: usize) -> impl Fn([usize; AXES]) -> usize {
    move |block| Layout::new(pass, block, 1).channel().saturating_mul(channels)
}

/// Cuts the result into blocks that take from at most `most` elements, as `size` counts them, where that is possible, and then into more of
/// them until there are `wanted`, as long as a block keeps `least` positions.
pub(super) fn blocks(
    pass: &Pass,
    size: impl Fn([usize; AXES]) -> usize,
    most: usize,
    wanted: usize,
    least: usize,
) -> [usize; AXES] {
    let count = pass.count();
    let mut pieces = [1; AXES];
    let block = |pieces: [usize; AXES]| -> [usize; AXES] {
        std::array::from_fn(|i| count[i].div_ceil(pieces[i]).max(1))
    };
    loop {
        let now = block(pieces);
        let Some(axis) = (0..AXES).find(|&axis| now[axis] > 1) else {
            return now;
        };
        let many = pieces.iter().product::<usize>();
        let positions = now.iter().product::<usize>();
        if size(now) <= most && (many >= wanted || positions < 2 * least) {
            return now;
        }
        // The next number of pieces that makes blocks smaller.
        pieces[axis] = count[axis].div_ceil(now[axis] - 1);
    }
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
