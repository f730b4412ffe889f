//! Micro-kernels on lines: sums over the taps of one channel for some lines of the result.

use crate::library::gemm::Vector;

/// `out[i * out_line + j] = sum over l of weights[l] * x[offsets[l] + i * x_line + j]` for `count` positions of each line.
#[repr(C)]
pub(super) struct LinesArgs<S> {
    /// What offset 0 meets at position 0 of line 0.
    pub(super) x: *const S,
    pub(super) x_line: isize,
    pub(super) taps: usize,
    pub(super) offsets: *const u32,
    pub(super) weights: *const S,
    pub(super) out: *mut S,
    pub(super) out_line: isize,
    pub(super) count: usize,
}

pub(super) type LinesFn<S> = unsafe fn(&LinesArgs<S>);

/// A kernel for one line, and one for as many lines as it says.
pub(super) type LinesSet<S> = (LinesFn<S>, (usize, LinesFn<S>));

/// Kernels whose registers have the same lanes.
#[derive(Clone, Copy)]
pub(super) struct Lines<S: 'static> {
    pub(super) lanes: usize,
    /// For any taps.
    pub(super) any: LinesSet<S>,
    /// For three rows of three taps, each row `x_line` behind the last one.
    pub(super) three: LinesSet<S>,
}

/// Calls `sums` for each register of a line and stores what it yields.
///
/// # Safety
/// As a [`LinesFn`].
#[inline(always)]
unsafe fn walk<V: Vector, const H: usize>(t: &LinesArgs<V::Lane>, sums: impl Fn(usize) -> [V; H]) {
    let mut next = 0;
    while next < t.count {
        // The last register begins earlier where it would not fit: what it computes again has the same bits.
        let at = if t.count >= V::LANES {
            next.min(t.count - V::LANES)
        } else {
            0
        };
        // SAFETY: the caller vouches for `count` elements of each line of the result.
        unsafe {
            for (i, sum) in sums(at).into_iter().enumerate() {
                let to = t.out.offset(i as isize * t.out_line + at as isize);
                if t.count >= V::LANES {
                    sum.store(to);
                } else {
                    let mut lanes = [*t.weights; 16];
                    sum.store(lanes.as_mut_ptr());
                    to.copy_from_nonoverlapping(lanes.as_ptr(), t.count);
                }
            }
        }
        next = at + V::LANES;
    }
}

/// Any taps.
///
/// # Safety
/// Every line has the positions at every offset, and a register behind its last one; there is a tap; the instruction set exists.
#[inline(always)]
pub(super) unsafe fn any<V: Vector, const H: usize>(t: &LinesArgs<V::Lane>) {
    // SAFETY: the caller's contract.
    unsafe {
        walk::<V, H>(t, |at| {
            let mut sums = [V::zero(); H];
            for tap in 0..t.taps {
                let (weight, x) = (
                    V::splat(t.weights.add(tap)),
                    t.x.add(*t.offsets.add(tap) as usize + at),
                );
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum = sum.mul_add(weight, V::load(x.offset(i as isize * t.x_line)));
                }
            }
            sums
        });
    }
}

/// Three rows of three taps: a line of x is loaded once for all the lines of the result that it meets.
///
/// # Safety
/// As [`any`]; there are nine taps, and three rows of them follow one another as lines do.
#[inline(always)]
pub(super) unsafe fn three<V: Vector, const H: usize>(t: &LinesArgs<V::Lane>) {
    let mut weights = [[t.weights; 3]; 3];
    for (tap, weight) in weights.iter_mut().flatten().enumerate() {
        *weight = weight.wrapping_add(tap);
    }
    // SAFETY: the caller's contract.
    unsafe {
        let weights = weights.map(|row| row.map(|weight| V::splat(weight)));
        walk::<V, H>(t, |at| {
            let mut sums = [V::zero(); H];
            for line in 0..H + 2 {
                for column in 0..3 {
                    let x = t.x.add(*t.offsets.add(column) as usize + at);
                    let x = V::load(x.offset(line as isize * t.x_line));
                    for (row, weights) in weights.iter().enumerate() {
                        if (row..row + H).contains(&line) {
                            sums[line - row] = sums[line - row].mul_add(weights[column], x);
                        }
                    }
                }
            }
            sums
        });
    }
}
