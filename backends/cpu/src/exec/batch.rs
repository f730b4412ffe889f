//! Rows of chains, a batch of rows at a time.
//!
//! Where chains are all that a plan does with elements, a phase runs over the rows of a batch before the next one begins,
//! and a row-level step computes the values of all its rows in one call. Row-level values have a cell with a place for
//! each row; constants and scalars are repeated in theirs.

use super::arena::Scratch;
use super::build::Draft;
use super::launch::{FETCH, Launch, SHORT_WALK};
use super::moves::{copy_one, fence};
use super::plan::{Along, Home, Plan, Step, Value};
use super::space::MAX_AXES;
use crate::loops::{Chain, Code, Fetch, MOST_LINKS, Pattern, Place};
use crate::parallel::Parallel;
use crate::prefetch::LINE;
use arrayvec::ArrayVec;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::ops::Range;

/// Most rows of a batch.
const MOST_ROWS: usize = 16;
/// Bytes of a batch that are read more than once: they stay in the first-level cache from phase to phase.
const BYTES: usize = 24 << 10;
/// Bytes of a cell.
const CELL: usize = 8 * MOST_ROWS;
/// Streams of memory that are asked for.
const MOST_FETCHES: usize = 8;
/// The value has no cell.
const NO_CELL: u32 = u32::MAX;

/// What a link refers to.
#[derive(Clone, Copy)]
enum Spot {
    Param(u32),
    Kept(u32),
    Cell(u32),
}

/// A chain.
struct Walk {
    pattern: Pattern,
    spots: ArrayVec<Spot, MOST_LINKS>,
    /// The output that it writes.
    output: Option<u32>,
}

/// A plan as chains over batches of rows.
pub(super) struct Batch {
    /// Cell of each value.
    cells: Box<[u32]>,
    /// Of each cell: the bytes of an element, and the value that lives there.
    owners: Box<[(u8, Value)]>,
    phases: Box<[Box<[Walk]>]>,
    /// Whether an output may stand in the memory of an input.
    in_place: bool,
    /// The longest chain: it asks for the batch that follows.
    asks: usize,
    /// Parameters that chains walk, and whether they are written.
    walked: Box<[(u32, bool)]>,
}

impl Batch {
    /// The plan as chains, if that is all it does with elements.
    pub(super) fn of(plan: &Plan, drafts: &[Draft]) -> Option<Batch> {
        if plan.along != Along::Inner {
            return None;
        }
        let mut owners = Vec::new();
        let mut cells = vec![NO_CELL; drafts.len()];
        for (v, home) in plan.homes.iter().enumerate() {
            if matches!(home, Home::Constant(_) | Home::Scalar(_) | Home::Cell(_)) {
                cells[v] = owners.len() as u32;
                owners.push((drafts[v].size as u8, v as Value));
            }
        }
        let has_cell = |v: Value| cells[v as usize] != NO_CELL;
        let rows = plan.phases.iter().flat_map(|phase| &phase.row);
        let row_level = |step: &Step| match *step {
            Step::Loop { out, a, b, c, .. } => [out, a, b, c].into_iter().all(has_cell),
            Step::Load { out: v, .. } | Step::Store { value: v, .. } => has_cell(v),
            Step::LoadAt { .. }
            | Step::Index { .. }
            | Step::Rand { .. }
            | Step::Aim { .. }
            | Step::Reduce { .. }
            | Step::Chain { .. } => false,
        };
        if !plan.uniform.iter().chain(&plan.row).chain(rows).all(row_level) {
            return None;
        }
        let mut batch = Batch {
            cells: cells.into_boxed_slice(),
            owners: owners.into_boxed_slice(),
            phases: Box::new([]),
            in_place: true,
            asks: 0,
            walked: Box::new([]),
        };
        let mut walked: Vec<(u32, bool)> = Vec::new();
        let mut phases = Vec::new();
        for phase in &plan.phases {
            let walks = batch.walks(plan, &phase.element)?;
            batch.in_place &= walks.len() == 1 || walks.iter().all(|walk| walk.output.is_none());
            for walk in &walks {
                for spot in &walk.spots {
                    if let Spot::Param(p) = *spot
                        && !walked.iter().any(|&(q, _)| p == q)
                    {
                        walked.push((p, walk.output == Some(p)));
                    }
                }
            }
            phases.push(walks.into_boxed_slice());
        }
        let lengths = phases.iter().flatten().map(|walk: &Walk| walk.spots.len());
        batch.asks = lengths
            .enumerate()
            .min_by_key(|&(_, links)| Reverse(links))
            .map_or(0, |(k, _)| k);
        batch.phases = phases.into_boxed_slice();
        batch.walked = walked.into_boxed_slice();
        Some(batch)
    }

