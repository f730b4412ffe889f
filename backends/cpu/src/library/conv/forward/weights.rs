//! Packing of the weights, and what of them a tile takes.

use crate::library::conv::bytes::{Channels, Pick};
use crate::library::conv::geometry::Pass;
use crate::library::conv::operands::Weights;
use crate::library::conv::pairs::{self, Pairs};
use crate::library::conv::words::ConvKernels;
use crate::library::gemm::{Panel, Scratch, Stored};
use std::ops::Range;

/// Bytes of packed weights that are put in order while they are near.
const IN_ORDER: usize = 20 << 10;
/// Most accumulators that packing writes past its end.
const REGISTER: usize = 16;

/// Packs the weights of some rows and channels of a group: for each term one weight a row, then zeros up to `pitch`. Terms are in the order
/// of [`Layout::offsets`](crate::library::conv::geometry::Layout::offsets).
///
/// # Safety
/// The weights are readable, and `dst` has room for `pitch` accumulators a term and 16 more.
pub(super) unsafe fn pack<T: Stored>(
    kernels: &ConvKernels<T>,
    (w, pass): (&Weights<T>, &Pass),
    group: usize,
    (rows, pitch): (Range<usize>, usize),
    channels: Range<usize>,
    dst: *mut T::Acc,
) {
    let taps = pass.taps();
    if let Some(bytes) = kernels.bytes {
        let pick = Pick {
            weights: &w.cast(),
            pass,
            group,
            rows,
            lanes: channels,
            together: kernels.together(),
        };
        // SAFETY: the caller's contract.
        unsafe { (bytes.pack)(&pick, pitch, dst.cast()) };
        return;
    }
    if kernels.pairs == Some(Pairs::Joined) {
        // SAFETY: the caller's contract; elements of 16 bits have such pairs.
        unsafe { pairs::pack((&w.cast(), pass), group, (rows, pitch), channels, dst.cast()) };
        return;
    }
    let first = group as isize * w.group + rows.start as isize * w.row + channels.start as isize * w.channel;
    let src = w.ptr.wrapping_offset(first);
    let channels = channels.len();
    if taps * channels == 0 {
        return;
    }
    let panel = Panel::<T> {
        dst,
        pitch,
        src,
        width: rows.len(),
        w_step: w.row,
        k_step: w.channel,
        kc: channels,
    };
    let [_, b, c] = w.extents.map(|extent| extent as isize);
    let row_major =
        (w.extents.iter().zip(w.taps).zip([b * c, c, 1])).all(|((&n, step), dense)| n == 1 || step == dense);
    let together = kernels.together();
    // SAFETY: the weights are readable; a panel runs over its end into the next one or into the slack.
    unsafe {
        let (whole, reversed) = (pass.uses_all(w.extents), kernels.reverses());
        match (whole && row_major, reversed) {
            (_, false) if whole && taps == 1 => return (kernels.pack)(&panel),
            (true, false) if together == 1 => return by_channels(kernels, &panel, taps),
            (true, false) => return by_blocks(kernels, &panel, taps, together),
            (true, true) => return by_pairs(kernels, &panel, taps),
            (false, _) => {}
        }
        let mut dst = dst;
        for first in (0..channels).step_by(together) {
            let some = together.min(channels - first);
            let (from, k_step) = match reversed {
                true => (first + some - 1, -w.channel),
                false => (first, w.channel),
            };
            pass.each_tap(|of| {
                (kernels.pack)(&Panel {
                    dst,
                    src: src.wrapping_offset(from as isize * w.channel + w.tap(of)),
                    k_step,
                    kc: some,
                    ..panel
                });
                dst = dst.add(some * pitch);
            });
        }
    }
}

/// Packs weights whose taps are neighbours, the taps of each channel one after another.
unsafe fn by_channels<T: Stored>(kernels: &ConvKernels<T>, panel: &Panel<T>, taps: usize) {
    let whole = panel.k_step == taps as isize;
    let (calls, kc) = if whole {
        (1, panel.kc * taps)
    } else {
        (panel.kc, taps)
    };
    for channel in 0..calls {
        // SAFETY: the caller's contract.
        unsafe {
            (kernels.pack)(&Panel {
                dst: panel.dst.add(channel * taps * panel.pitch),
                src: panel.src.wrapping_offset(channel as isize * panel.k_step),
                k_step: 1,
                kc,
                ..*panel
            });
        }
    }
}

