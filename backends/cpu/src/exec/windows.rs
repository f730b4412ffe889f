//! Windows along lines whose greatest or least elements are found in two passes, as those of images with their channels first: over
//! the rows of all windows of a line, and over the places of each along the row. Padding is left out of the first, not copied.

use super::edges::{EdgeAxis, Places, places};
use super::frame::Frame;
use super::launch::Launch;
use super::plan::{Step, Value};
use super::reads::Read;
use super::space::MAX_AXES;
use crate::loops::{CHUNK, LONG, Line, Reduction, SLACK, WindowsFn};
use crate::prefetch::ask;
use smallvec::SmallVec;
use std::ops::Range;

/// Most elements between the first and the last place of a window along a row.
const REACH: i64 = 64;

/// Bytes from a row that is read to what is asked for.
const AHEAD: usize = 4 << 10;

/// The windows of a launch, all of whose only phase they are.
pub(super) struct Windows {
    take: WindowsFn,
    param: usize,
    reduce: usize,
    result: Value,
    /// Elements from a window to the next on a line.
    step: usize,
    /// Elements from a window's first row to each, and along a row to each place.
    rows: Places,
    columns: SmallVec<[usize; 8]>,
    edges: Option<Sides>,
}

/// What is outside of an input.
struct Sides {
    /// Along the lines.
    along: EdgeAxis,
    /// Of the rows.
    across: SmallVec<[EdgeAxis; 4]>,
    padding: f32,
}

impl Windows {
    /// Those of a launch, whose parameter is padded as `read` says; `None` where they are of another kind.
    pub(super) fn of(launch: &Launch<'_>, read: Option<&Read>) -> Option<Windows> {
        let (plan, lanes, other) = (launch.plan, &launch.lanes, &launch.other);
        let [phase] = &plan.phases[..] else { return None };
        let [Step::Load { param, out, .. }, Step::Reduce { reduce, arg }] = phase.element[..] else {
            return None;
        };
        let reduce = plan
            .reduces
            .get(reduce as usize)
            .filter(|_| out == arg)
            .map(|of| (reduce as usize, of))?;
        let Reduction::Best {
            windows: Some(take), ..
        } = reduce.1.loops
        else {
            return None;
        };
        let (p, last, inner) = (param as usize, lanes.rank - 1, other.rank - 1);
        let step = lanes.of(p)[last];
        let small = (1..=CHUNK as u64).contains(&other.total) && lanes.extents[last] >= LONG as u64;
        // The state has room for four keys a lane, and a block of whole lines is longer than half a block.
        let fits = launch.block >= REACH as usize + SLACK;
        if !small || !fits || !(1..=2).contains(&step) || !launch.sheets.list.is_empty() {
            return None;
        }
        let stride = other.of(p)[inner];
        let reach = stride.checked_mul(other.extents[inner] as i64 - 1)?;
        // The last axis of the others runs along the line, or none does.
        let cut = if (1..=REACH).contains(&reach) {
            inner
        } else {
            other.rank
        };
        let rows = 0..cut;
        let columns = places(&other.extents[cut..other.rank], &other.of(p)[cut..]);
        let edges = match read {
            Some(read) => Some(Sides::of(read, launch, (p, cut))?),
            // Rows of neighbours have other loops.
            None if step == 1 && columns.len() == 1 && (other.rank > 1 || launch.flat[p]) => return None,
            None => None,
        };
        Some(Windows {
            take,
            param: p,
            reduce: reduce.0,
            result: reduce.1.result,
            step: step as usize,
            rows: places(&other.extents[rows.clone()], &other.of(p)[rows]),
            columns: columns.into_iter().map(|place| place as usize).collect(),
            edges,
        })
    }
}

