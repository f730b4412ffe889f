//! Lanes along the outer space: maps, and blocks of rows walked element by element.

use super::frame::{Frame, Lanes};
use super::launch::Launch;
use super::moves::fence;
use super::plan::Phase;
use super::space::MAX_AXES;
use crate::loops::{CHUNK, LANES, Reduction, SEGMENT};
use crate::parallel::Parallel;

/// Lines shorter than this are not walked one by one.
const LONG_LINE: u64 = 512;

/// How the lanes are cut into blocks.
struct Cut {
    /// Lanes between two cuts that every block respects.
    span: u64,
    blocks_per_span: u64,
    block: u64,
    units: u64,
}

impl Cut {
    fn new(launch: &Launch<'_>) -> Cut {
        let lanes = &launch.lanes;
        let last = lanes.extents[lanes.rank - 1];
        let by_line = lanes.rank > 1 && last >= LONG_LINE && !launch.flat.iter().all(|&f| f);
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
    fn unit(&self, unit: u64) -> (u64, usize) {
        let (line, within) = (unit / self.blocks_per_span, unit % self.blocks_per_span);
        let start = within * self.block;
        (
            line * self.span + start,
            self.block.min(self.span - start) as usize,
        )
    }
}

pub(super) fn run(launch: &Launch<'_>, threads: usize, parallel: &dyn Parallel) {
    let cut = Cut::new(launch);
    launch.split(cut.units, threads, parallel, &|units| {
        let mut frame = Frame::new(launch);
        if launch.plan.phases.is_empty() {
            frame.share_prefetch(&launch.plan.row, launch.block);
        }
        for unit in units {
            let (first, n) = cut.unit(unit);
            frame.block(first, n);
        }
        if launch.stream {
            fence();
        }
    });
}

impl Frame<'_> {
    fn block(&mut self, first: u64, n: usize) {
        let launch = self.launch;
        let start = launch.lanes.index(first);
        let lanes = Lanes::Block { start, n };
        self.point_at(&start, &[0; MAX_AXES]);
        self.run(&self.plan.row, &lanes);
        for phase in &self.plan.phases {
            self.begin_columns(phase, n);
            self.columns(phase, &lanes, &start, n);
            self.finish_columns(phase, n);
            self.point_at(&start, &[0; MAX_AXES]);
            self.run(&phase.row, &lanes);
        }
    }

    /// Points the parameters at a block's first lane and a point of the other space.
    fn point_at(&mut self, start: &[u64; MAX_AXES], other: &[u64; MAX_AXES]) {
        for (p, arg) in self.launch.args.args.iter().enumerate() {
            let offset = self.launch.offset(p, start, other);
            // SAFETY: the table has every parameter.
            unsafe { *self.at.add(p) = arg.ptr.wrapping_offset(offset) };
        }
    }

    fn columns(&mut self, phase: &Phase, lanes: &Lanes, start: &[u64; MAX_AXES], n: usize) {
        let launch = self.launch;
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
                self.point_at(start, &other);
            }
            self.j = j;
            if kept {
                self.aim_kept(j as usize * n);
            }
            self.run(&phase.element, lanes);
            launch.other.advance(&mut self.other);
            let done = j + 1;
            if done % CHUNK as u64 == 0 && done < length {
                self.end_chunk(phase, n, done);
            }
        }
    }

    /// Address of a sum's lanes, totals and partial sums, each of 16 blocks but the last.
    unsafe fn sum_parts(&self, r: usize, n: usize) -> (*mut u8, *mut u8, *mut u8) {
        let lanes = self.state(r);
        let bytes = LANES * n * self.plan.reduces[r].size;
        // SAFETY: the state has room for both and the partial sums.
        unsafe { (lanes, lanes.add(bytes), lanes.add(2 * bytes)) }
    }

    fn fill(&self, to: *mut u8, elements: usize, size: usize, bits: u64) {
        let bytes = bits.to_le_bytes();
        for i in 0..elements {
            // SAFETY: the caller passes a block of that many elements.
            unsafe { to.add(i * size).copy_from_nonoverlapping(bytes.as_ptr(), size) };
        }
    }

    fn begin_columns(&mut self, phase: &Phase, n: usize) {
        for &r in &phase.reduces {
            let reduce = &self.plan.reduces[r as usize];
            match reduce.loops {
                Reduction::Fold { neutral, .. } => {
                    self.fill(self.state(r as usize), 2 * LANES * n, reduce.size, neutral);
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