    /// The chains of a list of elements.
    fn walks(&self, plan: &Plan, list: &[Step]) -> Option<Vec<Walk>> {
        let mut params: SmallVec<[(Value, u32); 8]> = SmallVec::new();
        let mut aimed: SmallVec<[(Value, u32); 4]> = SmallVec::new();
        let mut walks = Vec::new();
        for step in list {
            match *step {
                Step::Load { param, out, .. } => params.push((out, param)),
                Step::Aim { param, value, .. } => aimed.push((value, param)),
                Step::Store { param, value } if aimed.contains(&(value, param)) => {}
                Step::Chain { chain } => {
                    let (pattern, links) = &plan.chains[chain as usize];
                    let mut spots = ArrayVec::new();
                    let mut output = None;
                    for link in links {
                        let v = match link.code.reduces() {
                            true => plan.reduces[link.value as usize].result,
                            false => link.value,
                        };
                        let aim = aimed.iter().find(|&&(value, _)| value == v);
                        let load = params.iter().find(|&&(value, _)| value == v);
                        let spot = match (aim.or(load), plan.homes[v as usize]) {
                            (Some(&(_, param)), _) => Spot::Param(param),
                            (None, Home::Keep(kept)) => Spot::Kept(kept),
                            (None, Home::Slot(_)) => return None,
                            (None, Home::Constant(_) | Home::Scalar(_) | Home::Cell(_)) => {
                                Spot::Cell(self.cells[v as usize])
                            }
                        };
                        if let (Code::Store, Spot::Param(p)) = (link.code, spot) {
                            output = Some(p);
                        }
                        spots.push(spot);
                    }
                    walks.push(Walk {
                        pattern: *pattern,
                        spots,
                        output,
                    });
                }
                Step::Loop { .. }
                | Step::LoadAt { .. }
                | Step::Index { .. }
                | Step::Rand { .. }
                | Step::Store { .. }
                | Step::Reduce { .. } => return None,
            }
        }
        Some(walks)
    }

    /// Whether a launch may walk batches.
    pub(super) fn fits(&self, launch: &Launch<'_>) -> bool {
        let length = launch.lanes.total;
        let in_place = launch.shared.iter().any(|&shared| shared);
        (1..=SHORT_WALK as u64).contains(&length)
            && self.walked.iter().all(|&(p, _)| launch.flat[p as usize])
            && (self.in_place || !in_place)
    }

    /// Runs a launch that fits.
    pub(super) fn run(&self, launch: &Launch<'_>, threads: usize, parallel: &dyn Parallel) {
        launch.split(launch.other.total, threads, parallel, &|rows| {
            Rows::new(self, launch).run(rows);
        });
    }
}

/// The state of one thread in a launch.
struct Rows<'a> {
    batch: &'a Batch,
    launch: &'a Launch<'a>,
    cells: *mut u8,
    /// Of every link of every chain.
    places: SmallVec<[Place; 3 * MOST_LINKS]>,
    /// Places that are a parameter's.
    moving: SmallVec<[(u32, u32); 8]>,
    /// Address of every parameter in the present row.
    at: SmallVec<[*mut u8; 8]>,
    /// Bytes from a row to the next, within the last axis.
    steps: SmallVec<[isize; 8]>,
    /// Rows of a batch.
    most: usize,
    past_caches: bool,
    /// Parameters that are asked for.
    streams: ArrayVec<u32, MOST_FETCHES>,
    _scratch: Scratch,
}

