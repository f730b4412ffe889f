//! The tiles of a block.

use super::points::{Points, nearest};
use super::{Direct, ZEROS};
use crate::isa::first_cache;
use crate::library::conv::forward::order::{Order, Orders};
use crate::library::conv::forward::rows::{HELD, PITCH, cut};
use crate::library::conv::forward::store::{Runs, is_finite, runs_of};
use crate::library::conv::forward::{Task, pack_tile, weights};
use crate::library::conv::geometry::Layout;
use crate::library::conv::product::follow;
use crate::library::conv::steps::{LATER, PLACES, Place, Step, StepArgs, TOGETHER};
use crate::library::gemm::{Stored, piece};
use smallvec::SmallVec;
use std::ops::Range;

/// Positions that are stored together.
const STORED: usize = PITCH / PLACES * PLACES;
/// Bytes of weights that L2 still has when the next block of positions meets them.
const KEPT: usize = 512 << 10;
/// Bytes of weights that all tiles meet before the next ones, and the same where L2 is busy with fetching weights and the first cache has
/// `ROOM` to keep some.
const NEAR: usize = 160 << 10;
const NEAR_FIRST: usize = 20 << 10;
const ROOM: usize = 48 << 10;
/// Bytes of weights that are packed by the task and met before the next ones are packed.
const PACKED_NEAR: usize = 128 << 10;
/// Places of a tile whose sums no longer wait for each other, of one, two or four registers a place.
const LEAST: [usize; 3] = [6, 4, 3];

/// The weights of a walk.
#[derive(Clone, Copy)]
pub(in super::super) enum Weights<S> {
    /// Those of all tiles of the group, packed.
    Packed(*const S),
    /// Room for those of the tiles that are computed together; nobody has packed them.
    Own(*mut S),
}

/// Computes the rows of the tiles `chosen`. Where `cold`, no task of this thread has met their weights.
///
/// # Safety
/// The task's memory is that of the block, `copy` is its copy, if there is one, and no one else writes the result's rows.
/// `orders` are what the last call of the launch left.
pub(in super::super) unsafe fn walk<T: Stored>(
    task: &Task<'_, T>,
    direct: &Direct,
    (sample, cold): (usize, bool),
    copy: *const T::Acc,
    chosen: Range<usize>,
    weights: Weights<T::Acc>,
    orders: &mut Option<Orders>,
) {
    let (job, plan, size) = (task.job, task.plan, task.block.size);
    let pitch = plan.at_once * plan.width;
    let least = LEAST[(pitch / task.kernels.tiles.rows[0].0).ilog2() as usize];
    let are_many = chosen.len() * plan.packed * size_of::<T::Acc>() > KEPT;
    let origin = direct.origin(task, sample, copy);
    let (positions, apart) = (size.iter().product::<usize>(), direct.apart(task));
    let strides = job.target.spatial;
    let is_even = follow(size, strides, nearest(size, strides));
    let mut t = chosen.start;
    while t < chosen.end {
        let rows_of = |panels: &Range<usize>| {
            let [first, last] =
                [panels.start, panels.end - 1].map(|panel| plan.rows_of(job.sizes.rows, panel).0);
            first.start..last.end
        };
        let fills = |panels: &Range<usize>| rows_of(panels).len() == panels.len() * plan.width;
        let mut panels = t..chosen.end.min(t + plan.at_once);
        // Places have kernels for a part of one panel, whose sums are in the result too.
        let has_parts = plan.result_beside && is_even && apart.is_some();
        if has_parts && !fills(&panels) {
            panels.end = t + 1;
        }
        t = panels.end;
        let (rows, is_whole) = (rows_of(&panels), fills(&panels));
        let part = match has_parts && !is_whole {
            true => plan.of_places(rows.len()),
            false => None,
        };
        let in_place = plan.result_beside && (is_whole || part.is_some());
        let (out, held) = match in_place {
            true => (job.target.spatial, usize::MAX),
            false => (
                [size[1] * size[2] * pitch, size[2] * pitch, pitch].map(usize::cast_signed),
                HELD * PLACES,
            ),
        };
        // Kernels that walk through the places by themselves, where there are some.
        let apart = apart.filter(|_| !in_place || is_even);
        let kernels = part.or_else(|| plan.of_places(panels.len() * plan.width));
        let even = apart.zip(kernels);
        let of = (task.block.at, out);
        if even.is_none() {
            let moved = orders.take().and_then(|before| before.moved(of, origin));
            *orders = Some(moved.unwrap_or_else(|| {
                let places = direct.places(task, origin, out);
                Orders::new(of, origin, &places, [held, least])
            }));
        }
        let weights = match weights {
            Weights::Packed(all) => Weights::Packed(all.wrapping_add(panels.start * plan.packed)),
            // Sums of some places at a time would ask for the first weights again.
            Weights::Own(own) if positions > held => {
                for panel in panels.clone() {
                    let to = own.wrapping_add((panel - panels.start) * plan.packed);
                    // SAFETY: the weights are the caller's, and so is the room for them.
                    unsafe { pack_tile(task.kernels, job, plan, (task.group, panel), to) };
                }
                Weights::Packed(own.cast_const())
            }
            own => own,
        };
        let walk = Walk {
            task,
            direct,
            panels,
            rows,
            weights,
            near: match are_many && first_cache() >= ROOM {
                true => NEAR_FIRST,
                false => NEAR,
            },
            asks: (cold || are_many) && !plan.local,
        };
        if let Some(([tap, apart], kernels)) = even {
            for some in cut(positions, held) {
                let points = Points {
                    at: origin.wrapping_offset(tap + some.start as isize * apart),
                    apart,
                    places: some.start as usize..some.end as usize,
                    kernels,
                };
                // SAFETY: the caller's contract.
                unsafe { walk.points(&points, in_place.then(|| nearest(size, out))) };
            }
            continue;
        }
        let mut start = 0;
        for order in orders.iter().flat_map(|orders| &orders.each) {
            // SAFETY: the caller's contract.
            unsafe {
                if in_place {
                    walk.in_place(order);
                } else {
                    walk.by_sums(order, start);
                }
            }
            start += order.len();
        }
    }
}

