//! Lanes along the inner space: a row is walked block by block.

use super::frame::{Frame, Lanes, loops_of};
use super::launch::Launch;
use super::moves::copy_one;
use super::past::fence;
use super::plan::{Phase, Step};
use super::space::MAX_AXES;
use crate::isa::follows_pages;
use crate::loops::{Best, LANES, Reduction, SEGMENT};
use crate::parallel::Parallel;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};

/// Elements of a row that stay in the cache.
const CACHED: u64 = 64 << 10;

/// A reduction's result over some elements: value bits or a key, and a place.
pub(super) type Partial = (u64, u64);

pub(super) fn run(launch: &Launch<'_>, threads: usize, parallel: &dyn Parallel) {
    let rows = launch.other.total;
    let length = launch.lanes.total;
    let segments = length.div_ceil(SEGMENT as u64);
    if threads > 1 && rows < 2 * threads as u64 && segments > rows {
        return by_segment(launch, threads, parallel);
    }
    let alone = matches!(&launch.plan.phases[..], [phase] if bare(phase).is_some());
    let loops: usize = launch.plan.phases.iter().map(|p| loops_of(&p.element)).sum();
    launch.split(rows, threads, parallel, &|rows| {
        let mut frame = Frame::new(launch);
        let mut other = launch.other.index(rows.start);
        for _ in rows {
            frame.start_row(&other);
            frame.run(&launch.plan.row, Lanes::Point);
            // A row of one block is asked for while the row before it runs, a short one in its first phase: later ones
            // find it in the cache.
            let single = length <= launch.block as u64;
            if single && !alone {
                frame.share_prefetch(loops, length as usize);
                frame.restart_prefetch();
            }
            for (k, phase) in launch.plan.phases.iter().enumerate() {
                if !single && !alone {
                    let asks = k == 0 || length > CACHED;
                    frame.share_prefetch(loops_of(&phase.element), if asks { launch.block } else { 0 });
                }
                frame.row_phase(k, length);
                frame.run(&phase.row, Lanes::Point);
            }
            launch.other.advance(&mut other);
        }
        fence();
    });
}

/// Segments whose results are kept at once; few under test, so that rows take several rounds there.
const ROUND: u64 = if cfg!(test) { 3 } else { 1 << 18 };

/// Few long rows: every phase is split into segments.
fn by_segment(launch: &Launch<'_>, threads: usize, parallel: &dyn Parallel) {
    let length = launch.lanes.total;
    let segments = length.div_ceil(SEGMENT as u64);
    let plan = launch.plan;
    for row in 0..launch.other.total {
        let other = launch.other.index(row);
        let mut results = vec![(0u64, 0u64); plan.reduces.len()];
        for (k, phase) in plan.phases.iter().enumerate() {
            let first = phase.reduces.first().map_or(0, |&r| r as usize);
            let count = phase.reduces.len();
            // A broadcast row may be longer than any memory: room is for the segments of a round.
            let room = segments.min(ROUND);
            let partials: Vec<AtomicU64> = (0..count * room as usize * 2)
                .map(|_| AtomicU64::new(0))
                .collect();
            let mut trees: Vec<Tree> = (0..count).map(|_| Tree::default()).collect();
            let mut done = 0;
            loop {
                let round = (segments - done).min(room);
                launch.split(round, threads, parallel, &|range| {
                    let mut frame = Frame::new(launch);
                    frame.rejoin(&other, k, &results);
                    frame.share_prefetch(loops_of(&phase.element), launch.block);
                    for segment in range {
                        let start = (done + segment) * SEGMENT as u64;
                        frame.segment(k, start..length.min(start + SEGMENT as u64), |i, (a, b)| {
                            let at = (i * room as usize + segment as usize) * 2;
                            partials[at].store(a, Ordering::Relaxed);
                            partials[at + 1].store(b, Ordering::Relaxed);
                        });
                    }
                    fence();
                });
                for (i, tree) in trees.iter_mut().enumerate() {
                    let own = &partials[i * room as usize * 2..][..round as usize * 2];
                    for pair in own.chunks_exact(2) {
                        let partial = (pair[0].load(Ordering::Relaxed), pair[1].load(Ordering::Relaxed));
                        tree.push(&plan.reduces[first + i].loops, partial);
                    }
                }
                done += round;
                if done == segments {
                    break;
                }
            }
            if trees.is_empty() {
                continue;
            }
            let mut frame = Frame::new(launch);
            frame.rejoin(&other, k, &results);
            for (i, tree) in trees.into_iter().enumerate() {
                let result = tree.finish(&plan.reduces[first + i].loops);
                results[first + i] = frame.found(k, i, result);
            }
        }
        let mut frame = Frame::new(launch);
        frame.rejoin(&other, plan.phases.len(), &results);
    }
}