impl<'a> Rows<'a> {
    fn new(batch: &'a Batch, launch: &'a Launch<'a>) -> Rows<'a> {
        let (plan, other) = (launch.plan, &launch.other);
        let n = launch.lanes.total as usize;
        let size = |p: usize| usize::from(launch.sizes[p]);
        let last = other.rank - 1;
        let steps: SmallVec<[isize; 8]> = (0..launch.args.args.len())
            .map(|p| other.of(p)[last] as isize * size(p) as isize)
            .collect();
        let moves = |p: usize| other.of(p).iter().any(|&step| step != 0);
        // A line more, so that rows do not compete for the same cache sets.
        let kept_row = |size: usize| (size * n).next_multiple_of(LINE) + LINE;
        let kept: usize = plan.kept.iter().map(|kept| kept_row(kept.size)).sum();
        let walked = batch
            .walked
            .iter()
            .filter(|&&(p, written)| !written && moves(p as usize));
        let row: usize = kept + walked.map(|&(p, _)| n * size(p as usize)).sum::<usize>();
        let most = (BYTES / row.max(1)).clamp(1, MOST_ROWS);

        let scratch = Scratch::new(batch.owners.len() * CELL + kept * most);
        let cells = scratch.start();
        let mut places = SmallVec::new();
        let mut moving = SmallVec::new();
        for spot in batch.phases.iter().flatten().flat_map(|walk| &walk.spots) {
            places.push(match *spot {
                Spot::Param(p) => {
                    moving.push((places.len() as u32, p));
                    Place {
                        at: std::ptr::null_mut(),
                        step: steps[p as usize] as usize,
                    }
                }
                Spot::Kept(k) => {
                    let before: usize = plan.kept[..k as usize]
                        .iter()
                        .map(|kept| kept_row(kept.size))
                        .sum();
                    Place {
                        at: cells.wrapping_add(batch.owners.len() * CELL + before * most),
                        step: kept_row(plan.kept[k as usize].size),
                    }
                }
                Spot::Cell(cell) => Place {
                    at: cells.wrapping_add(cell as usize * CELL),
                    step: usize::from(batch.owners[cell as usize].0),
                },
            });
        }
        let lined = |&(p, written): &(u32, bool)| {
            let bytes = |elements: i64| elements as usize * size(p as usize);
            let whole = |address: usize| address.is_multiple_of(LINE);
            !written
                || whole(launch.args.args[p as usize].ptr as usize)
                    && other.of(p as usize).iter().all(|&step| whole(bytes(step)))
        };
        let past_caches = launch.stream && batch.walked.iter().all(lined);
        let large = |p: usize| other.total.saturating_mul((n * size(p)) as u64) >= FETCH;
        let streams = batch.walked.iter().filter(|&&(p, written)| {
            let p = p as usize;
            !written && moves(p) && large(p)
        });
        let mut rows = Rows {
            batch,
            launch,
            cells,
            places,
            moving,
            at: launch.args.args.iter().map(|arg| arg.ptr).collect(),
            steps,
            most,
            past_caches,
            streams: streams.take(MOST_FETCHES).map(|&(p, _)| p).collect(),
            _scratch: scratch,
        };
        rows.repeat();
        // SAFETY: the caller of the launch vouches for the parameters.
        unsafe { rows.list(&plan.uniform, most) };
        rows
    }

    /// Repeats constants and scalars in their cells.
    fn repeat(&mut self) {
        let plan = self.launch.plan;
        for (cell, &(size, v)) in self.batch.owners.iter().enumerate() {
            let bits = match plan.homes[v as usize] {
                Home::Constant(i) => &plan.pool[i as usize],
                Home::Scalar(i) => &self.launch.args.scalars[i as usize],
                Home::Cell(_) | Home::Slot(_) | Home::Keep(_) => continue,
            };
            let from = (&raw const *bits).cast();
            // SAFETY: a cell has room for an element of at most 8 bytes of each row.
            unsafe { spread(usize::from(size), self.cells.add(cell * CELL), from, 0, self.most) };
        }
    }

    fn run(&mut self, range: Range<u64>) {
        let (plan, other) = (self.launch.plan, &self.launch.other);
        let last = other.rank - 1;
        let mut index = [0; MAX_AXES];
        let mut row = range.start;
        while row < range.end {
            other.place(row, &mut index);
            let line = (other.extents[last] - index[last]).min(range.end - row);
            for (p, arg) in self.launch.args.args.iter().enumerate() {
                let offset = other.offset(p, &index) as isize * self.launch.sizes[p] as isize;
                self.at[p] = arg.ptr.wrapping_offset(offset);
            }
            let mut left = line as usize;
            while left > 0 {
                let rows = left.min(self.most);
                for &(place, p) in &self.moving {
                    self.places[place as usize].at = self.at[p as usize];
                }
                // SAFETY: the caller of the launch vouches for the parameters' elements of these rows.
                unsafe {
                    self.list(&plan.row, rows);
                    self.phases(rows);
                }
                for (at, step) in self.at.iter_mut().zip(&self.steps) {
                    *at = at.wrapping_offset(step * rows as isize);
                }
                left -= rows;
            }
            row += line;
        }
        if self.past_caches {
            fence();
        }
    }

    /// # Safety
    /// The parameters have the elements of `rows` rows from the present one on.
    unsafe fn phases(&mut self, rows: usize) {
        let n = self.launch.lanes.total as usize;
        let fetches = self.fetches();
        let (mut first, mut done) = (0, 0);
        for (walks, phase) in self.batch.phases.iter().zip(&self.launch.plan.phases) {
            for walk in walks {
                let links = walk.spots.len();
                let chain = Chain {
                    isa: self.launch.plan.isa,
                    pattern: walk.pattern,
                    places: &self.places[first..first + links],
                    rows,
                    n,
                    first: 0,
                    whole: true,
                    past_caches: self.past_caches && walk.output.is_some(),
                };
                let fetches = if done == self.batch.asks {
                    &fetches[..]
                } else {
                    &[]
                };
                // SAFETY: plans have chains where the machine has the instructions; the caller's promise.
                unsafe { chain.run(fetches) };
                first += links;
                done += 1;
            }
            // SAFETY: the caller's promise.
            unsafe { self.list(&phase.row, rows) };
        }
    }

    /// What is asked for while the present batch is walked: the next one.
    fn fetches(&self) -> ArrayVec<Fetch, MOST_FETCHES> {
        let fetch = |&p: &u32| {
            let p = p as usize;
            let bytes = self.launch.lanes.total as usize * usize::from(self.launch.sizes[p]);
            let lines = bytes.div_ceil(LINE);
            let ahead = self.steps[p] * self.most as isize;
            Fetch {
                from: self.at[p].wrapping_offset(ahead),
                step: self.steps[p] as usize,
                lines,
                written: false,
            }
        };
        self.streams.iter().map(fetch).collect()
    }

    fn cell(&self, v: Value) -> *mut u8 {
        self.cells
            .wrapping_add(self.batch.cells[v as usize] as usize * CELL)
    }

    /// A list of row level.
    ///
    /// # Safety
    /// As [`Rows::phases`].
    unsafe fn list(&mut self, steps: &[Step], rows: usize) {
        for step in steps {
            // SAFETY: cells have room for every row; the caller's promise.
            unsafe {
                match *step {
                    Step::Loop { f, out, a, b, c } => {
                        f.run(rows, self.cell(out), self.cell(a), self.cell(b), self.cell(c));
                    }
                    Step::Load { param, out, .. } => {
                        let p = param as usize;
                        let size = usize::from(self.launch.sizes[p]);
                        spread(size, self.cell(out), self.at[p], self.steps[p], rows);
                    }
                    Step::Store { param, value } => {
                        let p = param as usize;
                        let size = usize::from(self.launch.sizes[p]);
                        let from = self.cell(value);
                        for row in 0..rows {
                            let to = self.at[p].wrapping_offset(self.steps[p] * row as isize);
                            copy_one(size, to, from.add(row * size));
                        }
                    }
                    // A batch has none of these at row level.
                    Step::LoadAt { .. }
                    | Step::Index { .. }
                    | Step::Rand { .. }
                    | Step::Aim { .. }
                    | Step::Reduce { .. }
                    | Step::Chain { .. } => {}
                }
            }
        }
    }
}

/// Copies `count` elements that stand `step` bytes apart into neighbours.
///
/// # Safety
/// Both sides hold the elements, of 1, 2, 4 or 8 bytes.
unsafe fn spread(size: usize, to: *mut u8, from: *const u8, step: isize, count: usize) {
    for i in 0..count {
        // SAFETY: the caller's promise.
        unsafe { copy_one(size, to.add(i * size), from.wrapping_offset(step * i as isize)) };
    }
}
