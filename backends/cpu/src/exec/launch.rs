//! What is decided per launch: which plan, how the spaces are walked, how the work is split.

use super::plan::{Along, BLOCK, Plan};
use super::program::{Compiled, Program};
use super::space::{MAX_AXES, Space, full_strides};
use super::{Args, columns, rows};
use crate::loops::SEGMENT;
use crate::parallel::Parallel;
use smallvec::SmallVec;
use thalweg_hal::ir::{Level, Role};

/// Bytes of kept values in a row up to which they are kept; beyond, they are computed again.
const KEEP_ROW: u64 = 256 << 10;
/// The same for a block of rows.
const KEEP_ROWS: u64 = 512 << 10;
/// Lanes of a block of rows in a kernel with reductions.
const ROW_BLOCK: usize = 512;
/// Outputs of at least this many bytes are written past the caches.
const STREAM: u64 = 8 << 20;
/// Inputs of at least this many bytes are asked for ahead of time.
const FETCH: u64 = 1 << 20;
/// Nanoseconds below which a launch stays on one thread.
const SPLIT: u64 = 12_000;

/// A launch of one plan.
pub(super) struct Launch<'a> {
    pub(super) plan: &'a Plan,
    pub(super) args: &'a Args<'a>,
    /// Bytes of an element of each parameter.
    pub(super) sizes: &'a [u8],
    /// The space that the lanes run along.
    pub(super) lanes: Space,
    /// The space that is walked point by point.
    pub(super) other: Space,
    /// Whether the parameter's elements stand one after the other along the lanes.
    pub(super) flat: SmallVec<[bool; 16]>,
    /// Inputs that share memory with an output.
    pub(super) shared: SmallVec<[bool; 16]>,
    /// Outputs that are written at the end of a block alone.
    pub(super) held_back: SmallVec<[bool; 16]>,
    /// Whether outputs are written past the caches.
    pub(super) stream: bool,
    /// Large flat inputs and their element sizes.
    pub(super) streams: SmallVec<[(u32, u32); 8]>,
    /// Most lanes of a block.
    pub(super) block: usize,
    /// Elements that a kept value has room for.
    pub(super) keep_elements: usize,
    /// Levels of the tree that adds segments up, for blocks of rows.
    pub(super) levels: usize,
}

impl Program {
    pub(super) fn launch(&self, args: &Args<'_>, parallel: &dyn Parallel) {
        if self.flat {
            return self.launch_flat(args, parallel);
        }
        let full = full_strides(&self.kernel, args);
        let strides = (&full[..], self.kernel.params.len());
        for compiled in &self.parts {
            let rank = args.extents.len();
            let outer = self.kernel.outer as usize;
            let outer_axes = if compiled.part.merged { 0..rank } else { 0..outer };
            let inner_axes = if compiled.part.merged {
                rank..rank
            } else {
                outer..rank
            };
            let outer_total: u64 = args.extents[outer_axes.clone()].iter().product();
            if outer_total == 0 {
                continue;
            }
            let element_total = args.extents[inner_axes.clone()].iter().product::<u64>();
            let along = self.direction(compiled, args, &full);
            let (lanes, other) = match along {
                Along::Outer => (
                    Space::new(
                        args.extents,
                        outer_axes,
                        strides,
                        self.pinned,
                        Some(&self.priority),
                    ),
                    Space::new(args.extents, inner_axes, strides, self.pinned, None),
                ),
                Along::Inner => (
                    Space::new(args.extents, inner_axes, strides, self.pinned, None),
                    Space::new(args.extents, outer_axes, strides, self.pinned, None),
                ),
            };
            let launch = self.prepare(compiled, along, args, lanes, other, element_total);
            launch.go(self.cost(args.extents), parallel);
        }
    }

    /// A map whose parameters are all contiguous or single: one space of one axis.
    fn launch_flat(&self, args: &Args<'_>, parallel: &dyn Parallel) {
        let total: u64 = args.extents.iter().product();
        if total == 0 {
            return;
        }
        for compiled in &self.parts {
            let mut lanes = Space::line(total, self.kernel.params.len());
            for p in 0..self.kernel.params.len() {
                lanes.strides[p] = self.flat_strides[p];
            }
            let other = Space::line(1, 0);
            let launch = self.prepare(compiled, Along::Outer, args, lanes, other, 1);
            launch.go(self.cost(args.extents), parallel);
        }
    }

    /// Which space the lanes run along.
    fn direction(&self, compiled: &Compiled, args: &Args<'_>, full: &[i64]) -> Along {
        if compiled.outer_again.phases.is_empty() || compiled.inner_keep.is_none() {
            return Along::Outer;
        }
        let (outer, rank) = (self.kernel.outer as usize, args.extents.len());
        let rows: u64 = args.extents[..outer].iter().product();
        let length: u64 = args.extents[outer..].iter().product();
        if rows < 32 || length == 0 {
            return Along::Inner;
        }
        let mut votes = 0i64;
        for (p, param) in self.kernel.params.iter().enumerate() {
            if param.level == Level::Row {
                continue;
            }
            let own = &full[p * rank..(p + 1) * rank];
            let axis = (outer..rank).rev().find(|&a| args.extents[a] != 1);
            let along_inner = axis.is_some_and(|a| own[a] == 1);
            let along_outer = (0..outer).any(|a| args.extents[a] != 1 && own[a] == 1);
            votes += i64::from(along_inner) - i64::from(along_outer);
        }
        if votes < 0 || length <= SHORT_ROW && rows >= 64 {
            Along::Outer
        } else {
            Along::Inner
        }
    }

