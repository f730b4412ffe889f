//! Lanes along the outer space: maps, and blocks of rows walked element by element.

use super::frame::{Frame, Lanes, loops_of};
use super::launch::Launch;
use super::past::fence;
use super::plan::{Phase, Step};
use super::space::MAX_AXES;
use crate::loops::{CHUNK, LANES, Reduction, SEGMENT};
use crate::parallel::Parallel;

/// Lines shorter than this are not walked one by one.
const LONG_LINE: u64 = 512;

/// How the lanes are cut into blocks.
pub(super) struct Cut {
    /// Lanes between two cuts that every block respects.
    span: u64,
    blocks_per_span: u64,
    block: u64,
    pub(super) units: u64,
}

impl Cut {
    pub(super) fn new(launch: &Launch<'_>) -> Cut {
        let lanes = &launch.lanes;
        let last = lanes.extents[lanes.rank - 1];
        let by_line = launch.still.is_some()
            || launch.across.is_some()
            || lanes.rank > 1 && last >= LONG_LINE && !launch.flat.iter().all(|&f| f);
        let span = if by_line { last } else { lanes.total };
        let blocks_per_span = span.div_ceil(launch.block as u64).max(1);
        let even = span.div_ceil(blocks_per_span).next_multiple_of(64);
        let block = if by_line {
            even.min(launch.block as u64)
        } else {
            launch.block as u64
        };
        let blocks_per_span = span.div_ceil(block).max(1);
        Cut {
            span,
            blocks_per_span,
            block,
            units: lanes.total / span.max(1) * blocks_per_span,
        }
    }

    /// First lane and number of lanes of a block.
    pub(super) fn unit(&self, unit: u64) -> (u64, usize) {
        let start = unit % self.blocks_per_span * self.block;
        (
            self.line(unit) * self.span + start,
            self.block.min(self.span - start) as usize,
        )
    }

    /// Which span a block lies in.
    pub(super) fn line(&self, unit: u64) -> u64 {
        unit / self.blocks_per_span
    }
}

pub(super) fn run(launch: &Launch<'_>, threads: usize, parallel: &dyn Parallel) {
    if launch.tile.0 > 0 {
        return tiles(launch, threads, parallel);
    }
    if let Some(still) = &launch.still {
        return still.run(launch, threads, parallel);
    }
    if let Some(across) = &launch.across {
        return across.run(launch, threads, parallel);
    }
    let cut = Cut::new(launch);
    launch.split(cut.units, threads, parallel, &|units| {
        let mut frame = Frame::new(launch);
        frame.pass = frame.one_pass();
        for unit in units {
            let (first, n) = cut.unit(unit);
            frame.start = launch.lanes.index(first);
            frame.block(n);
        }
        if launch.stream {
            fence();
        }
    });
}

/// Blocks are tiles; those along the rows' axis follow each other.
fn tiles(launch: &Launch<'_>, threads: usize, parallel: &dyn Parallel) {
    let (rows, columns) = (launch.tile.0 as u64, launch.tile.1 as u64);
    let lanes = &launch.lanes;
    let (axis, last) = (launch.tile_axis, lanes.rank - 1);
    let down = lanes.extents[axis].div_ceil(rows);
    let across = lanes.extents[last].div_ceil(columns);
    let rest = lanes.total / (lanes.extents[axis] * lanes.extents[last]);
    launch.split(rest * across * down, threads, parallel, &|units| {
        let mut frame = Frame::new(launch);
        for unit in units {
            let (i, j) = (unit % down * rows, unit / down % across * columns);
            let mut others = unit / (down * across);
            for k in (0..last).rev().filter(|&k| k != axis) {
                frame.start[k] = others % lanes.extents[k];
                others /= lanes.extents[k];
            }
            frame.start[axis] = i;
            frame.start[last] = j;
            let height = rows.min(lanes.extents[axis] - i) as usize;
            let width = columns.min(lanes.extents[last] - j) as usize;
            frame.tile = Some((height, width));
            frame.block(height * width);
        }
        if launch.stream {
            fence();
        }
    });
}