impl Sides {
    /// `cut`: the axis of the others from which on they run along the line.
    fn of(read: &Read, launch: &Launch<'_>, (p, cut): (usize, usize)) -> Option<Sides> {
        let (lanes, other) = (&launch.lanes, &launch.other);
        let last = lanes.rank - 1;
        let mut along = None;
        let mut across = SmallVec::new();
        for axis in &read.axes {
            let (steps, inner) = (axis.along(lanes), axis.along(other));
            let (rows, columns) = inner.split_at(cut);
            let none = |steps: &[i64]| steps.iter().all(|&step| step == 0);
            if steps[last] == 0 && none(columns) {
                across.push(EdgeAxis::of(axis, launch, 0..cut));
            } else if steps[last] == lanes.of(p)[last] && none(rows) && columns == &other.of(p)[cut..] {
                along = along.xor(Some(EdgeAxis::of(axis, launch, cut..other.rank)));
                along.as_ref()?;
            } else {
                return None;
            }
        }
        (read.param == p).then_some(Sides {
            along: along?,
            across,
            padding: f32::from_bits(read.bits as u32),
        })
    }

    /// The places of a line that are inside, of `span`.
    fn inside(&self, index: &[u64; MAX_AXES], span: usize) -> Range<usize> {
        let (at, inside) = (self.along.at(index), &self.along.inside);
        let place = |end: i64| end.saturating_sub(at).clamp(0, span as i64) as usize;
        place(inside.start)..place(inside.end).max(place(inside.start))
    }

    /// Puts the rows that are inside first, and returns how many these are.
    fn keep(&self, index: &[u64; MAX_AXES], rows: &mut [*const f32]) -> usize {
        let mut whole = true;
        for axis in &self.across {
            let at = axis.at(index);
            if !axis.is_whole(at) {
                axis.replace(at, rows, std::ptr::null());
                whole = false;
            }
        }
        if whole {
            return rows.len();
        }
        let mut count = 0;
        for i in 0..rows.len() {
            if !rows[i].is_null() {
                rows[count] = rows[i];
                count += 1;
            }
        }
        count
    }
}

impl Launch<'_> {
    /// Takes windows in two passes, in blocks of whole lines where several fit.
    pub(super) fn walk(&mut self, windows: Windows) {
        let line = self.lanes.extents[self.lanes.rank - 1];
        if line <= self.block as u64 {
            self.block -= self.block % line as usize;
        }
        self.windows = Some(windows);
    }
}

impl Frame<'_> {
    /// Whether the windows of a block of `n` lanes were taken, results included.
    #[inline(never)]
    pub(super) fn windows(&mut self, n: usize) -> bool {
        let launch = self.launch;
        let Some(windows) = &launch.windows else {
            return false;
        };
        let (lanes, last) = (&launch.lanes, launch.lanes.rank - 1);
        let to = self.value(windows.result).cast::<f32>();
        let scratch = self.state(windows.reduce).cast::<i32>();
        let start = launch.args.args[windows.param].ptr.cast::<f32>().cast_const();
        let reach = windows.columns.last().copied().unwrap_or(0);
        let mut rows: SmallVec<[*const f32; 32]> = SmallVec::from_elem(std::ptr::null(), windows.rows.len());
        let (mut index, mut done) = (self.start, 0);
        while done < n {
            let length = ((lanes.extents[last] - index[last]) as usize).min(n - done);
            let from = start.wrapping_offset(lanes.offset(windows.param, &index) as isize);
            for (to, &row) in rows.iter_mut().zip(&windows.rows) {
                *to = from.wrapping_offset(row as isize);
            }
            let span = (length - 1) * windows.step + reach + 1;
            let (mut inside, mut padding, mut count) = (0..span, 0.0, rows.len());
            if let Some(sides) = &windows.edges {
                (inside, padding) = (sides.inside(&index, span), sides.padding);
                count = sides.keep(&index, &mut rows);
            }
            let line = Line {
                rows: &rows[..count],
                columns: &windows.columns,
                step: windows.step,
                span,
                inside,
                padding,
                edge: count < rows.len(),
            };
            // The last rows are new to the cache, and lines of an image follow one another.
            for row in &rows[count.saturating_sub(windows.step)..count] {
                ask(row.cast::<u8>().wrapping_add(AHEAD), span * size_of::<f32>());
            }
            // SAFETY: the caller of the launch vouches for the elements inside. The result has room for the block, and the state for
            // the keys of a line.
            unsafe { (windows.take)(length, to.add(done), scratch, &line) };
            done += length;
            index[last] = lanes.extents[last] - 1;
            lanes.advance(&mut index);
        }
        true
    }
}