    fn prepare<'a>(
        &'a self,
        compiled: &'a Compiled,
        along: Along,
        args: &'a Args<'a>,
        lanes: Space,
        other: Space,
        length: u64,
    ) -> Launch<'a> {
        let mut block = BLOCK;
        let mut plan = &compiled.outer_again;
        let mut keep_elements = 0;
        match (along, &compiled.inner_keep, &compiled.outer_keep) {
            (Along::Inner, Some(keep), _) => {
                let bytes = keep.kept_bytes() as u64 * length;
                plan = keep;
                if bytes > KEEP_ROW {
                    plan = compiled.inner_again.as_ref().unwrap_or(keep);
                }
                keep_elements = if plan.kept.is_empty() { 0 } else { length as usize };
            }
            (Along::Outer, _, Some(keep)) => {
                block = if length <= 16 { BLOCK } else { ROW_BLOCK };
                let row = keep.kept_bytes() as u64 * length;
                let fits = (KEEP_ROWS / row.max(1)) as usize / 64 * 64;
                if fits >= 64 || row == 0 {
                    plan = keep;
                    block = block.min(fits.max(64));
                    keep_elements = if row == 0 { 0 } else { block * length as usize };
                }
            }
            _ => {}
        }
        let params = &self.kernel.params;
        let ins = |p: usize| params[p].role == Role::In;
        let mut launch = Launch {
            plan,
            args,
            sizes: &self.sizes,
            flat: (0..params.len()).map(|p| lanes.is_flat(p)).collect(),
            shared: SmallVec::from_elem(false, params.len()),
            held_back: SmallVec::from_elem(false, params.len()),
            stream: false,
            streams: SmallVec::new(),
            block,
            keep_elements,
            levels: length.div_ceil(SEGMENT as u64).max(1).ilog2() as usize + 2,
            lanes,
            other,
        };
        for o in (0..params.len()).filter(|&p| !ins(p)) {
            for i in (0..params.len()).filter(|&p| ins(p)) {
                if args.args[o].ptr == args.args[i].ptr {
                    launch.shared[i] = true;
                    launch.held_back[o] = true;
                }
            }
        }
        let elements = launch.lanes.total.saturating_mul(launch.other.total);
        if elements >= FETCH / 8 {
            for p in 0..params.len() {
                let size = u64::from(self.sizes[p]);
                if ins(p) && launch.flat[p] && launch.lanes.of(p).last() == Some(&1) {
                    if elements * size >= FETCH {
                        launch.streams.push((p as u32, size as u32));
                    }
                } else if !ins(p) && plan.phases.is_empty() && !launch.held_back[p] {
                    launch.stream |= elements * size >= STREAM;
                }
            }
            if launch.stream {
                launch.held_back.iter_mut().for_each(|h| *h = true);
            }
        }
        launch
    }
}

/// Rows up to this length are walked in blocks of rows.
const SHORT_ROW: u64 = 24;

impl Launch<'_> {
    fn go(&self, cost: u64, parallel: &dyn Parallel) {
        let threads = if cost < SPLIT { 1 } else { parallel.threads() };
        match self.plan.along {
            Along::Outer => columns::run(self, threads, parallel),
            Along::Inner => rows::run(self, threads, parallel),
        }
    }

    /// Splits `units` of equal work into tasks of neighbours and runs them.
    pub(super) fn split(
        &self,
        units: u64,
        threads: usize,
        parallel: &dyn Parallel,
        body: &(dyn Fn(std::ops::Range<u64>) + Sync),
    ) {
        if threads <= 1 || units <= 1 {
            return body(0..units);
        }
        let tasks = units.min(threads as u64 * TASKS_PER_THREAD);
        parallel.run(tasks as usize, &|task| {
            let at = |t: u64| (u128::from(units) * u128::from(t) / u128::from(tasks)) as u64;
            body(at(task as u64)..at(task as u64 + 1));
        });
    }

    /// Offset in bytes of parameter `p` at a multi-index of the lanes and one of the other space.
    pub(super) fn offset(&self, p: usize, lane: &[u64; MAX_AXES], other: &[u64; MAX_AXES]) -> isize {
        let elements = self
            .lanes
            .offset(p, lane)
            .wrapping_add(self.other_offset(p, other));
        elements as isize * self.sizes[p] as isize
    }

    fn other_offset(&self, p: usize, other: &[u64; MAX_AXES]) -> i64 {
        if self.other.strides.is_empty() {
            0
        } else {
            self.other.offset(p, other)
        }
    }
}

/// Tasks per thread, so that a late thread does not hold the others up.
const TASKS_PER_THREAD: u64 = 4;
