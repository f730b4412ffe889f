//! Windows whose neighbours lie next to each other, as those of images with their channels last: each place of a window is a line of
//! elements, and a line of padding where it is outside of the input. Nothing is copied.

use super::columns;
use super::frame::Frame;
use super::launch::{Launch, SPLIT};
use super::plan::{Along, Phase, Plan, Step};
use super::program::{Arg, Args, Program};
use super::reads::{Read, ReadAxis};
use super::space::{MAX_AXES, Space, full_strides};
use super::windows::Windows;
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

pub(super) type Places = SmallVec<[i64; 32]>;

/// A padded axis of an input.
pub(super) struct EdgeAxis {
    /// Of each axis of the lanes.
    coefficients: SmallVec<[i64; 8]>,
    offset: i64,
    /// What each place of a window adds, and the least and the most of that.
    places: Places,
    span: Range<i64>,
    pub(super) inside: Range<i64>,
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

/// Elements from the first place of a space to each, in row-major order; no extent is 0.
pub(super) fn places(extents: &[u64], strides: &[i64]) -> Places {
    let mut places = Places::new();
    places.push(0);
    for (&extent, &stride) in extents.iter().zip(strides).rev() {
        let inner = places.len();
        for at in 1..extent as i64 {
            for i in 0..inner {
                places.push(places[i].wrapping_add(at.wrapping_mul(stride)));
            }
        }
    }
    places
}

impl EdgeAxis {
    /// What the axes `inner` of the other space add.
    pub(super) fn of(axis: &ReadAxis, launch: &Launch<'_>, inner: Range<usize>) -> EdgeAxis {
        let other = &launch.other;
        let strides = axis.along(other);
        let places = places(&other.extents[inner.clone()], &strides[inner]);
        let (least, most) = (places.iter().min(), places.iter().max());
        EdgeAxis {
            coefficients: axis.along(&launch.lanes),
            offset: axis.at.offset,
            span: least.copied().unwrap_or(0)..most.copied().unwrap_or(0),
            places,
            inside: axis.inside.clone(),
        }
    }

    /// The place of a window's first element.
    pub(super) fn at(&self, index: &[u64; MAX_AXES]) -> i64 {
        let terms = self.coefficients.iter().zip(index);
        terms.fold(self.offset, |sum, (&coefficient, &at)| {
            sum + coefficient * at as i64
        })
    }

    /// What a step along an axis of the lanes adds to that.
    pub(super) fn step(&self, axis: usize) -> i64 {
        self.coefficients[axis]
    }

    /// Whether all places of a window whose first one is at `at` are inside.
    pub(super) fn is_whole(&self, at: i64) -> bool {
        self.inside.contains(&(at + self.span.start)) && self.inside.contains(&(at + self.span.end))
    }

    /// How many windows along an axis of the lanes, from one whose first place is at `at` on, have all places inside.
    pub(super) fn whole(&self, at: i64, axis: usize) -> u64 {
        match (self.is_whole(at), self.step(axis)) {
            (false, _) => 0,
            (true, 0) => u64::MAX,
            (true, step) => ((self.inside.end - 1 - at - self.span.end) / step) as u64 + 1,
        }
    }

    /// Replaces what stands for the places of such a window that are outside.
    pub(super) fn replace<T: Copy>(&self, at: i64, of: &mut [T], outside: T) {
        for (of, place) in of.iter_mut().zip(&self.places) {
            if !self.inside.contains(&(at + place)) {
                *of = outside;
            }
        }
    }
}

impl Edges {
    fn of(read: &Read, launch: &Launch<'_>) -> Edges {
        let lanes = &launch.lanes;
        let line = lanes.extents[lanes.rank - 1].min(launch.block as u64) as usize;
        let axis = |axis| EdgeAxis::of(axis, launch, 0..launch.other.rank);
        Edges {
            axes: read.axes.iter().map(axis).collect(),
            padding: vec![f32::from_bits(read.bits as u32); line],
        }
    }

    /// Replaces the lines of a window that are outside; `index` is that of its lanes.
    fn pad(&self, index: &[u64; MAX_AXES], lines: &mut [*const f32]) {
        for axis in &self.axes {
            let at = axis.at(index);
            if !axis.is_whole(at) {
                axis.replace(at, lines, self.padding.as_ptr());
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
        if let Some(found) = Windows::of(&launch, Some(read)) {
            launch.walk(found);
        } else {
            let [phase] = &launch.plan.phases[..] else {
                return false;
            };
            let last = launch.lanes.axes[launch.lanes.rank - 1];
            match bare(launch.plan, phase) {
                Some((p, ..)) if p == read.param && fits(&launch, p) => {}
                _ => return false,
            }
            if last < 32 && windows >> last & 1 == 1 {
                return false;
            }
            launch.edges = Some(Edges::of(read, &launch));
        }
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
        let places = places(&other.extents[..other.rank], other.of(p));
        let to = self.value(result).cast::<f32>();
        let start = launch.args.args[p].ptr.cast::<f32>().cast_const();
        let mut lines: SmallVec<[*const f32; 32]> = SmallVec::from_elem(std::ptr::null(), places.len());
        let last = lanes.rank - 1;
        let (mut index, mut done) = (self.start, 0);
        while done < n {
            let length = ((lanes.extents[last] - index[last]) as usize).min(n - done);
            let from = start.wrapping_offset(lanes.offset(p, &index) as isize);
            for (line, &place) in lines.iter_mut().zip(&places) {
                *line = from.wrapping_offset(place as isize);
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
