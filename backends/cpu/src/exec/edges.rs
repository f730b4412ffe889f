//! Windows whose neighbours lie next to each other, as those of images with their channels last: each place of a window is a line of
//! elements, and a line of padding where it is outside of the input. Nothing is copied.

use super::columns;
use super::frame::Frame;
use super::launch::{Launch, SPLIT};
use super::plan::{Along, Phase, Plan, Step};
use super::program::{Arg, Args, Program};
use super::reads::Read;
use super::space::{MAX_AXES, Space, full_strides};
use crate::loops::{CHUNK, LineFn};
use crate::parallel::Parallel;
use smallvec::SmallVec;
use std::ops::Range;

/// Neighbours from which on a line is worth its addresses.
const LEAST: u64 = 8;

/// What is outside of an input along its padded axes.
pub(super) struct Edges {
    axes: SmallVec<[EdgeAxis; 4]>,
    /// As long as a line.
    padding: Vec<f32>,
}

/// A padded axis of an input.
struct EdgeAxis {
    /// Of each axis of the lanes.
    coefficients: SmallVec<[i64; 8]>,
    offset: i64,
    /// What each place of a window adds, and the least and the most of that.
    places: SmallVec<[i64; 32]>,
    span: Range<i64>,
    inside: Range<i64>,
}

/// The parameter of a phase that does nothing but reduce its elements, and where the results go.
fn bare(plan: &Plan, phase: &Phase) -> Option<(usize, LineFn, super::plan::Value)> {
    let [Step::Load { param, out, .. }, Step::Reduce { reduce, arg }] = phase.element[..] else {
        return None;
    };
    let reduce = &plan.reduces[reduce as usize];
    let lines = reduce.loops.lines().filter(|_| out == arg)?;
    Some((param as usize, lines, reduce.result))
}

/// Whether a parameter has lines of neighbours, and few for each of them.
fn fits(launch: &Launch<'_>, p: usize) -> bool {
    let last = launch.lanes.rank - 1;
    launch.sheets.list.is_empty()
        && launch.lanes.of(p)[last] == 1
        && launch.lanes.extents[last] >= LEAST
        && (1..=CHUNK as u64).contains(&launch.other.total)
}

impl Edges {
    fn of(read: &Read, launch: &Launch<'_>) -> Edges {
        let (lanes, other) = (&launch.lanes, &launch.other);
        let axis = |axis: &super::reads::ReadAxis| {
            let (mut coefficients, mut inner) = (SmallVec::from_elem(0, lanes.rank), [0; MAX_AXES]);
            for (k, &coefficient) in axis.at.coefficients.iter().enumerate() {
                if let Some(place) = lanes.find(k as u32) {
                    coefficients[place] = coefficient;
                } else if let Some(place) = other.find(k as u32) {
                    inner[place] = coefficient;
                }
            }
            let mut index = [0; MAX_AXES];
            let places: SmallVec<[i64; 32]> = (0..other.total)
                .map(|_| {
                    let terms = inner.iter().zip(&index).take(other.rank);
                    let place = terms.map(|(&coefficient, &at)| coefficient * at as i64).sum();
                    other.advance(&mut index);
                    place
                })
                .collect();
            let (least, most) = (places.iter().min(), places.iter().max());
            EdgeAxis {
                coefficients,
                offset: axis.at.offset,
                span: least.copied().unwrap_or(0)..most.copied().unwrap_or(0),
                places,
                inside: axis.inside.clone(),
            }
        };
        let line = lanes.extents[lanes.rank - 1].min(launch.block as u64) as usize;
        Edges {
            axes: read.axes.iter().map(axis).collect(),
            padding: vec![f32::from_bits(read.bits as u32); line],
        }
    }

    /// Replaces the lines of a window that are outside; `index` is that of its lanes.
    fn pad(&self, index: &[u64; MAX_AXES], lines: &mut [*const f32]) {
        for axis in &self.axes {
            let terms = axis.coefficients.iter().zip(index);
            let at = terms.fold(axis.offset, |sum, (&coefficient, &at)| {
                sum + coefficient * at as i64
            });
            if axis.inside.contains(&(at + axis.span.start)) && axis.inside.contains(&(at + axis.span.end)) {
                continue;
            }
            for (line, place) in lines.iter_mut().zip(&axis.places) {
                if !axis.inside.contains(&(at + place)) {
                    *line = self.padding.as_ptr();
                }
            }
        }
    }
}

