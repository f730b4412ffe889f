//! Micro-kernels on an operand whose channels are neighbours: it is read where it lies, and places of the padding read zeros instead.
//!
//! The products of a tile are cut into steps, one tap for some channels. XNNPACK has a table of addresses for each place and tap
//! (Dukhan, "The Indirect Convolution Algorithm", 2019). Here a place has an address and a bit for each tap.

use crate::library::gemm::Vector;

/// Most places of a tile.
pub(super) const PLACES: usize = 6;
/// Most taps: each has a bit of a place.
pub(super) const TAPS: usize = u64::BITS as usize;
/// Most channels of a step.
pub(super) const TOGETHER: usize = 64;

/// A position of the result.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Place<S> {
    /// The element that a tap at distance zero meets; it need not exist.
    pub(super) at: *const S,
    /// The bits of the taps that meet an element.
    pub(super) meets: u64,
    /// Bytes from the first sum of all to those of the place.
    pub(super) out: isize,
}

/// One tap for some channels.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Step {
    /// Bytes from a place to the end of the channels that the tap meets there.
    pub(super) end: isize,
    /// The tap's bit.
    pub(super) bit: usize,
    /// Bytes from the end of the channels to their begin, at most those of [`TOGETHER`] channels.
    pub(super) back: isize,
    /// Bytes of the channels' weights in one panel of rows.
    pub(super) weights: isize,
}

/// `out[i, j] (+)= sum over steps and their channels of weights[channel, j] * place i's element`; steps whose bit `meets` lacks are left out.
#[repr(C)]
pub(super) struct StepArgs<S> {
    /// Goes on with the sums in `out`.
    pub(super) accumulate: bool,
    /// Places; kernels of one number do not read it.
    pub(super) count: usize,
    pub(super) places: *const Place<S>,
    /// At least the bits of steps that any place meets.
    pub(super) meets: u64,
    /// At least one step, and the end of all.
    pub(super) steps: *const Step,
    pub(super) last: *const Step,
    /// The end of [`TOGETHER`] zeros.
    pub(super) zeros: *const S,
    pub(super) weights: *const S,
    /// Bytes from the weights of one panel of rows to those of the next one. Kernels of one panel do not read it.
    pub(super) next_panel: isize,
    /// What the places count their sums from.
    pub(super) out: *mut S,
    /// [`ASKED`] lines that are asked for, to be written, with each step, and bytes to those of the next step. They need not exist.
    pub(super) asked: *mut S,
    pub(super) asked_step: isize,
    /// Weights that are asked for while sums are computed, or null.
    pub(super) later: *const u8,
}

pub(super) type StepFn<S> = unsafe extern "C" fn(&mut StepArgs<S>);

/// Lines that a kernel asks for with each step.
pub(super) const ASKED: usize = 4;
/// Bytes of later weights that a kernel asks for, for each channel of its steps.
pub(super) const LATER: usize = 32;

/// A kernel of the compiler, for any count: where there is no machine code of our own.
#[inline(always)]
pub(super) unsafe fn steps<V: Vector, const NV: usize>(t: &mut StepArgs<V::Lane>) {
    for i in 0..t.count {
        // SAFETY: the caller vouches for the places, the steps, weights and sums of each, and the instruction set.
        unsafe {
            let place = &*t.places.add(i);
            let out = t.out.byte_offset(place.out);
            let mut sums = [V::zero(); NV];
            if t.accumulate {
                for (j, sum) in sums.iter_mut().enumerate() {
                    *sum = V::load(out.add(j * V::LANES));
                }
            }
            let (mut weights, mut step) = (t.weights, t.steps);
            while step != t.last {
                let Step {
                    end,
                    bit,
                    back,
                    weights: bytes,
                } = *step;
                if t.meets >> bit & 1 == 0 {
                    (step, weights) = (step.add(1), weights.byte_offset(bytes));
                    continue;
                }
                let end = match place.meets >> bit & 1 {
                    0 => t.zeros,
                    _ => place.at.wrapping_byte_offset(end),
                };
                let mut x = end.byte_offset(back);
                while x != end {
                    let factor = V::splat(x);
                    for (j, sum) in sums.iter_mut().enumerate() {
                        *sum = sum.mul_add(factor, V::load(weights.add(j * V::LANES)));
                    }
                    (x, weights) = (x.add(1), weights.add(NV * V::LANES));
                }
                step = step.add(1);
            }
            for (j, sum) in sums.iter().enumerate() {
                sum.store(out.add(j * V::LANES));
            }
        }
    }
}
