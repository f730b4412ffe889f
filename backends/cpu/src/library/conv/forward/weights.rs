//! Packing of the weights, and what of them a tile takes.

use crate::library::conv::bytes::{Channels, Pick};
use crate::library::conv::geometry::Pass;
use crate::library::conv::operands::Weights;
use crate::library::conv::words::ConvKernels;
use crate::library::gemm::{Panel, Stored};
use std::ops::Range;

/// Packs the weights of some rows and channels of a group: for each channel and tap one weight a row, then zeros up to `pitch`.
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
        };
        // SAFETY: the caller's contract.
        unsafe { (bytes.pack)(&pick, pitch, dst.cast()) };
        return;
    }
    let first = group as isize * w.group + rows.start as isize * w.row + channels.start as isize * w.channel;
    let src = w.ptr.wrapping_offset(first);
    let channels = channels.len();
    let panel = |channel: usize, k_step: isize, kc: usize| Panel::<T> {
        dst: dst.wrapping_add(channel * taps * pitch),
        pitch,
        src: src.wrapping_offset(channel as isize * w.channel),
        width: rows.len(),
        w_step: w.row,
        k_step,
        kc,
    };
    if taps * channels == 0 {
        return;
    }
    let [_, b, c] = w.extents.map(|extent| extent as isize);
    let row_major =
        (w.extents.iter().zip(w.taps).zip([b * c, c, 1])).all(|((&n, step), dense)| n == 1 || step == dense);
    // SAFETY: the weights are readable; a panel runs over its end into the next one or into the slack.
    unsafe {
        if pass.uses_all(w.extents) && taps == 1 {
            (kernels.pack)(&panel(0, w.channel, channels));
        } else if pass.uses_all(w.extents) && row_major && w.channel == taps as isize {
            (kernels.pack)(&panel(0, 1, channels * taps));
        } else if pass.uses_all(w.extents) && row_major {
            for channel in 0..channels {
                (kernels.pack)(&panel(channel, 1, taps));
            }
        } else {
            let mut at = dst;
            for channel in 0..channels {
                pass.each_tap(|[i, j, k]| {
                    let tap = i.index as isize * w.taps[0]
                        + j.index as isize * w.taps[1]
                        + k.index as isize * w.taps[2];
                    let from = src.wrapping_offset(channel as isize * w.channel + tap);
                    (kernels.pack)(&Panel {
                        dst: at,
                        src: from,
                        ..panel(channel, 0, 1)
                    });
                    at = at.add(pitch);
                });
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
