//! How a kernel runs: by points, by rows or by columns, and in which pieces.

use super::space::Space;
use super::{Form, KernelWords, kept};
use crate::body::Body;
use crate::operands::{Full, NARROW, Operands};
use crate::variant::{Grid, MOST_ITEMS, Pass, Plan, Step, Variant};
use crate::{Launch, Target, scalar, words};
use smallvec::SmallVec;
use thalweg_hal::ir::{Level, Role};

/// Longest run of points that one work-item of a CPU takes of a map, and of a row that several share.
const CPU_RUN: u64 = 16 * 1024;
/// Points of a row that a work-item of a CPU takes at a time where an input is read down columns, and the rows that make it
/// worth while.
const CPU_TILE: u8 = 32;
const CPU_LINES: u64 = 16;
/// Bytes of the accumulators of rows that a work-item of a CPU walks side by side: they stay in its first cache. And the
/// neighbouring rows that make it worth while.
const COLUMN_BYTES: usize = 32 * 1024;
const LEAST_COLUMNS: u64 = 8;
/// Most pieces of a map on a CPU.
const MOST_RUNS: u64 = 256;

/// How often a row of `total` points is cut, and the points of a piece. Depends on extents alone.
#[derive(Clone, Copy)]
struct Cut {
    chunks: u64,
    length: u64,
}

impl Cut {
    const NONE: Cut = Cut { chunks: 1, length: 0 };

    fn of(total: u64, wanted: u64) -> Cut {
        let length = total.div_ceil(wanted.max(1)).next_multiple_of(64).max(64);
        Cut {
            chunks: total.div_ceil(length).max(1),
            length,
        }
    }
}

/// How a launch runs.
pub(crate) fn plan(body: &Body, target: &Target, launch: &Launch<'_>) -> Plan {
    let full = Full::new(body, launch);
    let params = body.kernel.params.len();
    let leader = (0..params).rfind(|&p| body.kernel.params[p].role == Role::Out);
    let is_map = body.is_map();
    let (outer, inner) = if is_map {
        let all = Space::new(&full, 0..body.rank(), leader);
        (Space::new(&full, 0..0, None), all.with_axis(params))
    } else {
        let outer = Space::new(&full, 0..body.outer(), leader);
        (
            outer,
            Space::new(&full, body.outer()..body.rank(), None).with_axis(params),
        )
    };
    let shape = Shape {
        body,
        target,
        launch,
        outer: &outer,
        inner: &inner,
        is_map,
    };
    shape.plan()
}

struct Shape<'a> {
    body: &'a Body,
    target: &'a Target,
    launch: &'a Launch<'a>,
    outer: &'a Space,
    inner: &'a Space,
    is_map: bool,
}