impl Program {
    /// Runs a launch whose parameter `read` has padding around it, which is a kernel of windows; whether it did. The strides of the
    /// parameter are those of the memory beside the windows.
    ///
    /// # Safety
    /// As [`Program::run`]; what is outside of the parameter is not read.
    pub(super) unsafe fn run_edges(
        &self,
        args: &Args<'_>,
        (read, strides): (&Read, &[i64]),
        parallel: &dyn Parallel,
    ) -> bool {
        let ([compiled], outer) = (&self.parts[..], self.kernel.outer as usize) else {
            return false;
        };
        let rank = args.extents.len();
        if read.rank(&self.kernel) != rank || self.pinned != 0 {
            return false;
        }
        let (mut own, mut first): (SmallVec<[i64; 16]>, i64) = (strides.into(), 0);
        let mut windows = 0_u32;
        let gather = args.args[read.param].gather_stride;
        for axis in &read.axes {
            let step = axis.stride.wrapping_mul(gather);
            first = first.wrapping_add(axis.at.offset.wrapping_mul(step));
            for (k, &coefficient) in axis.at.coefficients.iter().enumerate() {
                own[k] = own[k].wrapping_add(coefficient.wrapping_mul(step));
                windows |= u32::from(coefficient != 0) << k;
            }
        }
        let size = usize::from(self.sizes[read.param]);
        let mut shifted: SmallVec<[Arg<'_>; 8]> = args.args.into();
        let arg = &mut shifted[read.param];
        arg.ptr = arg
            .ptr
            .wrapping_offset((first as isize).wrapping_mul(size as isize));
        arg.strides = &own;
        let args = Args {
            args: &shifted,
            ..*args
        };
        let full = full_strides(&self.kernel, &args);
        let strides = (&full[..], self.kernel.params.len());
        let lanes = Space::new(args.extents, 0..outer, strides, windows, Some(&self.priority));
        let other = Space::new(args.extents, outer..rank, strides, windows, None);
        let length = other.total;
        let mut launch = self.prepare(compiled, Along::Outer, &args, lanes, other, length);
        let [phase] = &launch.plan.phases[..] else {
            return false;
        };
        let of_windows = |axis: u8| axis < 32 && windows >> axis & 1 == 1;
        if of_windows(launch.lanes.axes[launch.lanes.rank - 1]) {
            return false;
        }
        match bare(launch.plan, phase) {
            Some((p, ..)) if p == read.param && fits(&launch, p) => {}
            _ => return false,
        }
        launch.edges = Some(Edges::of(read, &launch));
        let threads = match self.cost(args.extents) < SPLIT {
            true => 1,
            false => parallel.threads(),
        };
        columns::run(&launch, threads, parallel);
        true
    }
}

impl Frame<'_> {
    /// Whether a phase of a block of `n` lanes was computed line by line, results included.
    pub(super) fn lines(&mut self, phase: &Phase, n: usize) -> bool {
        let launch = self.launch;
        let Some((p, fold, result)) = bare(self.plan, phase).filter(|&(p, ..)| fits(launch, p)) else {
            return false;
        };
        let (lanes, other) = (&launch.lanes, &launch.other);
        // Rows at equal distances have loops of their own.
        if launch.edges.is_none() && other.rank == 1 {
            return false;
        }
        let mut index = [0; MAX_AXES];
        let places: SmallVec<[isize; 32]> = (0..other.total)
            .map(|_| {
                let place = other.offset(p, &index) as isize;
                other.advance(&mut index);
                place
            })
            .collect();
        let to = self.value(result).cast::<f32>();
        let start = launch.args.args[p].ptr.cast::<f32>().cast_const();
        let mut lines: SmallVec<[*const f32; 32]> = SmallVec::from_elem(std::ptr::null(), places.len());
        let last = lanes.rank - 1;
        let (mut index, mut done) = (self.start, 0);
        while done < n {
            let length = ((lanes.extents[last] - index[last]) as usize).min(n - done);
            let from = start.wrapping_offset(lanes.offset(p, &index) as isize);
            for (line, &place) in lines.iter_mut().zip(&places) {
                *line = from.wrapping_offset(place);
            }
            if let Some(edges) = &launch.edges {
                edges.pad(&index, &mut lines);
            }
            // SAFETY: the caller of the launch vouches for the elements that are not outside; the result has room for the block.
            unsafe { fold(length, to.add(done), lines.as_ptr(), lines.len()) };
            done += length;
            index[last] = lanes.extents[last] - 1;
            lanes.advance(&mut index);
        }
        true
    }
}