/// Adds the segments of a row up as neighbours, pairwise.
#[derive(Default)]
struct Tree {
    /// Sums of 2^level segments.
    sums: smallvec::SmallVec<[(u32, Partial); 8]>,
}

impl Tree {
    fn push(&mut self, loops: &Reduction, partial: Partial) {
        let mut new = (0, partial);
        while let Some(&(level, sum)) = self.sums.last() {
            if level != new.0 {
                break;
            }
            self.sums.pop();
            new = (level + 1, combine(loops, sum, new.1));
        }
        self.sums.push(new);
    }

    fn finish(mut self, loops: &Reduction) -> Partial {
        let mut total = self.sums.pop().map_or((0, 0), |(_, sum)| sum);
        while let Some((_, sum)) = self.sums.pop() {
            total = combine(loops, sum, total);
        }
        total
    }
}

fn combine(loops: &Reduction, a: Partial, b: Partial) -> Partial {
    match loops {
        Reduction::Fold { accumulate, .. } => {
            let mut sum = a.0;
            // SAFETY: both are one value of at most 8 bytes.
            unsafe { accumulate(1, (&raw mut sum).cast(), (&raw const b.0).cast()) };
            (sum, 0)
        }
        Reduction::Best { place, .. } => {
            let mut best = Best {
                key: a.0 as i64,
                index: a.1 as i64,
            };
            let other = Best {
                key: b.0 as i64,
                index: b.1 as i64,
            };
            if *place {
                best.merge(other);
            } else {
                best.key = best.key.max(other.key);
            }
            (best.key as u64, best.index as u64)
        }
    }
}

/// The parameter of a phase that only reduces its elements as they are, on processors that need not be asked for what is read next.
fn bare(phase: &Phase) -> Option<usize> {
    if !follows_pages() {
        return None;
    }
    match phase.element[..] {
        [
            Step::Load {
                param,
                out,
                moved: false,
                ..
            },
            Step::Reduce { arg, .. },
        ] if out == arg => Some(param as usize),
        _ => None,
    }
}

