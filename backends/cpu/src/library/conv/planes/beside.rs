//! Planes of an operand whose channels are neighbours: [`BESIDE`] channels of a place lie side by side, and planes of so many channels
//! behind one another.

use super::Planes;
use crate::library::conv::operands::Gathered;
use crate::library::conv::tile::BESIDE;
use crate::library::gemm::Stored;

/// Some places of a line: `dst[i * BESIDE + c]` is channel c of `src` at `i * step`.
#[derive(Clone, Copy)]
pub(in crate::library::conv) struct BesideLine<S> {
    pub(super) dst: *mut S,
    pub(super) src: *const S,
    /// Elements from one place of the source to the next.
    pub(super) step: isize,
    pub(super) places: usize,
    /// Channels that exist, at most [`BESIDE`].
    pub(super) channels: usize,
}

/// Copies some places of a line.
pub(in crate::library::conv) type BesideFn<S> = unsafe fn(&BesideLine<S>);

#[inline(always)]
unsafe fn line<S: Copy>(t: &BesideLine<S>) {
    for i in 0..t.places {
        // SAFETY: the caller vouches for the channels of each place, and for room.
        unsafe {
            let src = t.src.offset(i as isize * t.step);
            let dst = t.dst.add(i * BESIDE);
            if t.channels == BESIDE {
                let all = src.cast::<[S; BESIDE]>().read_unaligned();
                dst.cast::<[S; BESIDE]>().write_unaligned(all);
            } else {
                (0..t.channels).for_each(|c| dst.add(c).write(*src.add(c)));
            }
        }
    }
}

/// With what every processor has.
pub(in crate::library::conv) unsafe fn plain<S: Copy>(t: &BesideLine<S>) {
    // SAFETY: same contract.
    unsafe { line(t) }
}

#[cfg(target_arch = "x86_64")]
pub(in crate::library::conv) mod x86 {
    use super::{BesideLine, line};

    #[target_feature(enable = "avx2,fma")]
    pub(in crate::library::conv) unsafe fn avx2<S: Copy>(t: &BesideLine<S>) {
        // SAFETY: same contract.
        unsafe { line(t) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(in crate::library::conv) unsafe fn avx512<S: Copy>(t: &BesideLine<S>) {
        // SAFETY: same contract.
        unsafe { line(t) }
    }
}

impl<T: Stored> Planes<T> {
    /// As [`Planes::copy`], for a sample of an operand whose channels are neighbours.
    ///
    /// # Safety
    /// As there; elements are accumulators already, and there is room for [`BESIDE`] channels where some are missing.
    pub(in crate::library::conv) unsafe fn copy_beside(
        &self,
        copy: BesideFn<T::Acc>,
        gathered: &Gathered<T>,
        sample: usize,
        framed: bool,
    ) {
        let apart = self.of_phases.len() * self.samples * self.plane * BESIDE;
        let base = gathered.at(sample, 0).cast::<T::Acc>();
        for (phase, first) in &self.of_phases {
            let [planes, lines, width] = phase.extents;
            let [from, to] = [phase.from[2], phase.to[2]];
            for (i, j) in (0..planes).flat_map(|i| (0..lines).map(move |j| (i, j))) {
                let inside =
                    (phase.from[0]..phase.to[0]).contains(&i) && (phase.from[1]..phase.to[1]).contains(&j);
                let (from, to) = if inside { (from, to) } else { (0, 0) };
                let line = base.wrapping_offset(
                    first
                        + i as isize * phase.steps[0]
                        + j as isize * phase.steps[1]
                        + from as isize * phase.steps[2],
                );
                for (block, channel) in (0..gathered.channels).step_by(BESIDE).enumerate() {
                    let dst = phase
                        .dst
                        .wrapping_add(block * apart + (i * lines + j) * width * BESIDE);
                    // SAFETY: the line belongs to the planes; only elements that exist are read.
                    unsafe {
                        if !framed {
                            let zeros = (0..from).chain(to..width);
                            zeros.for_each(|k| {
                                dst.add(k * BESIDE)
                                    .cast::<[T::Acc; BESIDE]>()
                                    .write([T::ZERO; BESIDE])
                            });
                        }
                        copy(&BesideLine {
                            dst: dst.add(from * BESIDE),
                            src: line.wrapping_add(channel),
                            step: phase.steps[2],
                            places: to - from,
                            channels: BESIDE.min(gathered.channels - channel),
                        });
                    }
                }
            }
        }
    }
}
