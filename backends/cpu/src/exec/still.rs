//! Maps that gather whole lines: an index is one for each line.
//!
//! Indices are computed for many lines at once, in a space that has a point for each line. So a line is asked for while the one before
//! is worked on. Where a map does nothing but gather, lines are copied.

use super::asking;
use super::columns::Cut;
use super::frame::{Frame, Lanes};
use super::gathered::Gathered;
use super::launch::{FETCH, Launch};
use super::moves::Lookup;
use super::past;
use super::plan::{Home, Step, Value};
use super::slots::values;
use super::space::MAX_AXES;
use crate::parallel::Parallel;
use crate::prefetch::{self, LINE};
use smallvec::SmallVec;
use std::ops::Range;

/// Lines shorter than this are not worth a block each.
const SHORT_LINE: u64 = 32;
/// Lines whose indices are computed together.
const LINES: usize = 256;
/// Copies of at least this many bytes are written past the caches: such an output and what it is copied from are too much for the last
/// cache of most machines.
const FAR: u64 = 32 << 20;
/// Copies of fewer bytes stay on one thread.
const SPLIT_COPY: u64 = 256 << 10;
/// Bytes of a piece of a line, where there are more threads than lines.
const PIECE: u64 = 256 << 10;

/// A map that gathers lines.
pub(super) struct Still<'a> {
    /// The same launch with a point for each line.
    lines: Launch<'a>,
    /// Each gather, and the steps over lines that its index needs beside those of the gathers before.
    gathers: SmallVec<[(Vec<Step>, Gather); 2]>,
    /// What is left of the map, over a line.
    pub(super) steps: Vec<Step>,
    /// The output, where that is a copy.
    copy: Option<usize>,
    /// The same over a line as machine code.
    pub(super) code: Option<&'a Gathered>,
}

/// A gather of lines.
#[derive(Clone, Copy)]
struct Gather {
    param: usize,
    index: Value,
    out: Value,
    /// Whether the steps over a line compute the index, too.
    by_steps: bool,
}

/// The steps that compute `wanted` values; those of `steps` for which `ends` is true are wanted in any case. `wanted` gets what they
/// need. The index of a gather for which `is_line` is true is no need.
pub(super) fn needed(
    steps: &[Step],
    wanted: &mut [bool],
    is_line: impl Fn(&Step) -> bool,
    ends: impl Fn(&Step) -> bool,
) -> SmallVec<[bool; 32]> {
    let mut kept = SmallVec::from_elem(false, steps.len());
    for (at, step) in steps.iter().enumerate().rev() {
        kept[at] = ends(step);
        values(step, &[], |v, defines| kept[at] |= defines && wanted[v as usize]);
        if kept[at] && !is_line(step) {
            values(step, &[], |v, defines| wanted[v as usize] |= !defines);
        }
    }
    kept
}

