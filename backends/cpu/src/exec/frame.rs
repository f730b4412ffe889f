//! Execution of steps on one thread.

use super::arena::Scratch;
use super::chosen::Pass;
use super::launch::Launch;
use super::long::Joined;
use super::moves::{self, Lookup, Shape};
use super::past;
use super::plan::{Along, Home, Plan, Step, Value};
use super::slots::NO_SLOT;
use super::space::MAX_AXES;
use crate::loops::{Best, LANES, Reduction};
use crate::prefetch::{self, LINE};
use smallvec::SmallVec;

/// What a list runs on.
#[derive(Clone, Copy)]
pub(super) enum Lanes {
    /// A single point.
    Point,
    /// Positions from the frame's `start` on.
    Block(usize),
}

/// Bytes of a line that fits into the first-level cache beside another.
const NEAR: usize = 16 << 10;

/// The state of one thread in a launch.
pub(super) struct Frame<'a> {
    pub(super) launch: &'a Launch<'a>,
    pub(super) plan: &'a Plan,
    /// Address of every value.
    values: *mut *mut u8,
    /// Address of every parameter's element at the first position of the block.
    pub(super) at: *mut *mut u8,
    /// The same at the start of the row.
    pub(super) row_at: *mut *mut u8,
    slots: *mut u8,
    slot_bytes: usize,
    keep: *mut u8,
    /// Of the parameters that are turned.
    pub(super) sheets: *mut u8,
    /// Address of every reduction's state.
    states: *mut *mut u8,
    /// What blocks of rows are taken by instead of the phases.
    pub(super) pass: Option<Pass>,
    /// Multi-index of the block's first lane.
    pub(super) start: [u64; MAX_AXES],
    /// Rows and columns of the block when it is a tile.
    pub(super) tile: Option<(usize, usize)>,
    /// Multi-index in the other space.
    pub(super) other: [u64; MAX_AXES],
    /// How many rows were begun.
    pub(super) row: u64,
    /// Of parameters whose elements of a segment were brought together.
    pub(super) joined: SmallVec<[Joined; 2]>,
    /// Element of the row that the parameters point at.
    pub(super) first: u64,
    /// Position in the other space, or of the block's first element in the row.
    pub(super) j: u64,
    /// Elements that a step asks the memory for ahead of time, and how many were asked for in this block.
    ask_per_step: usize,
    asked: usize,
    _scratch: Scratch,
}

/// Steps of a list that take time.
pub(super) fn loops_of(steps: &[Step]) -> usize {
    let loops = steps
        .iter()
        .filter(|s| matches!(s, Step::Loop { .. } | Step::Reduce { .. }));
    loops.count().max(1)
}

/// Bytes of one reduction's state.
fn state_bytes(launch: &Launch<'_>, reduction: &Reduction, size: usize) -> usize {
    let block = launch.block;
    match (launch.plan.along, reduction) {
        // Totals, then partial sums of segments, one per level of the tree.
        (Along::Inner, Reduction::Fold { .. }) => (LANES + 64) * 8,
        (Along::Inner, Reduction::Best { .. }) => size_of::<Best>(),
        // Lanes of a chunk, totals, then partial sums.
        (Along::Outer, Reduction::Fold { .. }) => (2 * LANES + launch.levels) * block * size,
        // Keys, then places.
        (Along::Outer, Reduction::Best { .. }) => 2 * block * 8,
    }
}

const fn up(bytes: usize) -> usize {
    bytes.next_multiple_of(LINE)
}

