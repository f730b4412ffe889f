//! How the work of a launch is cut.

use super::cut::{Cut, Work};
use super::direct::{self, Direct};
use super::shape::{Along, Shape};
use super::{Job, rows, squares};
use crate::library::conv::geometry::{AXES, Axis, Layout, blocks, planes};
use crate::library::conv::points::{PointFn, Points, Rows};
use crate::library::conv::steps::StepFn;
use crate::library::conv::tile::{ASK_TERMS, TapFn};
use crate::library::conv::words::ConvKernels;
use crate::library::gemm::{Stored, piece};
use std::ops::Range;

/// Bytes of planes that stay in L2.
const PLANES: usize = 768 << 10;
/// The same of an operand that is read as it lies, where so many passes over the rows meet it, and L2 keeps their weights: a smaller block
/// has its sums near when the epilogue is applied.
const SMALL: usize = 128 << 10;
const MANY_PASSES: usize = 4;
const KEPT_WEIGHTS: usize = 1 << 20;
/// Bytes of packed weights and of what they meet that stay in L1.
const NEAR: usize = 28 << 10;
/// Products (multiply-adds) that are worth a hand-off to another thread.
pub(in super::super) const GRAIN: usize = 1 << 19;
/// The same where a group has a channel or few rows: loads bound such products, which are far from the speed of tiles.
pub(super) const GRAIN_OF_GROUPS: usize = GRAIN / 16;
/// Positions of a block that is not cut further for the sake of threads.
pub(super) const LEAST: usize = 256;
/// The same where no block packs weights.
const LEAST_PREPARED: usize = 16;
/// Tasks of a thread, where there are enough: when the last ones end, others have nothing left.
pub(super) const EACH: usize = 8;
/// How often an element is copied at most, where all of them are no more than so many bytes.
const AGAIN: usize = 6;
const WHOLE: usize = 32 << 20;
/// Products in the time in which an element is copied.
const COPIED: usize = 8;

/// How the work is cut.
pub(super) struct Plan<S: 'static> {
    pub(super) along: Along,
    pub(super) layout: Layout,
    /// The gathered operand is read where it is: its elements lie as they would in planes.
    pub(super) in_place: bool,
    /// Rows whose elements are neighbours in the result.
    pub(super) result_beside: bool,
    pub(super) offsets: Vec<u32>,
    /// For an operand that is read where it lies.
    pub(super) direct: Option<Direct>,
    /// Pieces of the rows, each a tile's extent along them.
    pub(super) tiles: usize,
    /// Lanes of a tile, and kernels for `index + 1` of what is broadcast.
    pub(super) width: usize,
    pub(super) kernels: &'static [TapFn<S>],
    /// Accumulators of one packed tile, and its weights alone, behind which is what sums begin with, if not with zero.
    pub(super) packed: usize,
    pub(super) weights: usize,
    pub(super) starts: bool,
    /// Kernels for places of an operand that is read where it lies, for one panel of rows and for two.
    pub(super) steps: [&'static [StepFn<S>]; 2],
    /// Those for places at equal distances, and registers of a panel.
    points: Points,
    panel: usize,
    /// Terms, and how many of them have weights and elements that stay in L1 together.
    pub(super) terms: usize,
    pub(super) near: usize,
    /// Channels whose terms with a tap are neighbours.
    pub(super) together: usize,
    /// Tiles whose sums are computed together.
    pub(super) at_once: usize,
    /// Groups of tiles that are tasks of their own.
    pub(super) parts: usize,
    /// Only one block has a use for a tile's weights, so that it packs them itself, when it needs them.
    pub(super) local: bool,
    /// Consecutive tasks that are handed out together.
    pub(super) group: usize,
    pub(super) tasks: usize,
    /// Shares of neighbouring tasks, one for each thread that is worth a hand-off.
    pub(super) shares: usize,
}