impl Frame<'_> {
    /// Points the parameters at the start of a row.
    fn start_row(&mut self, other: &[u64; MAX_AXES]) {
        self.launch.other.copy(other, &mut self.other);
        self.row += 1;
        self.first = 0;
        self.launch.lanes.place(0, &mut self.start);
        for (p, arg) in self.launch.args.args.iter().enumerate() {
            let offset = self.launch.other.offset(p, other) as isize * self.launch.sizes[p] as isize;
            let to = arg.ptr.wrapping_offset(offset);
            // SAFETY: the tables have every parameter.
            unsafe {
                *self.at.add(p) = to;
                *self.row_at.add(p) = to;
            }
        }
        self.aim_kept(0);
    }

    /// Computes the row-level values up to phase `k` from the results of the reductions so far.
    fn rejoin(&mut self, other: &[u64; MAX_AXES], k: usize, results: &[Partial]) {
        let plan = self.plan;
        self.start_row(other);
        self.run(&plan.row, Lanes::Point);
        for phase in &plan.phases[..k] {
            for &r in &phase.reduces {
                self.put_result(r as usize, results[r as usize]);
            }
            self.run(&phase.row, Lanes::Point);
        }
    }

    /// One phase of a row of `length` elements, results included.
    fn row_phase(&mut self, k: usize, length: u64) {
        let plan = self.plan;
        let reduces = &plan.phases[k].reduces;
        if length <= SEGMENT as u64 {
            let mut results = SmallVec::<[Partial; 4]>::new();
            self.segment(k, 0..length, |_, result| results.push(result));
            for (i, (result, &r)) in results.into_iter().zip(reduces).enumerate() {
                let result = self.found(k, i, result);
                self.put_result(r as usize, result);
            }
            return;
        }
        let mut trees: SmallVec<[Tree; 2]> = reduces.iter().map(|_| Tree::default()).collect();
        let mut start = 0;
        loop {
            let end = length.min(start + SEGMENT as u64);
            self.segment(k, start..end, |i, result| {
                trees[i].push(&plan.reduces[reduces[i] as usize].loops, result);
            });
            start = end;
            if start == length {
                break;
            }
        }
        for (i, (tree, &r)) in trees.into_iter().zip(reduces).enumerate() {
            let result = tree.finish(&plan.reduces[r as usize].loops);
            let result = self.found(k, i, result);
            self.put_result(r as usize, result);
        }
    }

    /// Computes elements `range` of the present row in phase `k`, a segment at most, and hands out the results of its reductions.
    fn segment(&mut self, k: usize, range: std::ops::Range<u64>, mut take: impl FnMut(usize, Partial)) {
        let phase = &self.plan.phases[k];
        if let Some(code) = self.launch.long.and_then(|long| long.phase(k, self.launch)) {
            return code.run(self, range, &phase.reduces, take);
        }
        self.begin_reduces(phase);
        self.elements(phase, range);
        for (i, &r) in phase.reduces.iter().enumerate() {
            take(i, self.segment_result(r as usize));
        }
    }

    /// The result of reduction `i` of phase `k` over the whole row. Where code has found the segment of a place, loops look for it there.
    fn found(&mut self, k: usize, i: usize, result: Partial) -> Partial {
        let phase = &self.plan.phases[k];
        let r = phase.reduces[i] as usize;
        let code = self.launch.long.and_then(|long| long.phase(k, self.launch));
        let Reduction::Best { place: true, .. } = self.plan.reduces[r].loops else {
            return result;
        };
        if code.is_none() {
            return result;
        }
        let first = result.1;
        self.begin_reduces(phase);
        self.elements(phase, first..self.launch.lanes.total.min(first + SEGMENT as u64));
        self.segment_result(r)
    }

    /// Address of element `first` of the present row, of a parameter whose elements stand one after the other.
    pub(super) fn element(&self, p: usize, first: u64) -> *mut u8 {
        // SAFETY: the table has every parameter.
        unsafe { (*self.row_at.add(p)).wrapping_add(first as usize * usize::from(self.launch.sizes[p])) }
    }

    /// Address of an element of the present row, so many elements from its first.
    pub(super) fn element_at(&self, p: usize, offset: i64) -> *mut u8 {
        // SAFETY: the table has every parameter.
        unsafe { (*self.row_at.add(p)).wrapping_offset(offset as isize * isize::from(self.launch.sizes[p])) }
    }

    /// Walks the elements `range` of the present row, whose start is at a multiple of a segment.
    fn elements(&mut self, phase: &Phase, range: std::ops::Range<u64>) {
        let mut block = self.launch.block as u64;
        let mut first = range.start;
        self.go_to(first);
        let all = Lanes::Block((range.end - first) as usize);
        if !range.is_empty() && bare(phase).is_some_and(|p| self.is_unit(p, all)) {
            // Nothing goes through the memory of the frame.
            block = SEGMENT as u64;
        }
        while first < range.end {
            let n = (range.end - first).min(block) as usize;
            self.go_to(first);
            self.j = first;
            if self.launch.lanes.total > block {
                self.restart_prefetch();
            }
            self.run(&phase.element, Lanes::Block(n));
            first += n as u64;
        }
        self.go_to(0);
    }

    /// Points the parameters at element `first` of the present row.
    fn go_to(&mut self, first: u64) {
        if first == self.first {
            return;
        }
        let launch = self.launch;
        self.first = first;
        launch.lanes.place(first, &mut self.start);
        for p in 0..launch.args.args.len() {
            let offset = launch.lanes.offset(p, &self.start) as isize * launch.sizes[p] as isize;
            // SAFETY: the tables have every parameter.
            unsafe { *self.at.add(p) = (*self.row_at.add(p)).wrapping_offset(offset) };
        }
        self.aim_kept(first as usize);
    }

    /// Sets the states of a phase's reductions to those of no elements.
    fn begin_reduces(&mut self, phase: &Phase) {
        for &r in &phase.reduces {
            let reduce = &self.plan.reduces[r as usize];
            let state = self.state(r as usize);
            // SAFETY: the state was sized for the reduction.
            unsafe {
                match reduce.loops {
                    Reduction::Fold { neutral, .. } => {
                        let bits = (&raw const neutral).cast();
                        for lane in 0..LANES {
                            copy_one(reduce.size, state.add(lane * reduce.size), bits);
                        }
                    }
                    Reduction::Best { start, .. } => {
                        state.cast::<Best>().write(Best {
                            key: start,
                            index: -1,
                        });
                    }
                }
            }
        }
    }

    /// The result of a reduction over the elements since it began.
    fn segment_result(&mut self, r: usize) -> Partial {
        let state = self.state(r);
        let reduce = &self.plan.reduces[r];
        // SAFETY: the state was sized for the reduction.
        unsafe {
            match reduce.loops {
                Reduction::Fold { tree, .. } => {
                    tree(1, LANES, state);
                    // Of a value of 4 bytes the low half counts; the rest is the next lane.
                    (state.cast::<u64>().read(), 0)
                }
                Reduction::Best { .. } => {
                    let best = state.cast::<Best>().read();
                    (best.key as u64, best.index as u64)
                }
            }
        }
    }

    fn put_result(&mut self, r: usize, (bits, place): Partial) {
        let reduce = &self.plan.reduces[r];
        let to = self.value(reduce.result);
        // SAFETY: a result has 8 bytes.
        unsafe {
            match reduce.loops {
                Reduction::Fold { .. } => to.cast::<u64>().write(bits),
                Reduction::Best { place: true, .. } => to.cast::<u64>().write(place),
                Reduction::Best { value, .. } => value(1, to, (&raw const bits).cast()),
            }
        }
    }
}
