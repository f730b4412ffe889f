//! What is decided per launch: which plan, how the spaces are walked, how the work is split.

use super::across::Across;
use super::chosen::Chosen;
use super::edges::Edges;
use super::frame::loops_of;
use super::long::Long;
use super::plan::{Along, BLOCK, Plan};
use super::program::{Compiled, Program};
use super::space::{MAX_AXES, Space, full_strides};
use super::still::Still;
use super::turned::Sheets;
use super::windows::Windows;
use super::{Args, coded, columns, rows};
use crate::codegen::Rows;
use crate::isa::is_of_amd;
use crate::loops::SEGMENT;
use crate::parallel::Parallel;
use crate::prefetch::LINE;
use smallvec::SmallVec;
use thalweg_hal::ir::{Level, Param, Role};

/// Bytes of kept values in a row up to which they are kept; beyond, they are computed again.
const KEEP_ROW: u64 = 256 << 10;
/// The same for a block of rows.
const KEEP_ROWS: u64 = 512 << 10;
/// Lanes of a block of rows in a kernel with reductions. Element `j` of all rows is a line of a sheet: with a power of two, lines would
/// share a few sets of the first cache.
const ROW_BLOCK: usize = 704;
/// Outputs of at least this many bytes are written past the caches.
pub(crate) const STREAM: u64 = 8 << 20;
/// Inputs of at least this many bytes are asked for ahead of time.
pub(super) const FETCH: u64 = 1 << 20;
/// Nanoseconds below which a launch stays on one thread.
pub(super) const SPLIT: u64 = 12_000;

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
    /// Inputs that are asked for ahead of time.
    pub(super) streams: SmallVec<[Stream; 4]>,
    /// Axis of the lanes along which a block has rows, when blocks are tiles.
    pub(super) tile_axis: usize,
    /// Of short rows.
    pub(super) sheets: Sheets,
    /// Of a map that gathers whole lines.
    pub(super) still: Option<Box<Still<'a>>>,
    /// Of a map that gathers by indices of a line.
    pub(super) across: Option<Box<Across<'a>>>,
    /// Rows and columns of a tile, 0 without tiles.
    pub(super) tile: (usize, usize),
    /// Most lanes of a block.
    pub(super) block: usize,
    /// Elements that a kept value has room for.
    pub(super) keep_elements: usize,
    /// Machine code of the phases, for rows longer than a segment or with lines.
    pub(super) long: Option<&'a Long>,
    /// What is outside of an input that windows read.
    pub(super) edges: Option<Edges>,
    /// Windows along lines that are reduced in two passes.
    pub(super) windows: Option<Windows>,
    /// What the phases are, where windows may go in one pass.
    pub(super) chosen: Option<Chosen>,
    /// Levels of the tree that adds segments up, for blocks of rows.
    pub(super) levels: usize,
}

/// Elements of a block per loop when memory is the limit: a step asks for no more lines than the core has buffers for.
pub(super) const STRIDE: usize = 256;

/// An input that is asked for ahead of time.
pub(super) struct Stream {
    pub(super) param: usize,
    pub(super) size: usize,
    /// Bytes from what is worked on to what is asked for.
    pub(super) ahead: usize,
    /// An output.
    pub(super) written: bool,
}