impl<'a> Frame<'a> {
    pub(super) fn new(launch: &'a Launch<'a>) -> Frame<'a> {
        let plan = launch.plan;
        let params = launch.args.args.len();
        let tables = up((plan.homes.len() + 2 * params + plan.reduces.len()) * 8);
        let cells = up(plan.cells * 8);
        // A slot is a little longer than a block, so that slots do not compete for the same cache sets.
        let slot_bytes = up(launch.block * plan.widest) + 2 * LINE;
        let keep: usize = plan.kept.iter().map(|k| up(k.size * launch.keep_elements)).sum();
        let states: usize = plan
            .reduces
            .iter()
            .map(|r| up(state_bytes(launch, &r.loops, r.size)))
            .sum();
        let scratch =
            Scratch::new(tables + cells + slot_bytes * plan.slots + keep + states + launch.sheets.bytes);
        let start = scratch.start();
        // SAFETY: the parts lie one after the other in the scratch memory just sized for them.
        let mut frame = unsafe {
            let values = start.cast::<*mut u8>();
            let slots = start.add(tables + cells);
            Frame {
                launch,
                plan,
                values,
                at: values.add(plan.homes.len()),
                row_at: values.add(plan.homes.len() + params),
                slots,
                slot_bytes,
                keep: slots.add(slot_bytes * plan.slots),
                sheets: slots.add(slot_bytes * plan.slots + keep + states),
                states: values.add(plan.homes.len() + 2 * params),
                pass: None,
                start: [0; MAX_AXES],
                tile: None,
                other: [0; MAX_AXES],
                row: 0,
                joined: SmallVec::new(),
                first: 0,
                j: 0,
                ask_per_step: 0,
                asked: 0,
                _scratch: scratch,
            }
        };
        // SAFETY: as above; constants and scalars outlive the frame.
        unsafe {
            let cells = start.add(tables);
            let slots_end = frame.keep.add(keep);
            for (v, home) in plan.homes.iter().enumerate() {
                let address = match *home {
                    Home::Constant(i) => plan.pool.as_ptr().add(i as usize).cast_mut().cast::<u8>(),
                    Home::Scalar(i) => launch
                        .args
                        .scalars
                        .as_ptr()
                        .add(i as usize)
                        .cast_mut()
                        .cast::<u8>(),
                    Home::Cell(i) => cells.add(i as usize * 8),
                    Home::Slot(i) => frame.slot(i),
                    Home::Keep(_) => frame.keep,
                };
                *frame.values.add(v) = address;
            }
            for (p, arg) in launch.args.args.iter().enumerate() {
                *frame.at.add(p) = arg.ptr;
            }
            let mut state = slots_end;
            for (r, reduce) in plan.reduces.iter().enumerate() {
                *frame.states.add(r) = state;
                state = state.add(up(state_bytes(launch, &reduce.loops, reduce.size)));
            }
        }
        frame.run(&plan.uniform, Lanes::Point);
        frame
    }

    pub(super) fn slot(&self, slot: u32) -> *mut u8 {
        // SAFETY: slots are counted by the plan.
        unsafe { self.slots.add(slot as usize * self.slot_bytes) }
    }

    /// Address of a value.
    pub(super) fn value(&self, v: Value) -> *mut u8 {
        // SAFETY: values are counted by the plan.
        unsafe { *self.values.add(v as usize) }
    }

    pub(super) fn point(&mut self, v: Value, address: *mut u8) {
        // SAFETY: values are counted by the plan.
        unsafe { *self.values.add(v as usize) = address };
    }

    /// Address of reduction `r`'s state.
    pub(super) fn state(&self, r: usize) -> *mut u8 {
        // SAFETY: the table has every reduction.
        unsafe { *self.states.add(r) }
    }

    /// Points the kept values at their elements from `element` of the row on.
    pub(super) fn aim_kept(&mut self, element: usize) {
        let mut offset = 0;
        for kept in &self.plan.kept {
            // SAFETY: kept values have room for `keep_elements` elements each.
            let address = unsafe { self.keep.add(offset + element * kept.size) };
            self.point(kept.value, address);
            offset += up(kept.size * self.launch.keep_elements);
        }
    }

    /// Shares the prefetch of `n` elements among so many steps.
    pub(super) fn share_prefetch(&mut self, loops: usize, n: usize) {
        let streams = !self.launch.streams.is_empty();
        self.ask_per_step = if streams { n.div_ceil(loops) } else { 0 };
    }

    /// The shares are those of a new block.
    pub(super) fn restart_prefetch(&mut self) {
        self.asked = 0;
    }

    /// Asks for nothing from here on.
    pub(super) fn stop_prefetch(&mut self) {
        self.ask_per_step = 0;
    }

    /// Asks for this step's share of what comes next.
    #[inline(always)]
    unsafe fn ask(&mut self) {
        if self.ask_per_step == 0 {
            return;
        }
        for stream in &self.launch.streams {
            // SAFETY: the table has every parameter; a prefetch may name any address.
            let from = unsafe { *self.at.add(stream.param) };
            let skip = (self.asked * stream.size).wrapping_add(stream.ahead);
            let bytes = self.ask_per_step * stream.size;
            if stream.written {
                prefetch::ask_to_write(from.wrapping_add(skip), bytes);
            } else {
                prefetch::ask(from.wrapping_add(skip), bytes);
            }
        }
        self.asked += self.ask_per_step;
    }

    /// Runs a list.
    pub(super) fn run(&mut self, steps: &[Step], lanes: Lanes) {
        let n = if let Lanes::Block(n) = lanes { n } else { 1 };
        let block = matches!(lanes, Lanes::Block(_));
        for step in steps {
            // SAFETY: blocks hold n elements, and the caller of the launch vouches for the parameters' elements.
            unsafe {
                match *step {
                    Step::Loop { f, out, a, b, c } => {
                        if block {
                            self.ask();
                        }
                        f.run(n, self.value(out), self.value(a), self.value(b), self.value(c));
                    }
                    Step::Load {
                        param,
                        out,
                        slot,
                        moved,
                        to,
                    } => self.load((param, to), out, slot, moved, lanes),
                    Step::LoadAt {
                        param,
                        out,
                        slot,
                        index,
                        single,
                    } => {
                        self.load_at(param, (out, slot), index, single, lanes);
                    }
                    Step::Index { axis, out } => self.indices(axis, out, lanes),
                    Step::Rand { f, out, key, counter } => {
                        f(n, self.value(out), self.value(key), self.value(counter));
                    }
                    Step::Aim { param, value, slot } => {
                        let p = param as usize;
                        let direct = !self.launch.held_back[p] && self.is_unit(p, lanes);
                        let address = if direct { *self.at.add(p) } else { self.slot(slot) };
                        self.point(value, address);
                    }
                    Step::Store { param, value } => self.store(param, value, lanes),
                    Step::Reduce { reduce, arg } => {
                        self.ask();
                        self.reduce(reduce as usize, arg, lanes);
                    }
                }
            }
        }
    }

    /// Whether the parameter's elements of the block stand one after the other.
    #[inline(always)]
    pub(super) fn is_unit(&self, p: usize, lanes: Lanes) -> bool {
        let Lanes::Block(n) = lanes else { return true };
        if n == 1 || self.launch.flat[p] && self.tile.is_none() {
            return true;
        }
        let space = &self.launch.lanes;
        let last = space.rank - 1;
        let within = self.start[last] + n as u64 <= space.extents[last];
        within && self.tile.is_none() && space.of(p)[last] == 1
    }

    /// The shape of a block of `n` positions, for the moves.
    pub(super) fn shape(&self, n: usize) -> Shape<'_> {
        let tile = self
            .tile
            .map(|(rows, columns)| (self.launch.tile_axis, rows, columns));
        Shape {
            isa: self.launch.plan.isa,
            space: &self.launch.lanes,
            start: &self.start,
            n,
            tile,
        }
    }

    unsafe fn load(
        &mut self,
        (param, to): (u32, Option<u32>),
        out: Value,
        slot: u32,
        moved: bool,
        lanes: Lanes,
    ) {
        let p = param as usize;
        // SAFETY: the caller's promise.
        unsafe {
            let at = *self.at.add(p);
            let n = if let Lanes::Block(n) = lanes { n } else { 1 };
            let size = self.launch.sizes[p] as usize;
            if self.is_unit(p, lanes) {
                if !(moved && self.launch.shared[p]) || slot == NO_SLOT {
                    return self.point(out, at);
                }
                self.slot(slot).copy_from_nonoverlapping(at, n * size);
            } else {
                let direct = to.map(|to| to as usize).filter(|&to| {
                    !self.launch.held_back[to] && !self.launch.stream && self.is_unit(to, lanes)
                });
                let place = direct.map_or_else(|| self.slot(slot), |to| *self.at.add(to));
                self.shape(n).gather(size, place, at, p);
                return self.point(out, place);
            }
            self.point(out, self.slot(slot));
        }
    }

    /// Gathers to where `out` points; a line of neighbours stays where it is, and `out` points there.
    unsafe fn load_at(
        &mut self,
        param: u32,
        (out, slot): (Value, u32),
        index: Value,
        single: bool,
        lanes: Lanes,
    ) {
        let p = param as usize;
        let arg = &self.launch.args.args[p];
        let size = self.launch.sizes[p] as usize;
        let (gather_stride, gather_extent) = (arg.gather_stride, arg.gather_extent);
        let mut look = Lookup {
            size,
            stride: 0,
            gather_stride,
            gather_extent,
        };
        let index = self.value(index).cast::<i64>().cast_const();
        // SAFETY: the caller's promise.
        unsafe {
            let at = *self.at.add(p);
            let Lanes::Block(n) = lanes else {
                return look.run(self.value(out), at, index, true, 1);
            };
            let space = &self.launch.lanes;
            look.stride = space.of(p)[space.rank - 1];
            // A block of lines that are gathered ends with the line.
            if self.launch.still.is_some() && single && look.stride == 1 && slot != NO_SLOT {
                match look.offset(*index) {
                    Some(offset) => return self.point(out, at.wrapping_offset(offset)),
                    None => self.point(out, self.slot(slot)),
                }
            }
            let to = self.value(out);
            // A line of the input of which much is read, in no order: the next one is asked for in order.
            let bytes = gather_extent.saturating_mul(size as u64) as usize;
            if !single
                && look.stride == 0
                && gather_stride == 1
                && bytes <= LINE.saturating_mul(n).min(NEAR)
                && space.rank > 1
            {
                let next = space.of(p)[space.rank - 2] as isize * size as isize;
                prefetch::ask(at.wrapping_offset(next), bytes);
            }
            self.shape(n).stretches(p, |first, length, offset| {
                let from = at.offset(offset as isize * size as isize);
                let index = if single { index } else { index.add(first) };
                look.run(to.add(first * size), from, index, single, length);
            });
        }
    }

    unsafe fn indices(&mut self, axis: u32, out: Value, lanes: Lanes) {
        let to = self.value(out).cast::<i64>();
        let n = if let Lanes::Block(n) = lanes { n } else { 1 };
        // SAFETY: the block holds n elements.
        unsafe {
            let fill = |value: u64| (0..n).for_each(|i| *to.add(i) = value as i64);
            if let Some(k) = self.launch.other.find(axis) {
                return fill(self.other[k]);
            }
            let (Some(k), Lanes::Block(_)) = (self.launch.lanes.find(axis), lanes) else {
                return fill(0);
            };
            let space = &self.launch.lanes;
            let run = |from: u64, to: *mut i64, n: usize| {
                (0..n).for_each(|i| *to.add(i) = (from + i as u64) as i64);
            };
            if let Some((rows, columns)) = self.tile {
                for row in 0..rows {
                    let to = to.add(row * columns);
                    if k == space.rank - 1 {
                        run(self.start[k], to, columns);
                    } else {
                        let along = u64::from(k == self.launch.tile_axis) * row as u64;
                        (0..columns).for_each(|i| *to.add(i) = (self.start[k] + along) as i64);
                    }
                }
                return;
            }
            if space.rank == 1 {
                return run(self.start[0], to, n);
            }
            let (last, mut index, mut done) = (space.rank - 1, self.start, 0);
            while done < n {
                let length = ((space.extents[last] - index[last]) as usize).min(n - done);
                if k == last {
                    run(index[k], to.add(done), length);
                } else {
                    (0..length).for_each(|i| *to.add(done + i) = index[k] as i64);
                }
                done += length;
                index[last] = space.extents[last] - 1;
                space.advance(&mut index);
            }
        }
    }

    unsafe fn store(&mut self, param: u32, value: Value, lanes: Lanes) {
        let p = param as usize;
        let from = self.value(value);
        // SAFETY: the caller's promise.
        unsafe {
            let at = *self.at.add(p);
            if at == from {
                return;
            }
            let size = self.launch.sizes[p] as usize;
            let Lanes::Block(n) = lanes else {
                return moves::copy_one(size, at, from);
            };
            let stream = self.launch.stream;
            if !self.is_unit(p, lanes) {
                self.shape(n).scatter(size, at, from, p, stream);
            } else if stream {
                past::stream(self.launch.plan.isa, at, from, n * size);
            } else {
                at.copy_from(from, n * size);
            }
        }
    }

    unsafe fn reduce(&mut self, r: usize, arg: Value, lanes: Lanes) {
        let x = self.value(arg).cast_const();
        let state = self.state(r);
        let Lanes::Block(n) = lanes else { return };
        let reduce = &self.plan.reduces[r];
        // SAFETY: the state was sized for the reduction.
        unsafe {
            match (self.plan.along, reduce.loops) {
                (Along::Inner, Reduction::Fold { row, .. }) => row(n, state, x),
                (Along::Inner, Reduction::Best { row, .. }) => row(n, state.cast(), x, self.j as i64),
                (Along::Outer, Reduction::Fold { accumulate, .. }) => {
                    let lane = self.j as usize % LANES;
                    accumulate(n, state.add(lane * n * reduce.size), x);
                }
                (Along::Outer, Reduction::Best { column, .. }) => {
                    let places = state.add(self.launch.block * 8).cast();
                    column(n, state, places, x, 0, self.j as i64, 1);
                }
            }
        }
    }
}
