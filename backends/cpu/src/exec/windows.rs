//! Windows along lines whose greatest or least elements are found in two passes, as those of images with their channels first: over
//! the rows of all windows of a line, and over the places of each along the row. Padding is left out of the first, not copied.

use super::edges::{EdgeAxis, Places, places};
use super::frame::{Frame, Lanes};
use super::launch::Launch;
use super::plan::{Home, Phase, Step, Value};
use super::reads::Read;
use super::space::MAX_AXES;
use crate::loops::{CHUNK, LONG, Lines, Reduction, SLACK, WindowsFn};
use smallvec::SmallVec;
use std::ops::Range;

/// Windows of a block of whole lines, in launches of that many blocks.
const BLOCK: u64 = 4 << 10;
const BLOCKS: u64 = 64;

/// Elements of a vector. In scratch, the places that memory has begin at a whole number of them.
const ALIGN: usize = 16;

/// Most elements between the first and the last place of a window along a row.
const REACH: i64 = 64;

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
        let fits = launch.block >= REACH as usize + SLACK + ALIGN;
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

    /// The places of a line that are inside, of `span`, if its first one is at `at` along the lines.
    fn inside(&self, at: i64, span: usize) -> Range<usize> {
        let inside = &self.along.inside;
        let place = |end: i64| end.saturating_sub(at).clamp(0, span as i64) as usize;
        place(inside.start)..place(inside.end).max(place(inside.start))
    }

    /// Puts the rows that are inside first, and returns how many these are. The first row is at `ats` along the axes of the rows.
    fn keep(&self, ats: &[i64], rows: &mut [*const f32]) -> usize {
        let mut whole = true;
        for (axis, &at) in self.across.iter().zip(ats) {
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

/// Where a line's first window lies, and its place along the padded axes.
struct First {
    from: *const f32,
    along: i64,
    across: SmallVec<[i64; 4]>,
}

impl First {
    fn new(launch: &Launch<'_>, windows: &Windows, index: &[u64; MAX_AXES]) -> First {
        let (lanes, p) = (&launch.lanes, windows.param);
        let start = launch.args.args[p].ptr.cast::<f32>().cast_const();
        let sides = windows.edges.as_ref();
        First {
            from: start.wrapping_offset(lanes.offset(p, index) as isize),
            along: sides.map_or(0, |sides| sides.along.at(index)),
            across: sides.map_or(SmallVec::new(), |sides| {
                sides.across.iter().map(|axis| axis.at(index)).collect()
            }),
        }
    }

    /// How many lines along `axis` see the same rows of padding and places along the line, if so many as `most` are there.
    fn alike(&self, sides: &Sides, axis: usize, most: u64) -> u64 {
        if sides.along.step(axis) != 0 {
            return 1;
        }
        let ends = sides.across.iter().zip(&self.across);
        ends.fold(most, |most, (of, &at)| most.min(of.whole(at, axis)).max(1))
    }
}

impl Launch<'_> {
    /// Takes windows line by line, in blocks of whole lines where several fit.
    pub(super) fn walk(&mut self, windows: Windows) {
        let line = self.lanes.extents[self.lanes.rank - 1];
        let block = BLOCK.min(self.lanes.total / BLOCKS).max(self.block as u64);
        if line <= block {
            self.block = (block - block % line) as usize;
        }
        self.windows = Some(windows);
    }
}

impl Frame<'_> {
    /// Where the results of a block of `n` windows go: to the output itself, if that is all that follows.
    fn results(&mut self, result: Value, phase: &Phase, n: usize) -> *mut f32 {
        let Home::Slot(slot) = self.plan.homes[result as usize] else {
            return self.value(result).cast();
        };
        let mut to = self.slot(slot);
        if let [Step::Store { param, value }] = phase.row[..] {
            let p = param as usize;
            if value == result && !self.launch.held_back[p] && self.is_unit(p, Lanes::Block(n)) {
                // SAFETY: the table has every parameter.
                to = unsafe { *self.at.add(p) };
            }
        }
        self.point(result, to);
        to.cast()
    }

    /// Whether the windows of a block of `n` lanes were taken, results included.
    #[inline(never)]
    pub(super) fn windows(&mut self, phase: &Phase, n: usize) -> bool {
        let launch = self.launch;
        let Some(windows) = &launch.windows else {
            return false;
        };
        let (lanes, last) = (&launch.lanes, launch.lanes.rank - 1);
        let to = self.results(windows.result, phase, n);
        let scratch = self.state(windows.reduce).cast::<i32>();
        let reach = windows.columns.last().copied().unwrap_or(0);
        let mut rows: SmallVec<[*const f32; 32]> = SmallVec::from_elem(std::ptr::null(), windows.rows.len());
        let (mut index, mut done) = (self.start, 0);
        while done < n {
            let length = ((lanes.extents[last] - index[last]) as usize).min(n - done);
            let span = (length - 1) * windows.step + reach + 1;
            let first = First::new(launch, windows, &index);
            for (to, &row) in rows.iter_mut().zip(&windows.rows) {
                *to = first.from.wrapping_offset(row as isize);
            }
            // Whole lines that differ along one axis alone.
            let (mut alike, mut apart) = (1, 0);
            if last > 0 && length as u64 == lanes.extents[last] {
                let left = lanes.extents[last - 1] - index[last - 1];
                alike = left.min(((n - done) / length) as u64);
                apart = lanes.of(windows.param)[last - 1];
            }
            let (mut inside, mut padding, mut count) = (0..span, 0.0, rows.len());
            if let Some(sides) = &windows.edges {
                (inside, padding) = (sides.inside(first.along, span), sides.padding);
                alike = if last > 0 {
                    first.alike(sides, last - 1, alike)
                } else {
                    1
                };
                count = sides.keep(&first.across, &mut rows);
            }
            let start = (ALIGN - inside.start % ALIGN) % ALIGN;
            let lines = Lines {
                count: alike as usize,
                windows: length,
                rows: &rows[..count],
                apart: apart as isize,
                fresh: windows.step,
                columns: &windows.columns,
                step: windows.step,
                span,
                inside,
                padding,
                edge: count < rows.len(),
            };
            // SAFETY: the caller of the launch vouches for the elements inside. The result has room for the block, and the state for
            // four keys a lane.
            unsafe { (windows.take)(to.add(done), scratch.add(start), &lines) };
            done += lines.count * length;
            if last > 0 {
                index[last - 1] += alike - 1;
            }
            index[last] = lanes.extents[last] - 1;
            lanes.advance(&mut index);
        }
        true
    }
}
