//! How a product runs: its launch as matrices, spread over tiles.

use super::places::BITS;
use super::staged::Side;
use super::{ProductWords, Roles, Taps};
use crate::body::Body;
use crate::operands::{Full, NARROW, points};
use crate::variant::{Form, Grid, MOST_GROUPS, Pass, Plan, Step, Variant};
use crate::{Launch, MatmulConfig, Target, product, words};
use smallvec::SmallVec;
use thalweg_hal::{Error, Result};

/// Points of the result below which its sums are cut into pieces.
const FEW_POINTS: u64 = 1 << 18;
/// Least points of a piece, and most pieces.
const PIECE: u64 = 256;
const MOST_PIECES: u64 = 64;
/// Where tiles are copied ahead: tiles of `SIDE` × `SIDE` below which sums are cut, which is three for each multiprocessor of a large
/// GPU, and most pieces.
const FEW_TILES: u64 = 396;
const SIDE: u64 = 64;
const MOST_PIECES_AHEAD: u64 = 128;

/// A launch as matrices.
struct Shape<'a> {
    roles: &'a Roles,
    full: Full<'a>,
    batch: u64,
    rows: u64,
    columns: u64,
    depth: u64,
}

impl<'a> Shape<'a> {
    /// `None` where the launch's strides or scalars are more general than matrices or windows; the definition is what
    /// runs then.
    fn new(body: &'a Body, roles: &'a Roles, launch: &'a Launch<'a>) -> Option<Shape<'a>> {
        let extent = |axes: &[usize]| {
            let extents: SmallVec<[u64; 8]> = axes.iter().map(|&axis| launch.extents[axis]).collect();
            points(&extents)
        };
        let shape = Shape {
            roles,
            full: Full::new(body, launch),
            batch: extent(&roles.batch),
            rows: launch.extents[roles.row],
            columns: extent(&roles.columns),
            depth: points(&launch.extents[body.outer()..]),
        };
        let still = |p: usize, axis: usize| launch.extents[axis] <= 1 || shape.full.stride(p, axis) == 0;
        let apart =
            roles.columns.iter().all(|&axis| still(roles.left, axis)) && still(roles.right, roles.row);
        (apart && roles.taps.as_ref().is_none_or(|taps| shape.windows(taps))).then_some(shape)
    }

    /// Whether the gathered operand lies still along spatial axes, and its gather reaches every element that the scalars name.
    fn windows(&self, taps: &Taps) -> bool {
        let (launch, r, outer) = (self.full.launch, taps.spatial, self.full.body.outer());
        let mut spatial = (3..3 + r).chain(outer + 1..outer + 1 + r);
        if !spatial.all(|axis| launch.extents[axis] <= 1 || self.full.stride(self.roles.right, axis) == 0) {
            return false;
        }
        let place = &launch.places[self.roles.right];
        let (extents, strides) = (&launch.scalars[..r], &launch.scalars[r..2 * r]);
        let mut last = 0_u128;
        for (&extent, &stride) in extents.iter().zip(strides) {
            if (extent as i64) < 0 || (stride as i64) < 0 {
                return false;
            }
            last += u128::from(extent.saturating_sub(1)) * u128::from(stride);
        }
        extents.contains(&0) || last < u128::from(place.gather_extent)
    }

    /// Whether indices need 64 bits.
    fn wide(&self) -> bool {
        let (body, all) = (self.full.body, self.full.launch.extents);
        let points = u128::from(self.batch)
            * (u128::from(self.rows) * u128::from(self.columns)).max(u128::from(self.depth));
        let mut most = self.full.operands().reach().max(points);
        if let Some(taps) = &self.roles.taps {
            for i in 0..taps.spatial {
                let at = |of: i64, axis: usize| {
                    u128::from(of.unsigned_abs()) * u128::from(all[axis].saturating_sub(1))
                };
                let place = at(taps.column[i], 3 + i)
                    + at(taps.depth[i], body.outer() + 1 + i)
                    + u128::from(taps.shift[i].unsigned_abs())
                    + u128::from(taps.divide[i].unsigned_abs());
                // Half the range is left for columns beyond the edge.
                most = most.max(2 * place);
            }
        }
        most > u128::from(NARROW)
    }

    /// Pieces that a sum is cut into, by the extents alone, and the points of each.
    fn pieces(&self, ahead: bool) -> (u64, u64) {
        let results = |side: u64| {
            let matrix = (self.rows.div_ceil(side)).saturating_mul(self.columns.div_ceil(side));
            matrix.saturating_mul(self.batch).max(1)
        };
        let most = match ahead {
            true => (FEW_TILES / results(SIDE)).min(MOST_PIECES_AHEAD),
            false => (FEW_POINTS / results(1)).min(MOST_PIECES),
        };
        let wanted = (self.depth / PIECE).min(most);
        if wanted < 2 {
            return (1, self.depth);
        }
        let length = self.depth.div_ceil(wanted).next_multiple_of(64);
        (self.depth.div_ceil(length), length)
    }

    /// How the launch runs.
    fn plan(&self, config: MatmulConfig, target: &Target) -> Plan {
        let (body, roles) = (self.full.body, self.roles);
        let (outer, inner) = (body.outer(), body.rank() - body.outer());
        let ahead = matches!(
            config,
            MatmulConfig::Matrix { .. } | MatmulConfig::Buffered { .. }
        );
        let (pieces, length) = self.pieces(ahead);
        let mut steps = SmallVec::from_elem(Step::Any, body.kernel.params.len());
        // Which way neighbouring work-items read an operand.
        if self.runs_along_depth() {
            steps[roles.left] = Step::Unit;
        }
        if roles.taps.is_none() && self.full.stride(roles.right, roles.columns[0]) == 1 {
            steps[roles.right] = Step::Unit;
        }
        let config = config.fitted(self.batch, self.rows, self.columns, pieces);
        let sides = match config {
            MatmulConfig::Matrix { .. } => self.sides(8),
            MatmulConfig::Buffered { .. } => self.sides(4),
            MatmulConfig::Tiled { .. } | MatmulConfig::Panel { .. } => [Side::default(); 2],
        };
        let config = config.eased(sides, roles.taps.is_some());
        let taps = points(self.full.launch.extents.get(outer + 1..).unwrap_or_default());
        let bits = ahead && roles.taps.is_some() && !sides[1].along && taps <= BITS;
        let form = Form::Product(product::Form {
            config,
            sides,
            bits,
            split: pieces > 1,
            spatial: roles.taps.as_ref().map_or(0, |taps| taps.spatial as u8),
            divides: roles.taps.as_ref().is_some_and(Taps::divides),
        });
        let variant = Variant {
            in_place: body.in_place(self.full.launch),
            axes: (0..outer as u8).chain(0..inner as u8).collect(),
            steps,
            ..Variant::of(form, body, self.wide(), config.group())
        };
        let own = ProductWords {
            rows: self.batch,
            total: self.depth,
            chunks: pieces,
            length,
            height: self.rows,
            width: self.columns,
        };
        let mut values = own.values();
        values.extend(roles.taps.iter().flat_map(Taps::words));
        words::push(&self.full.operands(), &variant, &mut values);
        let (tile_m, tile_n) = config.tile();
        let units = self.batch * self.rows.div_ceil(tile_m) * self.columns.div_ceil(tile_n) * pieces;
        let points = self.batch * self.rows * self.columns;
        let group = config.group();
        let mut grids = SmallVec::<[Grid; 2]>::new();
        if units > 0 {
            // A group that has done its tile takes another.
            grids.push(Grid {
                groups: units.min(MOST_GROUPS),
                group_size: group,
            });
        }
        if units > 0 && pieces > 1 {
            grids.push(Grid::of(points.div_ceil(group.into()), group, target));
        }
        let element = body.dtype_of_sum().map_or(8, |dtype| dtype.size() as u64);
        Plan {
            variant,
            passes: Pass::each(grids),
            scratch_bytes: if pieces > 1 { element * pieces * points } else { 0 },
            words: values,
        }
    }

    /// How the operands come to tiles that are copied ahead, in packs of so many elements.
    fn sides(&self, pack: u64) -> [Side; 2] {
        let (all, outer, roles) = (self.full.launch.extents, self.full.body.outer(), self.roles);
        let last = |axes: &mut dyn DoubleEndedIterator<Item = usize>| axes.rev().find(|&axis| all[axis] > 1);
        // The axes along which neighbours are.
        let (row, column) = (roles.row, last(&mut roles.columns.iter().copied()));
        let depth = last(&mut (outer..all.len()));
        let stride = |p: usize, axis: Option<usize>| {
            axis.map_or(i64::MAX, |axis| match self.full.stride(p, axis).unsigned_abs() {
                0 => i64::MAX,
                stride => stride.min(1 << 62) as i64,
            })
        };
        let side = |p: usize, line: Option<usize>| {
            let along = stride(p, depth) <= stride(p, line);
            Side {
                along,
                packs: self.packs(p, along, pack),
            }
        };
        let row = Some(row).filter(|&row| all[row] > 1);
        let right = match &roles.taps {
            None => side(roles.right, column),
            Some(_) => {
                let extent = |axis: Option<&usize>| axis.map_or(1, |&axis| all[axis]);
                Side {
                    along: *all.last().unwrap_or(&1) > extent(roles.columns.last()),
                    packs: false,
                }
            }
        };
        [side(roles.left, row), right]
    }

    /// Whether an operand's elements lie together in packs of 16 bytes along the depth, or along its rows or columns.
    fn packs(&self, p: usize, along: bool, pack: u64) -> bool {
        let (all, outer) = (self.full.launch.extents, self.full.body.outer());
        let inner = outer..all.len();
        let lines: SmallVec<[usize; 8]> = match along {
            true => inner.collect(),
            false if p == self.roles.left => SmallVec::from_slice(&[self.roles.row]),
            false => self.roles.columns.iter().copied().collect(),
        };
        // The axes whose elements lie together, from the last on.
        let mut run = 1_u64;
        let mut together: SmallVec<[usize; 8]> = SmallVec::new();
        for &axis in lines.iter().rev() {
            if all[axis] > 1 && self.full.stride(p, axis) != run as i64 {
                break;
            }
            run = run.saturating_mul(all[axis]);
            together.push(axis);
        }
        let whole = |axis: usize| {
            all[axis] <= 1 || together.contains(&axis) || self.full.stride(p, axis) % pack as i64 == 0
        };
        run.is_multiple_of(pack)
            && (0..all.len()).all(whole)
            && self.full.launch.places[p].offset.is_multiple_of(16)
    }

    /// Whether the left operand's elements of a row lie together along the whole depth, so that a step is an index.
    fn runs_along_depth(&self) -> bool {
        let (outer, all) = (self.full.body.outer(), self.full.launch.extents);
        let mut step = 1;
        for axis in (outer..all.len()).rev() {
            if all[axis] != 1 && self.full.stride(self.roles.left, axis) != step {
                return false;
            }
            step = step.saturating_mul(all[axis] as i64);
        }
        true
    }
}

/// How a product runs; `body` is that of its definition. `None` where the definition runs.
pub(crate) fn plan(
    body: &Body,
    roles: &Roles,
    config: MatmulConfig,
    target: &Target,
    launch: &Launch<'_>,
) -> Result<Option<Plan>> {
    if launch.extents.len() != body.rank() {
        return Err(Error::invalid_argument(format!(
            "{}: {} extents for {} axes",
            body.kernel.name,
            launch.extents.len(),
            body.rank()
        )));
    }
    Ok(Shape::new(body, roles, launch).map(|shape| shape.plan(config, target)))
}