impl Program {
    pub(super) fn launch(&self, args: &Args<'_>, parallel: &dyn Parallel) {
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
            let mut launch = self.prepare(compiled, along, args, lanes, other, element_total);
            if let Some(windows) = Windows::of(&launch, None) {
                launch.walk(windows);
            }
            launch.go(self.coded.as_ref(), self.cost(args.extents), parallel);
        }
    }

    /// Which space the lanes run along.
    pub(super) fn direction(&self, compiled: &Compiled, args: &Args<'_>, full: &[i64]) -> Along {
        if compiled.outer_again.phases.is_empty() || compiled.inner_keep.is_none() {
            return Along::Outer;
        }
        let (outer, rank) = (self.kernel.outer as usize, args.extents.len());
        let rows: u64 = args.extents[..outer].iter().product();
        let length: u64 = args.extents[outer..].iter().product();
        if rows < 32 || length == 0 {
            return Along::Inner;
        }
        let (mut votes, mut together, mut apart) = (0i64, false, u64::MAX);
        for (p, param) in self.kernel.params.iter().enumerate() {
            if param.level == Level::Row {
                continue;
            }
            let own = &full[p * rank..(p + 1) * rank];
            let axis = (outer..rank).rev().find(|&a| args.extents[a] != 1);
            let along_inner = axis.is_some_and(|a| own[a] == 1);
            let along_outer = (0..outer).find(|&a| args.extents[a] != 1 && own[a] == 1);
            votes += i64::from(along_inner) - i64::from(along_outer.is_some());
            together |= along_inner && (0..outer).any(|a| args.extents[a] != 1 && own[a] != 0);
            if let Some(axis) = along_outer {
                apart = apart.min(args.extents[axis]);
            }
        }
        let one_axis = args.extents[outer..]
            .iter()
            .filter(|&&extent| extent != 1)
            .count()
            == 1;
        // Code transposes what stands apart.
        if self.coded.is_some() && one_axis && apart < u64::MAX {
            let again = compiled.outer_again.phases.len() > 1;
            if together || again && apart < LEAST_LINE {
                return Along::Inner;
            }
        }
        if votes < 0 || length <= SHORT_ROW && rows >= 64 {
            Along::Outer
        } else {
            Along::Inner
        }
    }

    pub(super) fn prepare<'a>(
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
        let long = match along {
            Along::Inner if length == 0 => None,
            Along::Inner => (self.lined(&compiled.part, &lanes))
                .or_else(|| (length > SEGMENT as u64).then(|| self.long(&compiled.part))?),
            Along::Outer => None,
        };
        match (along, &compiled.inner_keep, &compiled.outer_keep) {
            (Along::Inner, Some(keep), _) => {
                let bytes = keep.kept_bytes() as u64 * length;
                plan = keep;
                if bytes > KEEP_ROW || length > SEGMENT as u64 || long.is_some() {
                    plan = compiled.inner_again.as_ref().unwrap_or(keep);
                }
                keep_elements = if plan.kept.is_empty() { 0 } else { length as usize };
                let loops = plan.phases.first().map_or(1, |p| loops_of(&p.element));
                // Only what is a run of memory is asked for ahead of time.
                let large = lanes.rank == 1 && length.saturating_mul(other.total) >= FETCH / 4;
                block = match large && length > BLOCK as u64 {
                    true => STRIDE * loops.min(2),
                    false => BLOCK,
                };
            }
            (Along::Outer, _, Some(keep)) => {
                // Rows of several axes, as windows are, get no sheets.
                block = if length <= 16 && other.rank > 1 {
                    BLOCK
                } else {
                    ROW_BLOCK
                };
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
            keep_elements,
            long,
            chosen: self.chosen.filter(|_| along == Along::Outer),
            levels: length.div_ceil(SEGMENT as u64).max(1).ilog2() as usize + 2,
            ..Launch::plain(plan, args, &self.sizes, lanes, other, block)
        };
        for o in (0..params.len()).filter(|&p| !ins(p)) {
            for i in (0..params.len()).filter(|&p| ins(p)) {
                if args.args[o].ptr == args.args[i].ptr {
                    launch.shared[i] = true;
                    launch.held_back[o] = true;
                }
            }
        }
        launch.tiles(params);
        launch.habits(params);
        // After that nothing of a sheet is asked for, shared or held back.
        launch.sheets = Sheets::of(&launch);
        launch.still = Still::of(&launch).map(Box::new);
        let code = launch
            .still
            .as_ref()
            .and_then(|still| self.gathered(&launch, still));
        if let Some(still) = &mut launch.still {
            still.code = code;
        }
        launch.across = Across::of(&launch).map(Box::new);
        for turned in &launch.sheets.list {
            launch.flat[turned.param] = true;
            launch.shared[turned.param] = false;
            launch.held_back[turned.param] = false;
        }
        launch
    }
}

/// Rows that stand beside each other in memory are walked so, if there are so many before the next ones.
const LEAST_LINE: u64 = 256;
/// Rows up to this length are walked in blocks of rows.
pub(super) const SHORT_ROW: u64 = 24;

/// Rows and columns of a tile of a launch whose widest elements have so many bytes. Writes past the caches need whole lines of 64 bytes.
/// Prefetchers follow up to 32 streams, and so many lines a power of two apart fit in a second-level cache. Processors of AMD
/// write fewer and longer rows faster, where what is written stays in a cache or begins within a line.
fn tile(widest: usize, lanes: &Space) -> (usize, usize) {
    let bytes = |elements: u64| elements.saturating_mul(widest as u64);
    let past_caches =
        bytes(lanes.total) >= STREAM && bytes(lanes.extents[lanes.rank - 1]).is_multiple_of(LINE as u64);
    if widest < 4 || is_of_amd() && !past_caches {
        (16, 64)
    } else {
        (32, 32)
    }
}