impl<S> Plan<S> {
    pub(super) fn new<T: Stored<Acc = S>>(
        job: &Job<'_, T>,
        kernels: &ConvKernels<T>,
        shape: &Shape<S>,
        threads: usize,
        prepared: bool,
    ) -> Plan<S> {
        let (sizes, pass) = (&job.sizes, job.pass);
        let terms = sizes.channels * pass.taps();
        let positions: usize = pass.count().iter().product();
        let work = (sizes.samples * sizes.groups)
            .saturating_mul(positions)
            .saturating_mul(sizes.rows * terms.max(1));
        let useful = threads.min(work / GRAIN).max(1);
        let outer = sizes.samples * sizes.groups;
        let lies = shape.along == Along::Direct && !shape.copied;
        let at_once = if shape.steps[1].is_empty() { 1 } else { 2 };
        let is_small = lies
            && sizes.rows.div_ceil(shape.width * at_once) >= MANY_PASSES
            && sizes.rows.saturating_mul(terms) <= KEPT_WEIGHTS / size_of::<S>();
        let most = if is_small { SMALL } else { PLANES } / size_of::<S>();
        let (width, set) = (shape.width, shape.kernels);
        let (tiles, height) = match shape.along {
            Along::Rows | Along::Direct | Along::Squares => (sizes.rows.div_ceil(width), width),
            Along::Positions => {
                let tiles = sizes.rows.div_ceil(set.len());
                (tiles, sizes.rows.div_ceil(tiles))
            }
        };
        let size = |block: [usize; AXES]| match shape.along {
            Along::Direct => direct::taken_from(pass, sizes.channels, shape.copied, block),
            Along::Rows | Along::Positions | Along::Squares => planes(pass, sizes.channels)(block),
        };
        let block = blocks(pass, size, most, 1, LEAST);
        // Where the taps lie far apart, small blocks take from nearly all that the whole takes from.
        let all = pass.count();
        let pieces = |block: [usize; AXES]| {
            (all.iter().zip(block))
                .map(|(all, of)| all.div_ceil(of))
                .product()
        };
        let again = size(block).saturating_mul(pieces(block)) / AGAIN;
        let block = if again > size(all) && size(all) <= WHOLE / size_of::<S>() {
            all
        } else {
            block
        };
        let layout = Layout::new(pass, block, 1);
        let in_place = shape.along == Along::Rows && kernels.bytes.is_none() && rows::in_place(job, &layout);
        let copied = if lies || in_place {
            0
        } else {
            COPIED * sizes.channels
        };
        let Cut { block, parts } = Work {
            pass,
            block,
            least: if prepared { LEAST_PREPARED } else { LEAST },
            outer,
            tiles,
            at_once,
            products: height * terms.max(1),
            weights: sizes.rows.saturating_mul(terms) * size_of::<S>(),
            copied,
        }
        .cut(useful);
        let layout = Layout::new(pass, block, 1);
        let in_place = in_place && rows::in_place(job, &layout);
        // A channel's weights, and the lines that a tile of its elements lies on.
        let line = 64 / size_of::<S>();
        let lines = |axis: &Axis| (axis.span + 1).min(axis.taps.len()).max(1);
        let across = match shape.along {
            Along::Rows => set.len(),
            Along::Positions | Along::Direct | Along::Squares => width,
        };
        let elements = lines(&pass.axes[0])
            * lines(&pass.axes[1])
            * layout.phases.max(1)
            * (across + pass.axes[2].span + 2 * line);
        let together = kernels.together();
        let near = NEAR * pass.taps() / ((pass.taps() * height + elements) * size_of::<S>());
        let near = near.clamp(1, terms.max(1));
        let near = terms
            .max(1)
            .div_ceil(terms.max(1).div_ceil(near))
            .next_multiple_of(ASK_TERMS);
        let blocks = outer * layout.pieces(pass).iter().product::<usize>();
        let tasks = blocks * parts;
        let handed = if useful > 1 { (EACH * useful).min(tasks) } else { 1 };
        let channel = if in_place {
            job.gathered.channel.cast_unsigned()
        } else {
            layout.channel()
        };
        Plan {
            along: shape.along,
            offsets: match shape.along {
                Along::Squares => squares::offsets(&layout, pass, sizes.channels),
                Along::Direct => Vec::new(),
                Along::Rows | Along::Positions => {
                    layout.offsets(pass, (sizes.channels, channel), (together, kernels.reverses()))
                }
            },
            direct: (shape.along == Along::Direct)
                .then(|| Direct::new(job, kernels, width, layout.block, shape.copied)),
            layout,
            in_place,
            result_beside: shape.result_beside,
            tiles,
            width,
            kernels: set,
            steps: shape.steps,
            points: kernels.tiles.points,
            panel: if width == kernels.tiles.rows[0].0 { 1 } else { 2 },
            packed: packed_tile(terms, height) + kernels.starts(height),
            weights: packed_tile(terms, height),
            starts: kernels.starts(height) > 0,
            terms,
            near,
            together,
            at_once,
            parts,
            local: blocks == sizes.groups && !prepared,
            group: (tasks / handed).max(1),
            tasks,
            shares: useful,
        }
    }

    /// The tiles of a part.
    pub(super) fn tiles_of(&self, part: usize) -> Range<usize> {
        piece(self.tiles, self.parts, part)
    }

    /// The kernels for places of so many rows, all of some panels or the first of one.
    pub(super) fn of_places(&self, rows: usize) -> Option<&'static [PointFn<S>]> {
        self.points.kernels(Rows {
            bytes: rows * size_of::<S>(),
            panel: self.panel,
        })
    }

    /// The rows of a tile, and the packed weights of a term.
    pub(super) fn rows_of(&self, rows: usize, tile: usize) -> (Range<usize>, usize) {
        match self.along {
            Along::Rows | Along::Direct | Along::Squares => {
                let start = tile * self.width;
                (start..rows.min(start + self.width), self.width)
            }
            Along::Positions => {
                let rows = piece(rows, self.tiles, tile);
                (rows.clone(), rows.len())
            }
        }
    }
}

/// Accumulators of a packed tile, with room for what packing writes past its end.
pub(super) fn packed_tile(terms: usize, height: usize) -> usize {
    (terms * height + 16).next_multiple_of(16)
}