impl Frame<'_> {
    /// A block of `n` lanes from the frame's start on.
    pub(super) fn block(&mut self, n: usize) {
        let lanes = Lanes::Block(n);
        let plan = self.plan;
        self.point_at(&[0; MAX_AXES]);
        if plan.phases.is_empty() {
            self.share_prefetch(loops_of(&plan.row), n);
            self.restart_prefetch();
        }
        let row = match (&self.launch.still, &self.launch.across) {
            (Some(still), _) => &still.steps,
            (None, Some(across)) => &across.steps,
            (None, None) => &plan.row,
        };
        self.run(row, lanes);
        if let Some(pass) = self.pass {
            return self.choose(pass, n);
        }
        self.turn(n, false);
        for phase in &plan.phases {
            if !self.windows(phase, n) && !self.lines(phase, n) {
                self.begin_columns(phase, n);
                self.share_prefetch(loops_of(&phase.element), n);
                self.columns(phase, n);
                self.stop_prefetch();
                self.finish_columns(phase, n);
            }
            self.point_at(&[0; MAX_AXES]);
            self.run(&phase.row, lanes);
        }
        self.turn(n, true);
    }

    /// Points the parameters at the block's first lane and a point of the other space.
    pub(super) fn point_at(&mut self, other: &[u64; MAX_AXES]) {
        for (p, arg) in self.launch.args.args.iter().enumerate() {
            let offset = self.launch.offset(p, &self.start, other);
            // SAFETY: the table has every parameter.
            unsafe { *self.at.add(p) = arg.ptr.wrapping_offset(offset) };
        }
    }

    /// The reduction that is all of a phase of a block of `n` lanes, and the first row and the distance of its parameter's rows, if they lie at
    /// equal distances.
    fn bare(&self, phase: &Phase, n: usize) -> Option<(usize, *const u8, isize)> {
        let launch = self.launch;
        let [Step::Load { param, out, .. }, Step::Reduce { reduce, arg }] = phase.element[..] else {
            return None;
        };
        let p = param as usize;
        let size = launch.sizes[p] as isize;
        if out != arg {
            return None;
        }
        if let Some(sheet) = self.sheet_of(p) {
            return Some((reduce as usize, sheet, n as isize * size));
        }
        // SAFETY: the table has every parameter.
        let x = unsafe { *self.at.add(p) };
        (launch.flat[p] && launch.other.rank == 1).then(|| {
            (
                reduce as usize,
                x.cast_const(),
                launch.other.of(p)[0] as isize * size,
            )
        })
    }

    /// Whether the rows of a phase were reduced, some at a time.
    fn bare_columns(&mut self, phase: &Phase, n: usize) -> bool {
        let launch = self.launch;
        let Some((r, x, step)) = self.bare(phase, n) else {
            return false;
        };
        let length = launch.other.total;
        let state = self.state(r);
        match self.plan.reduces[r].loops {
            Reduction::Fold {
                columns: Some(columns),
                ..
            } => {
                for start in (0..length).step_by(CHUNK) {
                    let rows = (length - start).min(CHUNK as u64);
                    let x = x.wrapping_offset(start as isize * step);
                    // SAFETY: the parameter has the rows of the block, and the state begins with the lanes.
                    unsafe { columns(n, state, x, step, rows as usize) };
                    let done = start + rows;
                    if rows == CHUNK as u64 && done < length {
                        self.end_chunk(phase, n, done);
                    }
                }
                true
            }
            Reduction::Best { column, .. } => {
                let places = state.wrapping_add(launch.block * 8).cast();
                // SAFETY: the parameter has the rows of the block, and the state the keys and the places.
                unsafe { column(n, state, places, x, step, 0, length as usize) };
                true
            }
            Reduction::Fold { .. } => false,
        }
    }

    fn columns(&mut self, phase: &Phase, n: usize) {
        let launch = self.launch;
        if self.bare_columns(phase, n) {
            return;
        }
        let length = launch.other.total;
        self.other = [0; MAX_AXES];
        let kept = !self.plan.kept.is_empty();
        for j in 0..length {
            if launch.other.rank == 1 && j > 0 {
                for p in 0..launch.args.args.len() {
                    let step = launch.other.of(p)[0] as isize * launch.sizes[p] as isize;
                    // SAFETY: the table has every parameter.
                    unsafe { *self.at.add(p) = (*self.at.add(p)).wrapping_offset(step) };
                }
            } else {
                let other = self.other;
                self.point_at(&other);
            }
            self.point_at_sheets(j as usize, n);
            self.j = j;
            if kept {
                self.aim_kept(j as usize * n);
            }
            self.restart_prefetch();
            self.run(&phase.place, Lanes::Point);
            self.run(&phase.element, Lanes::Block(n));
            launch.other.advance(&mut self.other);
            let done = j + 1;
            if done.is_multiple_of(CHUNK as u64) && done < length {
                self.end_chunk(phase, n, done);
            }
        }
    }

    /// Address of a sum's lanes, totals and partial sums, each of 16 blocks but the last.
    fn sum_parts(&self, r: usize, n: usize) -> (*mut u8, *mut u8, *mut u8) {
        let lanes = self.state(r);
        let bytes = LANES * n * self.plan.reduces[r].size;
        // SAFETY: the state has room for both and the partial sums.
        unsafe { (lanes, lanes.add(bytes), lanes.add(2 * bytes)) }
    }

    /// Fills elements with the low bytes of `bits`.
    fn fill(&self, to: *mut u8, elements: usize, size: usize, bits: u64) {
        // SAFETY: the caller passes a block of that many elements of 1, 4 or 8 bytes.
        unsafe {
            match size {
                1 => to.write_bytes(bits as u8, elements),
                4 => std::slice::from_raw_parts_mut(to.cast::<u32>(), elements).fill(bits as u32),
                _ => std::slice::from_raw_parts_mut(to.cast::<u64>(), elements).fill(bits),
            }
        }
    }

    fn begin_columns(&mut self, phase: &Phase, n: usize) {
        for &r in &phase.reduces {
            let reduce = &self.plan.reduces[r as usize];
            match reduce.loops {
                Reduction::Fold { neutral, .. } => {
                    let length = self.launch.other.total;
                    let (lanes, totals, _) = self.sum_parts(r as usize, n);
                    self.fill(lanes, LANES.min(length as usize) * n, reduce.size, neutral);
                    if length > CHUNK as u64 {
                        self.fill(totals, LANES * n, reduce.size, neutral);
                    } else if length == 0 {
                        self.fill(lanes, n, reduce.size, neutral);
                    }
                }
                Reduction::Best {
                    start,
                    key_size,
                    place,
                    ..
                } => {
                    let keys = self.state(r as usize);
                    self.fill(keys, n, key_size, start as u64);
                    if place {
                        // SAFETY: the places follow the keys.
                        let places = unsafe { keys.add(self.launch.block * 8) };
                        self.fill(places, n, 8, u64::MAX);
                    }
                }
            }
        }
    }

    /// Adds the lanes of a chunk to the totals, and at the end of a segment the totals to the partial sums.
    fn end_chunk(&mut self, phase: &Phase, n: usize, done: u64) {
        for &r in &phase.reduces {
            let reduce = &self.plan.reduces[r as usize];
            let Reduction::Fold {
                accumulate,
                neutral,
                tree,
                ..
            } = reduce.loops
            else {
                continue;
            };
            // SAFETY: the parts were sized for 16 blocks each and the levels of the tree.
            unsafe {
                let (lanes, totals, partials) = self.sum_parts(r as usize, n);
                accumulate(LANES * n, totals, lanes);
                self.fill(lanes, LANES * n, reduce.size, neutral);
                if !done.is_multiple_of(SEGMENT as u64) {
                    continue;
                }
                tree(n, LANES, totals);
                let level = |l: u32| partials.add(l as usize * n * reduce.size);
                // As in a binary counter: a partial sum of each level whose bit is set is waiting.
                let before = done / SEGMENT as u64 - 1;
                let carries = before.trailing_ones();
                for l in 0..carries {
                    accumulate(n, level(l), totals);
                    totals.copy_from_nonoverlapping(level(l), n * reduce.size);
                }
                level(carries).copy_from_nonoverlapping(totals, n * reduce.size);
                self.fill(totals, LANES * n, reduce.size, neutral);
            }
        }
    }

    fn finish_columns(&mut self, phase: &Phase, n: usize) {
        let length = self.launch.other.total;
        for &r in &phase.reduces {
            let reduce = &self.plan.reduces[r as usize];
            let to = self.value(reduce.result);
            // SAFETY: the parts were sized for 16 blocks each and the levels of the tree.
            unsafe {
                match reduce.loops {
                    Reduction::Fold { accumulate, tree, .. } => {
                        let (lanes, totals, partials) = self.sum_parts(r as usize, n);
                        if length <= CHUNK as u64 {
                            // The totals would be neutral, and so would the missing lanes.
                            tree(n, LANES.min(length as usize), lanes);
                            to.copy_from_nonoverlapping(lanes, n * reduce.size);
                            continue;
                        }
                        accumulate(LANES * n, totals, lanes);
                        tree(n, LANES, totals);
                        let whole = length.saturating_sub(1) / SEGMENT as u64;
                        for l in (0..u64::BITS).filter(|&l| whole >> l & 1 == 1) {
                            let level = partials.add(l as usize * n * reduce.size);
                            accumulate(n, level, totals);
                            totals.copy_from_nonoverlapping(level, n * reduce.size);
                        }
                        to.copy_from_nonoverlapping(totals, n * reduce.size);
                    }
                    Reduction::Best { place: true, .. } => {
                        let places = self.state(r as usize).add(self.launch.block * 8);
                        to.copy_from_nonoverlapping(places, n * 8);
                    }
                    Reduction::Best { value, .. } => value(n, to, self.state(r as usize)),
                }
            }
        }
    }
}