impl<'a> Launch<'a> {
    /// One without habits, of a map.
    pub(super) fn plain(
        plan: &'a Plan,
        args: &'a Args<'a>,
        sizes: &'a [u8],
        lanes: Space,
        other: Space,
        block: usize,
    ) -> Launch<'a> {
        let params = args.args.len();
        Launch {
            plan,
            args,
            sizes,
            flat: (0..params).map(|p| lanes.is_flat(p)).collect(),
            shared: SmallVec::from_elem(false, params),
            held_back: SmallVec::from_elem(false, params),
            stream: false,
            streams: SmallVec::new(),
            sheets: Sheets::default(),
            still: None,
            across: None,
            tile_axis: 0,
            tile: (0, 0),
            block,
            keep_elements: 0,
            long: None,
            edges: None,
            windows: None,
            chosen: None,
            levels: 0,
            lanes,
            other,
        }
    }
}

impl Launch<'_> {
    /// Makes blocks tiles where a parameter runs along another axis than the last.
    fn tiles(&mut self, params: &[Param]) {
        let last = self.lanes.rank - 1;
        if last == 0 || !self.plan.phases.is_empty() || self.lanes.extents[last] < 4 {
            return;
        }
        let across = |p: usize| {
            let own = self.lanes.of(p);
            let axis = own[..last].iter().position(|&s| s == 1);
            axis.filter(|&a| own[last] != 1 && own[last] != 0 && self.lanes.extents[a] >= 4)
        };
        if let Some(axis) = (0..params.len()).find_map(across) {
            self.tile_axis = axis;
            let widest = self.sizes.iter().copied().max().map_or(1, usize::from);
            self.tile = tile(widest, &self.lanes);
        }
    }

    /// Decides on prefetches and on writing past the caches.
    fn habits(&mut self, params: &[Param]) {
        let elements = self.lanes.total.saturating_mul(self.other.total);
        let map = self.plan.phases.is_empty();
        for (p, param) in params.iter().enumerate() {
            let size = usize::from(self.sizes[p]);
            let bytes = elements.saturating_mul(size as u64);
            let written = param.role == Role::Out;
            let full = map || self.plan.along == Along::Inner && param.level == Level::Element;
            if written && full && !self.held_back[p] && bytes >= STREAM {
                self.stream = true;
            } else if bytes >= FETCH && self.tile.0 == 0 {
                let unit = self.flat[p] && self.lanes.of(p).last() == Some(&1);
                let step = if self.other.strides.is_empty() {
                    0
                } else {
                    self.other.of(p)[self.other.rank - 1]
                };
                let ahead = match self.plan.along {
                    Along::Outer if !map => 2 * step as isize,
                    // A row of one block asks for the next row.
                    Along::Inner if written || self.lanes.total <= self.block as u64 => step as isize,
                    Along::Outer | Along::Inner => 2 * self.block as isize,
                };
                if unit && ahead != 0 && full | !written {
                    let ahead = (ahead * size as isize) as usize;
                    self.streams.push(Stream {
                        param: p,
                        size,
                        ahead,
                        written,
                    });
                }
            }
        }
        if self.stream {
            self.streams.retain(|s| !s.written);
        }
        if self.stream {
            self.held_back.iter_mut().for_each(|h| *h = true);
        }
    }

    fn go(&self, code: Option<&Rows>, cost: u64, parallel: &dyn Parallel) {
        let threads = if cost < SPLIT { 1 } else { parallel.threads() };
        match (self.plan.along, code) {
            (Along::Outer, _) => columns::run(self, threads, parallel),
            (Along::Inner, Some(code)) if coded::fits(code, self) => {
                coded::run(code, self, threads, parallel)
            }
            (Along::Inner, _) => rows::run(self, threads, parallel),
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
        let elements = self.lanes.total.saturating_mul(self.other.total);
        let tasks = units.min(tasks(elements, threads));
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

/// Into how many tasks a launch is split, so that a late thread does not hold the others up: a few per thread, and more where
/// a task would take long, as what the last one takes alone is lost.
pub(super) fn tasks(elements: u64, threads: usize) -> u64 {
    let threads = threads as u64;
    (elements / TASK_ELEMENTS).clamp(threads * 4, threads * 64)
}

/// Elements of a task of a large launch: 50 to 100 µs where memory is the limit.
const TASK_ELEMENTS: u64 = 512 << 10;
