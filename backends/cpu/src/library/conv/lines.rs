//! Micro-kernels on lines: sums over taps for a register of some lines of the result.

use super::code::lines as code;
use crate::isa::Isa;
use crate::library::gemm::Vector;
use crate::library::gemm::code::Sum;

/// Most rows of taps that share what they load.
pub(super) const MOST_ROWS: usize = 7;
/// Most lines of a kernel.
pub(super) const HIGHEST: usize = 32;

/// `out[i * out_line + j] = sum over c and r of weights[c * rows + r] * x[offsets[c] + (i + r) * x_line + j]` for the lanes j of a
/// register, lines i below `high`, and lines i + r of x that exist.
#[repr(C)]
pub(super) struct LinesArgs<S> {
    /// What offset 0 meets at line 0.
    pub(super) x: *const S,
    pub(super) x_line: usize,
    /// Columns of `rows` taps, at least one.
    pub(super) columns: usize,
    pub(super) offsets: *const u32,
    pub(super) weights: *const S,
    pub(super) out: *mut S,
    pub(super) out_line: isize,
    /// Lines of x that do not exist, from the first one and from the last one on, both below `rows`.
    pub(super) above: usize,
    pub(super) below: usize,
    /// Lines and rows of taps; kernels of one number do not read them.
    pub(super) high: usize,
    pub(super) rows: usize,
}

pub(super) type LinesFn<S> = unsafe extern "C" fn(&LinesArgs<S>);

/// Kernels whose registers have the same lanes.
#[derive(Clone, Copy)]
pub(super) struct Lines<S: 'static> {
    pub(super) lanes: usize,
    pub(super) compiled: LinesFn<S>,
    /// Sums and instruction set of machine code, if there is any.
    pub(super) code: Option<(Sum, Isa)>,
}

impl<S> Lines<S> {
    /// Whether the system lets machine code run, where it is wanted.
    pub(super) fn is_written(&self, rows: usize) -> bool {
        self.code
            .is_none_or(|of| code::kernels::<S>(of, self.lanes, rows).is_some())
    }

    /// The kernel that makes `high` lines of `rows` rows of taps in the fewest calls, and the lines of each.
    pub(super) fn kernel(&self, rows: usize, high: usize) -> (usize, LinesFn<S>) {
        let written = self.code.and_then(|of| code::kernels::<S>(of, self.lanes, rows));
        let most = written.map_or(HIGHEST, <[_]>::len);
        let taken = high.div_ceil(high.div_ceil(most));
        (taken, written.map_or(self.compiled, |kernels| kernels[taken - 1]))
    }
}

/// A kernel of the compiler, for any lines and taps.
///
/// # Safety
/// At every offset the lines that exist have a register, there is room for one in each line of the result, and the instruction set
/// exists.
#[inline(always)]
pub(super) unsafe fn lines<V: Vector>(t: &LinesArgs<V::Lane>) {
    let exist = t.above..t.high + t.rows - 1 - t.below;
    // SAFETY: the caller's contract.
    unsafe {
        for i in 0..t.high {
            let mut sum = V::zero();
            for column in 0..t.columns {
                let x = t.x.add(*t.offsets.add(column) as usize);
                for row in (0..t.rows).filter(|row| exist.contains(&(i + row))) {
                    let weight = V::splat(t.weights.add(column * t.rows + row));
                    sum = sum.mul_add(weight, V::load(x.add((i + row) * t.x_line)));
                }
            }
            sum.store(t.out.offset(i as isize * t.out_line));
        }
    }
}