impl Shape<'_> {
    fn plan(&self) -> Plan {
        let steps: SmallVec<[Step; 8]> = (0..self.body.kernel.params.len()).map(|p| self.step(p)).collect();
        let in_place = self.body.in_place(self.launch);
        let (rows, total) = (self.outer.total, self.inner.total);
        let mut lanes = self.lanes(&steps);
        let (form, group, cut) = if self.is_map {
            self.spread_map(lanes)
        } else {
            self.spread_rows(&steps, lanes, in_place)
        };
        if !self.target.cpu && matches!(form, Form::Rows { by_group: false, .. }) {
            lanes = 1;
        }
        let row_steps = match form {
            Form::Columns { .. } => (0..steps.len()).map(|p| self.row_step(p)).collect(),
            Form::Map | Form::Rows { .. } => SmallVec::new(),
        };
        let axes = if self.body.indexed == 0 {
            SmallVec::new()
        } else {
            self.outer
                .parts
                .iter()
                .chain(&self.inner.parts)
                .copied()
                .collect()
        };
        let operands = Operands {
            body: self.body,
            launch: self.launch,
            outer: self.outer.axes(),
            inner: self.inner.axes(),
        };
        let units = rows.saturating_mul(cut.chunks).max(total);
        let variant = Variant {
            form: crate::variant::Form::Kernel(form),
            wide: operands.reach().max(units.into()) > u128::from(NARROW),
            in_place,
            lanes,
            group: group as u16,
            outer: self.outer.rank() as u8,
            inner: self.inner.rank() as u8,
            axes,
            steps,
            row_steps,
        };
        let own = KernelWords {
            rows,
            total,
            chunks: cut.chunks,
            length: cut.length,
        };
        let mut values = own.values();
        words::push(&operands, &variant, &mut values);
        Plan {
            passes: Pass::each(self.grids(form, &variant, cut)),
            scratch_bytes: match form {
                Form::Rows { split: true, .. } => 8 * scratch_slots(self.body) * rows * cut.chunks,
                Form::Map | Form::Columns { .. } | Form::Rows { split: false, .. } => 0,
            },
            variant,
            words: values,
        }
    }

    /// Whether a parameter moves along the space that is walked.
    fn moves(&self, param: usize) -> bool {
        self.body.touched[param] && (self.is_map || self.body.kernel.params[param].level == Level::Element)
    }

    fn step(&self, param: usize) -> Step {
        if !self.moves(param) {
            return Step::Zero;
        }
        Step::of(self.inner.stride(param, self.inner.rank() - 1))
    }

    /// How a parameter moves along the last axis of rows.
    fn row_step(&self, param: usize) -> Step {
        match self.outer.rank().checked_sub(1) {
            Some(last) if self.body.touched[param] => Step::of(self.outer.stride(param, last)),
            _ => Step::Zero,
        }
    }

    /// Rows that a work-item of a CPU walks side by side; `None` where rows lie along.
    fn rows_at_once(&self, steps: &[Step], lanes: u8) -> Option<u16> {
        let last = self.outer.rank().checked_sub(1)?;
        let inputs = || {
            let of = |&p: &usize| self.moves(p) && self.body.kernel.params[p].role == Role::In;
            (0..steps.len()).filter(of)
        };
        let across = |p: usize| steps[p] == Step::Any && self.row_step(p) == Step::Unit;
        let along = |p: usize| steps[p] == Step::Unit;
        let gathers = self.body.gathered.contains(&true);
        if self.outer.extents[last] < LEAST_COLUMNS || gathers || !inputs().any(across) || inputs().any(along)
        {
            return None;
        }
        let sums = (0..self.body.depth()).flat_map(|stage| self.body.reductions(stage));
        let of = |sum: crate::body::Reduction| sum.dtype.size() + 8 * usize::from(sum.beats.is_some());
        let bytes: usize = sums.map(of).sum();
        let fits = COLUMN_BYTES / (bytes.max(1) * usize::from(lanes));
        Some((fits / 16 * 16).clamp(16, 512) as u16)
    }

    /// Elements that a work-item takes at once: on a GPU as many as fill 16 bytes, when alignment allows.
    fn lanes(&self, steps: &[Step]) -> u8 {
        let last = self.inner.rank() - 1;
        let (extent, nodes) = (self.inner.extents[last], self.body.kernel.nodes.len());
        if self.target.cpu && self.is_map {
            let across = steps.contains(&Step::Any) && self.inner.total / extent.max(1) >= CPU_LINES;
            return if across && extent > CPU_TILE.into() {
                CPU_TILE
            } else {
                1
            };
        }
        if self.target.cpu {
            return if extent < 32 || nodes > 1000 { 1 } else { 32 };
        }
        let packed = || (0..steps.len()).filter(|&p| steps[p] == Step::Unit);
        let size = |p: usize| self.body.kernel.params[p].dtype.size() as u64;
        let Some(largest) = packed().map(size).max() else {
            return 1;
        };
        let lanes = 16 / largest;
        let aligned = |p: usize| {
            let other =
                |space: &Space, axes: usize| (0..axes).all(|axis| space.stride(p, axis) % lanes as i64 == 0);
            self.launch.places[p]
                .offset
                .is_multiple_of((lanes * size(p)).min(16))
                && other(self.outer, self.outer.rank())
                && other(self.inner, last)
        };
        let whole = last == 0 || extent % lanes == 0;
        if nodes > 200 || lanes == 1 || extent < 4 * lanes || !whole || !packed().all(aligned) {
            1
        } else {
            lanes as u8
        }
    }

    fn spread_map(&self, lanes: u8) -> (Form, u32, Cut) {
        if self.target.cpu {
            let runs = self.inner.total.div_ceil(CPU_RUN).min(MOST_RUNS);
            let extent = self.inner.extents[self.inner.rank() - 1];
            let points = if lanes > 1 {
                self.inner.total / extent
            } else {
                self.inner.total
            };
            return (Form::Map, 1, Cut::of(points, runs));
        }
        (Form::Map, 256.min(self.target.max_group_size), Cut::NONE)
    }

    fn spread_rows(&self, steps: &[Step], lanes: u8, in_place: bool) -> (Form, u32, Cut) {
        let (rows, total) = (self.outer.total, self.inner.total);
        // Several groups of one row would read an input at row level after one of them has overwritten it.
        let may_split = !(in_place && self.body.stores_rows()) && self.body.depth() > 0;
        let cut = |by_group: bool, group: u32, wanted: u64| {
            let cut = if may_split && wanted > 1 {
                Cut::of(total, wanted)
            } else {
                Cut::NONE
            };
            let split = cut.chunks > 1;
            (
                Form::Rows {
                    by_group,
                    split,
                    kept: false,
                },
                group,
                if split { cut } else { Cut::NONE },
            )
        };
        if self.target.cpu {
            let wanted = if rows < 64 {
                (total / CPU_RUN).min(64 / rows.max(1))
            } else {
                1
            };
            let (form, group, cut) = cut(false, 1, wanted);
            return match self.rows_at_once(steps, lanes) {
                Some(rows) if cut.chunks == 1 && self.body.depth() > 0 && !in_place => {
                    (Form::Columns { rows }, group, cut)
                }
                _ => (form, group, cut),
            };
        }
        let most = self.target.max_group_size.max(1);
        let coalesced = (0..steps.len()).any(|p| steps[p] == Step::Unit);
        if total <= 16 || (!coalesced && rows >= 512) {
            let wanted = if rows < 65_536 {
                (total / 64).min(65_536 / rows.max(1))
            } else {
                1
            };
            return cut(false, 128.min(1 << most.ilog2()), wanted);
        }
        let blocks = total / u64::from(lanes);
        let group = (blocks / 4).next_power_of_two().clamp(32, 256) as u32;
        let wanted = if rows < 256 {
            (total / 8192).min(1024 / rows.max(1))
        } else {
            1
        };
        let (mut form, group, cut) = cut(true, group.min(1 << most.ilog2()), wanted);
        if let Form::Rows {
            split: false, kept, ..
        } = &mut form
        {
            *kept = self.keeps(lanes, group);
        }
        (form, group, cut)
    }

    /// Whether a row stays in the registers of a group.
    fn keeps(&self, lanes: u8, group: u32) -> bool {
        let halves = (self.body.info.dtypes.iter().flatten()).any(|&dtype| scalar::is_half(dtype));
        lanes > 1
            && self.inner.rank() == 1
            && self.inner.total.is_multiple_of(lanes.into())
            && self.inner.total <= kept::PACKS * u64::from(lanes) * u64::from(group)
            && !halves
            && self.body.kept.pays(lanes)
    }

    fn grids(&self, form: Form, variant: &Variant, cut: Cut) -> SmallVec<[Grid; 4]> {
        let (rows, total) = (self.outer.total, self.inner.total);
        let group = u64::from(variant.group);
        let grid = |units: u64| Grid::of(units.min(MOST_ITEMS / group), variant.group.into(), self.target);
        match form {
            Form::Map if total == 0 => SmallVec::new(),
            Form::Map if self.target.cpu => SmallVec::from_slice(&[grid(cut.chunks)]),
            Form::Map => {
                let blocks = total.div_ceil(variant.lanes.into());
                SmallVec::from_slice(&[grid(blocks.div_ceil(group))])
            }
            Form::Rows { .. } if rows == 0 => SmallVec::new(),
            Form::Columns { .. } if rows == 0 => SmallVec::new(),
            Form::Columns { rows: side } => {
                let last = self.outer.extents.last().copied().unwrap_or(1);
                let strips = last.div_ceil(side.into());
                SmallVec::from_slice(&[grid(rows / last.max(1) * strips)])
            }
            Form::Rows { by_group, split, .. } => {
                let of = |units: u64| grid(if by_group { units } else { units.div_ceil(group) });
                let mut passes = SmallVec::new();
                if split {
                    passes.extend((0..self.body.depth()).map(|_| of(rows * cut.chunks)));
                }
                let pieces = if self.body.stores(Level::Element).is_empty() {
                    1
                } else {
                    cut.chunks
                };
                passes.push(of(rows * pieces));
                passes
            }
        }
    }
}

/// 8-byte slots of scratch memory for each piece of a row.
fn scratch_slots(body: &Body) -> u64 {
    let reductions = (0..body.depth()).flat_map(|stage| body.reductions(stage));
    reductions.map(|r| 1 + u64::from(r.beats.is_some())).sum()
}