impl<'a> Still<'a> {
    /// Of a launch; `None` where it gathers by no index that stays the same along lines.
    pub(super) fn of(launch: &Launch<'a>) -> Option<Still<'a>> {
        let (plan, lanes) = (launch.plan, &launch.lanes);
        let last = lanes.rank - 1;
        let gathers = |step: &Step| matches!(step, Step::LoadAt { single: false, .. });
        let lines = plan.phases.is_empty() && last > 0 && launch.tile.0 == 0;
        if !lines || !plan.row.iter().any(gathers) {
            return None;
        }
        let still = alike(
            launch,
            |param| lanes.of(param as usize)[last] == 0,
            |axis| lanes.find(axis) != Some(last),
        );
        let is_line = |step: &Step| match *step {
            Step::LoadAt {
                index, out, single, ..
            } => !single && still[index as usize] && !still[out as usize],
            _ => false,
        };
        let none: SmallVec<[bool; 32]> = SmallVec::from_elem(false, plan.homes.len());
        let mut by_steps = none.clone();
        let kept = needed(&plan.row, &mut by_steps, is_line, |step| {
            matches!(step, Step::Store { .. })
        });
        let mut steps = Vec::with_capacity(plan.row.len());
        let mut wanted = none;
        for (at, step) in plan.row.iter().enumerate().filter(|&(at, _)| kept[at]) {
            let mut step = *step;
            if is_line(&plan.row[at])
                && let Step::LoadAt { index, single, .. } = &mut step
            {
                *single = true;
                wanted[*index as usize] = true;
            }
            steps.push(step);
        }
        let over_lines = needed(&plan.row, &mut wanted, |_| false, |_| false);
        let mut all = SmallVec::<[(Vec<Step>, Gather); 2]>::new();
        let mut before = Vec::new();
        for (at, step) in plan.row.iter().enumerate() {
            match *step {
                Step::LoadAt {
                    param, index, out, ..
                } if kept[at] && is_line(step) => {
                    let gather = Gather {
                        param: param as usize,
                        index,
                        out,
                        by_steps: by_steps[index as usize],
                    };
                    all.push((std::mem::take(&mut before), gather));
                }
                _ if over_lines[at] && !matches!(step, Step::Aim { .. }) => before.push(*step),
                _ => {}
            }
        }
        let copy = copied(launch, &steps);
        if all.is_empty() || copy.is_none() && lanes.extents[last] < SHORT_LINE {
            return None;
        }
        let space = lanes.without_last();
        let lines = Launch::plain(
            plan,
            launch.args,
            launch.sizes,
            space,
            launch.other.clone(),
            LINES,
        );
        Some(Still {
            lines,
            gathers: all,
            steps,
            copy,
            code: None,
        })
    }

    /// The number of the gather that a value comes from.
    pub(super) fn gather_of(&self, value: Value) -> Option<usize> {
        self.gathers.iter().position(|(_, gather)| gather.out == value)
    }

    /// Whether it does more than to copy lines.
    pub(super) fn computes(&self) -> bool {
        self.copy.is_none()
    }

    /// Runs the launch that this is of.
    pub(super) fn run(&self, launch: &Launch<'_>, threads: usize, parallel: &dyn Parallel) {
        match self.copy {
            Some(to) => self.copies(launch, to, threads, parallel),
            None => self.maps(launch, threads, parallel),
        }
    }

    /// Computes the indices of `n` lines from `first` on, `LINES` for each gather.
    fn indices(&self, frame: &mut Frame<'_>, first: u64, n: usize, indices: &mut [i64]) {
        frame.start = self.lines.lanes.index(first);
        frame.point_at(&[0; MAX_AXES]);
        for ((steps, gather), to) in self.gathers.iter().zip(indices.chunks_exact_mut(LINES)) {
            frame.run(steps, Lanes::Block(n));
            let from = frame.value(gather.index).cast::<i64>().cast_const();
            // SAFETY: an index is a block of `n` numbers once its steps have run.
            unsafe { to.as_mut_ptr().copy_from_nonoverlapping(from, n) };
        }
    }

    fn lookup(&self, launch: &Launch<'_>, param: usize) -> Lookup {
        let arg = &launch.args.args[param];
        Lookup {
            size: usize::from(launch.sizes[param]),
            stride: 1,
            gather_stride: arg.gather_stride,
            gather_extent: arg.gather_extent,
        }
    }

    fn maps(&self, launch: &Launch<'_>, threads: usize, parallel: &dyn Parallel) {
        let cut = Cut::new(launch);
        launch.split(cut.units, threads, parallel, &|units| {
            let mut frame = Frame::new(launch);
            let mut over_lines = Frame::new(&self.lines);
            let mut indices: SmallVec<[i64; 2 * LINES]> = SmallVec::from_elem(0, self.gathers.len() * LINES);
            let mut known = 0..0;
            for unit in units.clone() {
                let line = cut.line(unit);
                if !known.contains(&line) {
                    known = line..(line + LINES as u64).min(cut.line(units.end - 1) + 1);
                    let n = (known.end - known.start) as usize;
                    self.indices(&mut over_lines, line, n, &mut indices);
                }
                let of = |line: u64| (line - known.start) as usize;
                if unit + 1 < units.end && known.contains(&cut.line(unit + 1)) {
                    self.ask(launch, cut.unit(unit + 1), &indices[of(cut.line(unit + 1))..]);
                }
                let (first, n) = cut.unit(unit);
                frame.start = launch.lanes.index(first);
                if let Some(code) = self.code {
                    let begin = |k: usize| {
                        let look = self.lookup(launch, self.gathers[k].1.param);
                        look.offset(indices[k * LINES + of(line)])
                    };
                    // SAFETY: the caller of the launch vouches for the parameters and scalars.
                    if unsafe { code.run(launch, &frame.start, n, begin) } {
                        continue;
                    }
                }
                for (k, (_, gather)) in self.gathers.iter().enumerate().filter(|(_, of)| !of.1.by_steps) {
                    frame.point(gather.index, (&raw mut indices[k * LINES + of(line)]).cast());
                }
                frame.block(n);
            }
            if launch.stream {
                past::fence();
            }
        });
    }

    /// Asks for what a block of lanes gathers; its indices are `LINES` apart.
    fn ask(&self, launch: &Launch<'_>, (first, n): (u64, usize), indices: &[i64]) {
        let at = launch.lanes.index(first);
        for ((_, gather), &index) in self.gathers.iter().zip(indices.iter().step_by(LINES)) {
            let look = self.lookup(launch, gather.param);
            let unit = launch.lanes.of(gather.param)[launch.lanes.rank - 1] == 1;
            if let Some(offset) = look.offset(index).filter(|_| unit && look.is_large()) {
                let start = launch.offset(gather.param, &at, &[0; MAX_AXES]);
                let from = launch.args.args[gather.param].ptr.wrapping_offset(start);
                prefetch::ask(from.wrapping_offset(offset), (n * look.size).min(asking::FIRST));
            }
        }
    }

    fn copies(&self, launch: &Launch<'_>, to: usize, threads: usize, parallel: &dyn Parallel) {
        let (lines, length) = (&self.lines.lanes, launch.lanes.extents[launch.lanes.rank - 1]);
        let size = u64::from(launch.sizes[to]);
        let bytes = launch.lanes.total.saturating_mul(size);
        let threads = if bytes < SPLIT_COPY { 1 } else { threads };
        // Pieces of lines where these are too few, one after the other of each.
        let few = threads > 1 && lines.total < 4 * threads as u64;
        let most = if few { (PIECE / size).min(length) } else { length };
        let pieces = length.div_ceil(most);
        launch.split(lines.total * pieces, threads, parallel, &|units| {
            let mut over_lines = Frame::new(&self.lines);
            let mut indices = [0; LINES];
            let mut unit = units.start;
            while unit < units.end {
                let (piece, line) = (unit / lines.total, unit % lines.total);
                let count = (units.end - unit).min(lines.total - line).min(LINES as u64);
                self.indices(&mut over_lines, line, count as usize, &mut indices);
                let columns = piece * most..length.min((piece + 1) * most);
                self.copy(
                    launch,
                    to,
                    line,
                    &indices[..count as usize],
                    columns,
                    bytes >= FAR,
                );
                unit += count;
            }
            if bytes >= FAR {
                past::fence();
            }
        });
    }

    /// Copies columns of lines from `first` on.
    fn copy(
        &self,
        launch: &Launch<'_>,
        to: usize,
        first: u64,
        indices: &[i64],
        columns: Range<u64>,
        far: bool,
    ) {
        let from = self.gathers[0].1.param;
        let (lines, look) = (&self.lines.lanes, self.lookup(launch, from));
        let last = lines.rank - 1;
        let bytes = (columns.end - columns.start) as usize * look.size;
        let step = |p: usize| lines.of(p)[last] as isize * look.size as isize;
        let (from_step, to_step) = (step(from), step(to));
        let ahead = asking::distance(bytes);
        let asks = look.is_large();
        let mut done = 0;
        while done < indices.len() {
            let at = lines.index(first + done as u64);
            let count = ((lines.extents[last] - at[last]) as usize).min(indices.len() - done);
            let start = |p: usize| {
                let elements = lines.offset(p, &at) + columns.start as i64;
                launch.args.args[p]
                    .ptr
                    .wrapping_offset(elements as isize * look.size as isize)
            };
            let (mut from, mut to) = (start(from), start(to));
            let whole = (to.addr() | to_step.unsigned_abs() | bytes).is_multiple_of(LINE);
            let far = far && whole;
            let stretch = &indices[done..done + count];
            for (k, &index) in stretch.iter().enumerate() {
                let next = stretch.get(k + ahead).filter(|_| asks);
                let next = next.and_then(|&next| look.offset(next)).map(|offset| {
                    let step = from_step.wrapping_mul(ahead as isize);
                    from.wrapping_offset(step.wrapping_add(offset)).cast_const()
                });
                let source = look.offset(index).map(|offset| from.wrapping_offset(offset));
                // SAFETY: the caller of the launch vouches for the output's lines, and for the table's where the index is in range.
                unsafe {
                    match source {
                        Some(source) => asking::copy(launch.plan.isa, to, source, bytes, next, far),
                        None => to.write_bytes(0, bytes),
                    }
                }
                (from, to) = (from.wrapping_offset(from_step), to.wrapping_offset(to_step));
            }
            done += count;
        }
    }
}

impl Lookup {
    /// Whether elements of it are asked for.
    fn is_large(&self) -> bool {
        let elements = self
            .gather_extent
            .saturating_mul(self.gather_stride.unsigned_abs());
        elements.saturating_mul(self.size as u64) >= FETCH
    }
}

/// The output of steps that copy a gathered line to it, and have nothing else.
fn copied(launch: &Launch<'_>, steps: &[Step]) -> Option<usize> {
    let unit = |param: u32| {
        let lanes = &launch.lanes;
        lanes.of(param as usize)[lanes.rank - 1] == 1
    };
    let mut steps = steps.iter().filter(|step| !matches!(step, Step::Aim { .. }));
    match (steps.next(), steps.next(), steps.next()) {
        (
            Some(&Step::LoadAt {
                param: from,
                out,
                single: true,
                ..
            }),
            Some(&Step::Store { param: to, value }),
            None,
        ) if out == value && unit(from) && unit(to) => Some(to as usize),
        _ => None,
    }
}

/// Which values of a map are alike where these parameters and axes are: those that depend on nothing else.
pub(super) fn alike(
    launch: &Launch<'_>,
    stays: impl Fn(u32) -> bool,
    is_alike: impl Fn(u32) -> bool,
) -> SmallVec<[bool; 32]> {
    let plan = launch.plan;
    let mut alike: SmallVec<[bool; 32]> = (plan.homes.iter())
        .map(|home| matches!(home, Home::Constant(_) | Home::Scalar(_) | Home::Cell(_)))
        .collect();
    for step in &plan.row {
        match *step {
            Step::Load { param, out, .. } => alike[out as usize] = stays(param),
            Step::Loop { out, a, b, c, .. } => {
                alike[out as usize] = [a, b, c].into_iter().all(|v| alike[v as usize]);
            }
            Step::LoadAt {
                param, out, index, ..
            } => alike[out as usize] = stays(param) && alike[index as usize],
            Step::Index { axis, out } => alike[out as usize] = is_alike(axis),
            Step::Rand {
                out, key, counter, ..
            } => {
                alike[out as usize] = alike[key as usize] && alike[counter as usize];
            }
            Step::Aim { .. } | Step::Store { .. } | Step::Reduce { .. } => {}
        }
    }
    alike
}