/// The same with the channels of each pair one after another, the odd one first. What a term runs over its end, the next one overwrites.
unsafe fn by_pairs<T: Stored>(kernels: &ConvKernels<T>, panel: &Panel<T>, taps: usize) {
    let (pitch, channels) = (panel.pitch, panel.kc);
    let at_once = (IN_ORDER / (taps * pitch * size_of::<T::Acc>()))
        .next_multiple_of(2)
        .max(2);
    let scratch = Scratch::take((at_once * taps * pitch + REGISTER) * size_of::<T::Acc>());
    let run: *mut T::Acc = scratch.start().cast();
    for first in (0..channels).step_by(at_once) {
        let some = at_once.min(channels - first);
        let lying = Panel {
            dst: run,
            src: panel.src.wrapping_offset(first as isize * panel.k_step),
            kc: some,
            ..*panel
        };
        // SAFETY: the caller's contract, and the scratch memory has room for the run.
        unsafe {
            by_channels(kernels, &lying, taps);
            let mut to = panel.dst.add(first * taps * pitch);
            for pair in (0..some).step_by(2) {
                for tap in 0..taps {
                    for channel in (pair..some.min(pair + 2)).rev() {
                        let from = run.add((channel * taps + tap) * pitch);
                        for at in (0..pitch).step_by(8) {
                            let some = from.add(at).cast::<[T::Acc; 8]>().read_unaligned();
                            to.add(at).cast::<[T::Acc; 8]>().write_unaligned(some);
                        }
                        to = to.add(pitch);
                    }
                }
            }
        }
    }
}

/// The same with the channels of each tap one after another, `together` of them: packed as they lie, and then put in order.
unsafe fn by_blocks<T: Stored>(kernels: &ConvKernels<T>, panel: &Panel<T>, taps: usize, together: usize) {
    let (pitch, channels) = (panel.pitch, panel.kc);
    // Whole registers write nothing past the end of a tap's channels. Others write what is packed next, if all channels are put in order
    // together.
    let at_once = match pitch.is_multiple_of(REGISTER) {
        true => (IN_ORDER / (taps * pitch * size_of::<T>()) / REGISTER * REGISTER).clamp(REGISTER, together),
        false => together,
    };
    let scratch = Scratch::take((at_once * taps * pitch + REGISTER) * size_of::<T::Acc>());
    let run: *mut T::Acc = scratch.start().cast();
    for first in (0..channels).step_by(together) {
        let block = together.min(channels - first);
        for from in (0..block).step_by(at_once) {
            let some = at_once.min(block - from);
            let src = panel.src.wrapping_offset((first + from) as isize * panel.k_step);
            let lying = Panel {
                dst: run,
                src,
                kc: some,
                ..*panel
            };
            // SAFETY: the caller's contract, and the scratch memory has room for the run. Elements are accumulators.
            unsafe {
                by_channels(kernels, &lying, taps);
                for tap in 0..taps {
                    (kernels.pack)(&Panel {
                        dst: panel.dst.add((first * taps + tap * block + from) * pitch),
                        pitch,
                        src: run.add(tap * pitch).cast(),
                        width: pitch,
                        w_step: 1,
                        k_step: (taps * pitch) as isize,
                        kc: some,
                    });
                }
            }
        }
    }
}

/// Writes what the sums of a tile of `pitch` rows begin with, if not with zero; `packed` are its weights.
///
/// # Safety
/// There are `terms` weights of each row, and room for the rows.
pub(super) unsafe fn start<T: Stored>(
    kernels: &ConvKernels<T>,
    packed: *const T::Acc,
    terms: usize,
    pitch: usize,
    starts: *mut T::Acc,
) {
    if let Some(bytes) = kernels.bytes.filter(Channels::starts) {
        // SAFETY: the caller's contract.
        unsafe { bytes.start(packed.cast(), terms, pitch, starts.cast()) };
    }
}
