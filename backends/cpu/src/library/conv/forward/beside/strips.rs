//! Strips of a line: an element is loaded once for all positions of the strip that meet it.

use super::{Plan, inside, place, zeros};
use crate::library::conv::beside::{MOST_COLUMNS, MOST_ROWS, MOST_STEP, STRIP, StripArgs, Strips, Window};
use crate::library::conv::forward::{Job, target_of};
use crate::library::conv::geometry::{AXES, Block, Pass, distance};
use crate::library::conv::words::ConvKernels;
use crate::library::gemm::{Stored, piece};
use std::ops::Range;

/// Most columns of elements that a strip meets.
const MOST_MET: usize = (STRIP - 1) * MOST_STEP + MOST_COLUMNS;
/// Positions of a line that are cut evenly, whatever they meet. In longer ones those that meet padding are apart.
const SHORT: usize = 2 * STRIP;

/// How strips are computed.
pub(super) struct Sliding<S: 'static> {
    kernels: Strips<S>,
    window: Window,
    /// Of a register.
    lanes: usize,
    /// From the element that a position of distance 0 would meet to what the first column meets.
    first: isize,
}

/// What strips of a line meet.
struct Line<'a, T: Stored> {
    job: &'a Job<'a, T>,
    /// The line's first element of each row in use.
    rows: &'a [Option<*const T::Acc>],
    /// Elements of the line that exist.
    there: Range<isize>,
    /// Where the line is in the result.
    out: *mut T::Acc,
    weights: *const T::Acc,
    outside: *const T::Acc,
}

impl<S> Sliding<S> {
    /// Where taps are a window of neighbours, `rows` of them in a column, and there is code for it.
    pub(super) fn new<T: Stored<Acc = S>>(
        kernels: &ConvKernels<T>,
        pass: &Pass,
        rows: usize,
    ) -> Option<Sliding<S>> {
        let [deep, high, axis] = &pass.axes;
        let columns = axis.taps.len();
        let of = |tap: usize| distance(axis, tap);
        let follow = (1..columns).all(|tap| of(tap) == of(tap - 1) + 1);
        let window = Window {
            columns,
            rows: high.taps.len(),
            step: axis.step,
            by_rows: rows == 1,
        };
        let suits = follow && columns > 0 && deep.taps.len() == 1 && (rows == 1 || rows == window.rows);
        Some(Sliding {
            kernels: suits.then(|| kernels.tiles.beside.strips(window)).flatten()?,
            window,
            lanes: kernels.tiles.beside.lanes,
            first: of(0),
        })
    }

    /// A block of the result.
    ///
    /// # Safety
    /// As [`super::run`]; `packed` has the weights in registers of channels.
    pub(super) unsafe fn task<T: Stored<Acc = S>>(
        &self,
        job: &Job<'_, T>,
        plan: &Plan<S>,
        packed: *const S,
        sample: usize,
        block: &Block,
    ) {
        let (pass, channels, x) = (job.pass, job.sizes.groups, &job.gathered);
        let [deep, high, wide] = block.size;
        let zeros = zeros::<T>(channels, 0);
        let inside = inside(pass, block);
        let x_at: *const S = x.at(sample, 0).cast();
        let (target, strides): (*mut S, _) = (target_of(job, 0, sample, block).cast(), job.target.spatial);
        let first = block.at[2] as isize * self.window.step as isize + self.first;
        let there = -first..pass.axes[2].extent as isize - first;
        for (i, j) in (0..deep).flat_map(|i| (0..high).map(move |j| (i, j))) {
            let plane = place(pass, 0, block.at[0] + i, plan.taps[0][0]);
            let of_row = |taps: &[_; AXES]| {
                let line = place(pass, 1, block.at[1] + j, taps[1])?;
                let at = line * x.spatial[1] + plane? * x.spatial[0] + first * x.spatial[2];
                Some(x_at.wrapping_offset(at))
            };
            let mut rows = [None; MOST_ROWS];
            let rows = &mut rows[..self.window.rows];
            let each = if self.window.by_rows {
                self.window.columns
            } else {
                1
            };
            (rows.iter_mut().zip(plan.taps.iter().step_by(each))).for_each(|(row, taps)| *row = of_row(taps));
            let used = match plan.skips && plane.is_some() {
                true => {
                    let exist = rows.iter().position(Option::is_some).unwrap_or(0);
                    exist..rows.iter().rposition(Option::is_some).map_or(1, |last| last + 1)
                }
                false => 0..rows.len(),
            };
            let at = i as isize * strides[0] + j as isize * strides[1];
            let line = Line {
                job,
                rows: &rows[used.clone()],
                there: there.clone(),
                out: target.wrapping_offset(at),
                weights: packed.wrapping_add(used.start * self.lanes),
                outside: zeros.start().cast(),
            };
            let alike = line.rows.iter().all(Option::is_some);
            // SAFETY: the positions are those of the block.
            unsafe {
                if wide <= SHORT || !alike {
                    self.each(&line, 0..wide);
                    continue;
                }
                self.each(&line, 0..inside.start);
                let strips = inside.len().div_ceil(STRIP).max(1);
                let (len, more) = (inside.len() / strips, inside.len() % strips);
                let middle = inside.start + more * (len + 1);
                self.strips(&line, inside.start, len + 1, more);
                self.strips(&line, middle, len, strips - more);
                self.each(&line, inside.end..wide);
            }
        }
    }

    /// Positions whatever they meet.
    unsafe fn each<T: Stored<Acc = S>>(&self, line: &Line<'_, T>, positions: Range<usize>) {
        let strips = positions.len().div_ceil(STRIP);
        for strip in 0..strips {
            let some = piece(positions.len(), strips, strip);
            // SAFETY: the caller's contract.
            unsafe { self.strips(line, positions.start + some.start, some.len(), 1) };
        }
    }

    /// `count` strips of `len` positions; where there are several, all that they meet exists.
    unsafe fn strips<T: Stored<Acc = S>>(&self, line: &Line<'_, T>, at: usize, len: usize, count: usize) {
        if count == 0 || len == 0 {
            return;
        }
        let Window { columns, step, .. } = self.window;
        let (x, size) = (&line.job.gathered, size_of::<S>() as isize);
        let mut table = [line.outside; MOST_MET * MOST_ROWS];
        let met = (len - 1) * step + columns;
        for (i, entries) in table.chunks_mut(line.rows.len()).take(met).enumerate() {
            let element = (at * step + i) as isize;
            if line.there.contains(&element) {
                for (entry, row) in entries.iter_mut().zip(line.rows) {
                    *entry = row.map_or(line.outside, |row| row.wrapping_offset(element * x.spatial[2]));
                }
            }
        }
        let out = line.job.target.spatial[2];
        let args = StripArgs {
            table: table.as_ptr(),
            weights: line.weights,
            out: line.out.wrapping_offset(at as isize * out),
            out_step: out * size,
            channels: line.job.sizes.groups * size_of::<S>(),
            strips: count,
            next: (len * step) as isize * x.spatial[2] * size,
            next_out: len as isize * out * size,
        };
        // SAFETY: the table has what exists, or zeros; positions of the block are in the result.
        unsafe { (self.kernels[line.rows.len() - 1][len - 1])(&args) };
    }
}
