//! Micro-kernels on channels that lie side by side, each convolved by itself.

use super::code::beside as code;
use crate::isa::Isa;
use crate::library::gemm::Vector;
use crate::library::gemm::code::Sum;

/// The kernels of one accumulator type on one instruction set.
#[derive(Clone, Copy)]
pub(super) struct Beside<S: 'static> {
    /// Channels of a register.
    pub(super) lanes: usize,
    /// For any window.
    pub(super) compiled: BesideFn<S>,
    /// Sums and instruction set of machine code, if there is any.
    pub(super) code: Option<(Sum, Isa)>,
}

impl<S> Beside<S> {
    /// The kernels that share what neighbouring positions load, if there are any for the window.
    pub(super) fn strips(&self, window: Window) -> Option<Strips<S>> {
        code::strips(self.code?, window)
    }
}

/// Taps whose columns and rows meet neighbouring elements.
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub(super) columns: usize,
    pub(super) rows: usize,
    /// Elements from a position to the next one of its line.
    pub(super) step: usize,
    /// Whether sums run along rows, one after the other, and not along columns.
    pub(super) by_rows: bool,
}

/// The greatest windows with machine code.
pub(super) const MOST_COLUMNS: usize = 5;
pub(super) const MOST_ROWS: usize = 5;
pub(super) const MOST_STEP: usize = 2;
/// Most positions of a strip.
pub(super) const STRIP: usize = 8;

/// `out[p, c] = sum over columns k and rows r in use of weights[k, r, c] * table[p * step + k, r][c]`, for strips of positions and what
/// they meet at equal distances. Distances are in bytes.
#[repr(C)]
pub(super) struct StripArgs<S> {
    /// For each column of elements that positions of the first strip meet, one for each row in use: its first channel.
    pub(super) table: *const *const S,
    /// From those of the first row in use on: for each register of channels, of which the last one ends with the last channel, the window in
    /// the order of the sums.
    pub(super) weights: *const S,
    pub(super) out: *mut S,
    pub(super) out_step: isize,
    /// All channels, which fill at least a register.
    pub(super) channels: usize,
    /// At least one.
    pub(super) strips: usize,
    pub(super) next: isize,
    pub(super) next_out: isize,
}

pub(super) type StripFn<S> = unsafe extern "C" fn(&StripArgs<S>);

/// For `index + 1` rows in use, and in these for `index + 1` positions of a strip.
pub(super) type Strips<S> = &'static [[StripFn<S>; STRIP]];

/// `out[p * out_position + c] = sum over l of weights[l * channels + c] * table[p * entries + l][p * step + c]`.
#[repr(C)]
pub(super) struct BesideArgs<S> {
    /// What a position meets through each tap: the first channel, of as many as there are.
    pub(super) table: *const *const S,
    /// Of the table from one position to the next, and elements of what they meet.
    pub(super) entries: usize,
    pub(super) step: isize,
    pub(super) positions: usize,
    pub(super) terms: usize,
    pub(super) weights: *const S,
    /// At least [`CHANNELS`].
    pub(super) channels: usize,
    pub(super) out: *mut S,
    pub(super) out_position: isize,
}

pub(super) type BesideFn<S> = unsafe fn(&BesideArgs<S>);

/// Lanes of the widest registers, of any type.
pub(super) const CHANNELS: usize = 16;
/// Positions that share what they load of the weights, and registers of channels.
const POSITIONS: usize = 4;
const REGISTERS: usize = 2;

/// # Safety
/// All channels of the table's addresses and the weights are readable, those of the positions in the result are writable, and the
/// instruction set exists.
#[inline(always)]
pub(super) unsafe fn beside<V: Vector>(t: &BesideArgs<V::Lane>) {
    let mut first = 0;
    // SAFETY: the caller's contract. The last positions and channels may be computed twice, with the same bits.
    unsafe {
        while first < t.positions {
            if t.positions < POSITIONS {
                some::<V, 1>(t, first);
                first += 1;
            } else {
                some::<V, POSITIONS>(t, first.min(t.positions - POSITIONS));
                first += POSITIONS;
            }
        }
    }
}

#[inline(always)]
unsafe fn some<V: Vector, const P: usize>(t: &BesideArgs<V::Lane>, first: usize) {
    let mut channel = 0;
    // SAFETY: the caller's contract.
    unsafe {
        while channel + REGISTERS * V::LANES <= t.channels {
            block::<V, P, REGISTERS>(t, first, channel);
            channel += REGISTERS * V::LANES;
        }
        while channel < t.channels {
            block::<V, P, 1>(t, first, channel.min(t.channels - V::LANES));
            channel += V::LANES;
        }
    }
}

#[inline(always)]
unsafe fn block<V: Vector, const P: usize, const N: usize>(
    t: &BesideArgs<V::Lane>,
    first: usize,
    channel: usize,
) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut sums = [[V::zero(); N]; P];
        for term in 0..t.terms {
            let from = t.weights.add(term * t.channels + channel);
            let mut weights = [V::zero(); N];
            for (n, weight) in weights.iter_mut().enumerate() {
                *weight = V::load(from.add(n * V::LANES));
            }
            for (p, sums) in sums.iter_mut().enumerate() {
                let p = first + p;
                let x = (*t.table.add(p * t.entries + term))
                    .offset(p as isize * t.step)
                    .add(channel);
                for (n, sum) in sums.iter_mut().enumerate() {
                    *sum = sum.mul_add(weights[n], V::load(x.add(n * V::LANES)));
                }
            }
        }
        for (p, sums) in sums.iter().enumerate() {
            let to = t.out.offset((first + p) as isize * t.out_position).add(channel);
            for (n, sum) in sums.iter().enumerate() {
                sum.store(to.add(n * V::LANES));
            }
        }
    }
}
