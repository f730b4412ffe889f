//! Micro-kernel on channels that lie side by side, each convolved by itself.

use crate::library::gemm::Vector;

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
    /// A multiple of [`CHANNELS`].
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
    // SAFETY: the caller's contract. The last positions may be computed twice, with the same bits.
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
            block::<V, P, 1>(t, first, channel);
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