/// Some panels of rows.
pub(super) struct Walk<'a, T: Stored> {
    pub(super) task: &'a Task<'a, T>,
    direct: &'a Direct,
    pub(super) panels: Range<usize>,
    rows: Range<usize>,
    /// From those of the first panel on.
    weights: Weights<T::Acc>,
    /// Bytes of them that all tiles meet before the next ones.
    near: usize,
    /// Whether weights are asked for before they are met.
    asks: bool,
}

/// Steps whose weights all tiles meet before the next ones.
pub(super) struct Chunk<'a, S> {
    steps: &'a [Step],
    /// Terms, and those of the steps before.
    pub(super) terms: usize,
    pub(super) before: usize,
    pub(super) weights: *const S,
    /// Whether sums begin with these steps, and whether they end with them.
    pub(super) first: bool,
    last: bool,
    /// The weights of each panel that are met next, or those of the panels behind them.
    next: *const S,
    next_panel: usize,
}

/// Positions that are stored together: their sums, how many, and where they go.
type Held<S> = (*const S, usize, Runs);

impl<T: Stored> Walk<'_, T> {
    pub(super) fn row(&self) -> *mut T {
        let stride = self.task.job.target.row;
        self.task
            .target
            .wrapping_offset(self.rows.start as isize * stride)
    }

    /// Sums where the result lies.
    unsafe fn in_place(&self, order: &Order) {
        let row: *mut T::Acc = self.row().cast();
        // The places of a tile, before it is begun.
        let asked = |index: usize, [first, _]: [bool; 2]| {
            let places = order.places(&order.tiles[index]);
            let apart = places.get(1).map_or(0, |second| second.out - places[0].out);
            let step = if first { apart } else { 0 };
            (row.wrapping_byte_offset(places[0].out), step)
        };
        // SAFETY: the caller's contract; elements are sums.
        unsafe { self.sums(order, row, asked) };
    }

    /// Sums beside the result, to which they are copied; the first place is position `start` of the block.
    unsafe fn by_sums(&self, order: &Order, start: usize) {
        let (task, pitch) = (self.task, self.pitch());
        let target = &task.job.target;
        let some = self.held(start..start + order.len());
        // Some rows of the positions that are stored together, before the last of their sums are begun.
        let tiles = order.tiles.len().div_ceil(some.len());
        let asked = |index: usize, [_, last]: [bool; 2]| {
            let (_, _, runs) = &some[index / tiles];
            let row = index % tiles * self.rows.len().div_ceil(tiles);
            let to = self.row().wrapping_offset(row as isize * target.row + runs[0].at);
            match last && target.spatial[2] == 1 {
                true => (to.cast(), target.row * size_of::<T>() as isize),
                false => (task.sums, 0),
            }
        };
        // SAFETY: the caller's contract; there is room for the sums of `HELD` tiles.
        unsafe {
            self.sums(order, task.sums.wrapping_sub(start * pitch), asked);
            self.store(&some);
        }
    }

    /// Sums of a position.
    pub(super) fn pitch(&self) -> usize {
        self.task.plan.at_once * self.task.plan.width
    }

    /// Where the sums of positions of the block go that lie beside the result.
    pub(super) fn held(
        &self,
        positions: Range<usize>,
    ) -> SmallVec<[Held<T::Acc>; (HELD * PLACES).div_ceil(STORED)]> {
        let (task, size) = (self.task, self.task.block.size);
        let layout = Layout {
            block: size,
            extents: size,
            plane: size.iter().product(),
            samples: 1,
            phases: 1,
        };
        let strides = task.job.target.spatial;
        let some = positions.clone().step_by(STORED).map(|first| {
            let end = positions.end.min(first + STORED);
            let mut runs = Runs::new();
            runs_of(&layout, &task.block, strides, first..end, 0, &mut runs);
            let sums = task.sums.wrapping_add((first - positions.start) * self.pitch());
            (sums.cast_const(), end - first, runs)
        });
        some.collect()
    }

    /// Copies sums to the result.
    ///
    /// # Safety
    /// The sums are there, and the result is the caller's.
    pub(super) unsafe fn store(&self, some: &[Held<T::Acc>]) {
        for (sums, positions, runs) in some {
            let rows = self.rows.len();
            // SAFETY: the caller's contract.
            unsafe {
                let storing = self.task.storing();
                storing.tiles((*sums, self.pitch()), *positions, rows, self.row(), runs);
            };
        }
    }

    /// Calls `each` with the steps whose weights stay near until all tiles have met them.
    ///
    /// # Safety
    /// The weights are there; those of a chunk may be overwritten by the next ones.
    pub(super) unsafe fn chunks(&self, mut each: impl FnMut(&Chunk<'_, T::Acc>)) {
        let (plan, panels) = (self.task.plan, self.panels.len());
        let (job, steps, size) = (self.task.job, &self.direct.steps, size_of::<T::Acc>());
        let of_step = plan.together * plan.width * panels * size;
        // Steps of the channels whose weights are packed together.
        let of_block = steps.len() / job.sizes.channels.div_ceil(plan.together);
        let blocks = (PACKED_NEAR / (of_block * of_step)).max(1);
        let (portion, mut packed) = match self.weights {
            Weights::Packed(packed) => (steps.len(), packed),
            Weights::Own(own) => (blocks * of_block, own.cast_const()),
        };
        let (mut before, end) = (0, steps.as_ptr_range().end);
        for (index, portion) in steps.chunks(portion).enumerate() {
            if let Weights::Own(own) = self.weights {
                let channels =
                    [index, index + 1].map(|i| (i * blocks * plan.together).min(job.sizes.channels));
                // SAFETY: the weights are the caller's, and so is the room for them.
                unsafe { self.pack(channels[0]..channels[1], own) };
                packed = own.cast_const();
            }
            let chunks = portion.len().div_ceil((self.near / of_step).max(1));
            for chunk in 0..chunks {
                let some = &portion[piece(portion.len(), chunks, chunk)];
                let terms = terms::<T::Acc>(some, u64::MAX);
                let after = packed.wrapping_add(terms * plan.width);
                let (next, next_panel) = match chunk + 1 < chunks {
                    true => (after, 0),
                    false => (after.wrapping_sub(plan.terms * plan.width), panels),
                };
                each(&Chunk {
                    steps: some,
                    terms,
                    before,
                    weights: packed,
                    first: before == 0,
                    last: some.as_ptr_range().end == end,
                    next,
                    next_panel,
                });
                (packed, before) = (after, before + terms);
            }
        }
    }

    /// What is asked for when so many bytes of later weights have been, if there is more.
    pub(super) fn later(&self, chunk: &Chunk<'_, T::Acc>, asked_for: usize) -> Option<*const u8> {
        let plan = self.task.plan;
        let of_panel = chunk.terms * plan.width * size_of::<T::Acc>();
        (self.asks && asked_for < of_panel * self.panels.len()).then(|| {
            let panel = chunk.next_panel + asked_for / of_panel;
            let at = chunk.next.wrapping_add(panel * plan.packed);
            at.wrapping_byte_add(asked_for % of_panel).cast()
        })
    }

    /// Computes the sums of the tiles, which places count from `out`. `asked` has for a tile, and whether its first or last sums are begun, what
    /// is asked for with each step: where, and bytes to what the next step asks for.
    unsafe fn sums(
        &self,
        order: &Order,
        out: *mut T::Acc,
        asked: impl Fn(usize, [bool; 2]) -> (*mut T::Acc, isize),
    ) {
        let (task, plan, panels) = (self.task, self.task.plan, self.panels.len());
        let each = |chunk: &Chunk<'_, T::Acc>| {
            let (mut of_last, mut asked_for) = ((u64::MAX, chunk.terms), 0);
            // Taps whose weights are finite: products of others and zero are NaN, so they are not left out. Bytes are.
            let mut finite = if task.kernels.bytes.is_some() { u64::MAX } else { 0 };
            for (index, tile) in order.tiles.iter().enumerate() {
                let places = order.places(tile);
                let meets = tile.meets | !finite;
                let later = self.later(chunk, asked_for);
                if later.is_some() {
                    if of_last.0 != meets {
                        of_last = (meets, terms::<T::Acc>(chunk.steps, meets));
                    }
                    asked_for += of_last.1 * LATER;
                }
                let (to, apart) = asked(index, [chunk.first, chunk.last]);
                // SAFETY: the places are positions of the block, whose elements exist where their bits say so. There are weights for
                // each step and room for the sums.
                unsafe {
                    plan.steps[panels - 1][places.len() - 1](&mut StepArgs {
                        accumulate: !chunk.first,
                        count: places.len(),
                        places: places.as_ptr().cast(),
                        meets,
                        steps: chunk.steps.as_ptr_range().start,
                        last: chunk.steps.as_ptr_range().end,
                        zeros: ZEROS.as_ptr().cast::<T::Acc>().add(TOGETHER),
                        weights: chunk.weights,
                        next_panel: (plan.packed * size_of::<T::Acc>()) as isize,
                        out,
                        asked: to,
                        asked_step: apart,
                        later: later.unwrap_or(std::ptr::null()),
                    });
                    if finite == 0 && index == 0 {
                        finite = self.finite(places, out);
                    }
                }
            }
        };
        // SAFETY: the caller's contract.
        unsafe { self.chunks(each) };
    }

    /// The taps that one of the places meets, if its sums are finite: then so are their weights.
    unsafe fn finite(&self, places: &[Place<u8>], out: *const T::Acc) -> u64 {
        let of = |place: &&Place<u8>| place.meets.count_ones();
        let Some(place) = places.iter().max_by_key(of) else {
            return 0;
        };
        let (sums, rows) = (
            out.wrapping_byte_offset(place.out),
            self.panels.len() * self.task.plan.width,
        );
        // SAFETY: the caller has computed the sums of the place.
        let are = (0..rows).all(|row| is_finite(unsafe { &*sums.add(row) }));
        if are { place.meets } else { 0 }
    }

    /// Packs the weights of some channels.
    unsafe fn pack(&self, channels: Range<usize>, to: *mut T::Acc) {
        let (task, plan) = (self.task, self.task.plan);
        let (job, kernels) = (task.job, task.kernels);
        for (i, panel) in self.panels.clone().enumerate() {
            let (rows, to) = (
                plan.rows_of(job.sizes.rows, panel),
                to.wrapping_add(i * plan.packed),
            );
            let of = (&job.weights, job.pass);
            // SAFETY: the caller has the weights, and room for those of all channels.
            unsafe { weights::pack(kernels, of, task.group, rows, channels.clone(), to) };
        }
    }
}

/// The channels of steps whose tap any place meets.
fn terms<S>(steps: &[Step], meets: u64) -> usize {
    let met = steps.iter().filter(|step| meets >> step.bit & 1 != 0);
    met.map(|step| step.back.unsigned_abs() / size_of::<S>()).sum()
}
