//! Products of two operands summed over common axes: matrix products, and convolutions as such. Which axes of a definition
//! are rows, columns and depth, and how a launch is spread over tiles.

use crate::body::Body;
use crate::plan::NARROW;
use crate::space::points;
use crate::variant::{Form, Grid, Pass, Plan, Step, Variant, Word, Words, words};
use crate::{Launch, MatmulConfig, Target};
use smallvec::SmallVec;
use thalweg_hal::library::{Conv, LibraryOp, MAX_SPATIAL};
use thalweg_hal::{Error, Result};

/// The axes and operands of a definition, as those of matrices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Roles {
    /// The parameter whose rows are the result's rows.
    pub(crate) left: usize,
    /// The parameter whose columns are the result's columns.
    pub(crate) right: usize,
    /// Outer axes: one matrix for each of their points.
    pub(crate) batch: SmallVec<[usize; 8]>,
    /// The outer axis of the rows.
    pub(crate) row: usize,
    /// The outer axes of the columns, the slowest first.
    pub(crate) columns: SmallVec<[usize; 4]>,
    /// How the right operand is reached, where that is by taps.
    pub(crate) taps: Option<Taps>,
}

/// Places along the spatial axes: `c * column + d * depth + shift`, divided by `divide`, with c an index of the columns and d
/// one of the inner space. What is not whole or lies outside the operand is 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taps {
    /// Number of spatial axes: the last ones of the columns, and the last inner ones.
    pub(crate) spatial: usize,
    pub(crate) column: [i64; MAX_SPATIAL],
    pub(crate) depth: [i64; MAX_SPATIAL],
    pub(crate) shift: [i64; MAX_SPATIAL],
    pub(crate) divide: [i64; MAX_SPATIAL],
}

impl Taps {
    fn divides(&self) -> bool {
        self.divide[..self.spatial].iter().any(|&by| by != 1)
    }

    /// The value of [`Word::Tap`].
    fn word(&self, part: usize) -> u64 {
        let of = [&self.column, &self.depth, &self.shift, &self.divide][part % 4];
        of[part / 4] as u64
    }
}

impl Roles {
    /// Those of a matrix product or convolution; `None` for other ops.
    pub(crate) fn of(op: &LibraryOp) -> Option<Roles> {
        match op {
            LibraryOp::Matmul(op) => {
                let batch = op.batch as usize;
                Some(Roles {
                    left: 0,
                    right: 1,
                    batch: (0..batch).collect(),
                    row: batch,
                    columns: SmallVec::from_slice(&[batch + 1]),
                    taps: None,
                })
            }
            LibraryOp::Conv(op) => Some(Roles::windows(op, [1, 2, 0], |i| {
                [op.stride[i], op.dilation[i], -op.padding[i], 1]
            })),
            LibraryOp::ConvGradInput(op) => Some(Roles::windows(op, [1, 2, 0], |i| {
                [1, -op.dilation[i], op.padding[i], op.stride[i]]
            })),
            LibraryOp::ConvGradWeight(op) => Some(Roles::windows(op, [0, 1, 2], |i| {
                [op.dilation[i], op.stride[i], -op.padding[i], 1]
            })),
            LibraryOp::Scatter(_) | LibraryOp::Scan(_) | LibraryOp::Sort(_) | LibraryOp::Attention(_) => None,
        }
    }

    fn windows(op: &Conv, [batch, row, column]: [usize; 3], place: impl Fn(usize) -> [i64; 4]) -> Roles {
        let spatial = op.spatial as usize;
        let all = |part: usize| std::array::from_fn(|i| place(i)[part]);
        Roles {
            left: 1,
            right: 0,
            batch: SmallVec::from_slice(&[batch]),
            row,
            columns: [column].into_iter().chain(3..3 + spatial).collect(),
            taps: Some(Taps {
                spatial,
                column: all(0),
                depth: all(1),
                shift: all(2),
                divide: all(3),
            }),
        }
    }
}

/// Points of the result below which its sums are cut into pieces.
const FEW_POINTS: u64 = 1 << 18;
/// Least points of a piece, and most pieces.
const PIECE: u64 = 256;
const MOST_PIECES: u64 = 64;
/// Most groups of a launch; a group that has done its tile takes another.
const MOST_GROUPS: u64 = 1 << 20;
/// Most groups that add pieces on a CPU.
const MOST_RUNS: u64 = 256;

/// A launch as matrices.
pub(crate) struct Shape<'a> {
    body: &'a Body,
    roles: &'a Roles,
    launch: &'a Launch<'a>,
    strides: SmallVec<[i64; 64]>,
    batch: u64,
    rows: u64,
    columns: u64,
    depth: u64,
}

impl<'a> Shape<'a> {
    /// `None` where the launch's strides or scalars are more general than matrices or windows; the definition is what
    /// runs then.
    pub(crate) fn new(body: &'a Body, roles: &'a Roles, launch: &'a Launch<'a>) -> Option<Shape<'a>> {
        let extent = |axes: &[usize]| {
            let extents: SmallVec<[u64; 8]> = axes.iter().map(|&axis| launch.extents[axis]).collect();
            points(&extents)
        };
        let shape = Shape {
            body,
            roles,
            launch,
            strides: body.strides(launch),
            batch: extent(&roles.batch),
            rows: launch.extents[roles.row],
            columns: extent(&roles.columns),
            depth: points(&launch.extents[body.outer()..]),
        };
        let still = |p: usize, axis: usize| launch.extents[axis] <= 1 || shape.stride(p, axis) == 0;
        let apart =
            roles.columns.iter().all(|&axis| still(roles.left, axis)) && still(roles.right, roles.row);
        (apart && roles.taps.as_ref().is_none_or(|taps| shape.windows(taps))).then_some(shape)
    }

    fn stride(&self, p: usize, axis: usize) -> i64 {
        self.strides[p * self.launch.extents.len() + axis]
    }

    /// Whether the gathered operand lies still along spatial axes, and its gather reaches every element that the scalars name.
    fn windows(&self, taps: &Taps) -> bool {
        let (launch, r, outer) = (self.launch, taps.spatial, self.body.outer());
        let mut spatial = (3..3 + r).chain(outer + 1..outer + 1 + r);
        if !spatial.all(|axis| launch.extents[axis] <= 1 || self.stride(self.roles.right, axis) == 0) {
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
        let all = self.launch.extents;
        let reach = |p: usize| {
            let along = |axis: usize| {
                u128::from(self.stride(p, axis).unsigned_abs()) * u128::from(all[axis].saturating_sub(1))
            };
            let place = &self.launch.places[p];
            let gather = if self.body.gathered[p] {
                u128::from(place.gather_stride.unsigned_abs())
                    * u128::from(place.gather_extent.saturating_sub(1))
            } else {
                0
            };
            (0..all.len()).map(along).sum::<u128>() + gather
        };
        let touched = (0..self.body.touched.len()).filter(|&p| self.body.touched[p]);
        let points = u128::from(self.batch)
            * (u128::from(self.rows) * u128::from(self.columns)).max(u128::from(self.depth));
        let mut most = touched.map(reach).max().unwrap_or(0).max(points);
        if let Some(taps) = &self.roles.taps {
            for i in 0..taps.spatial {
                let at = |of: i64, axis: usize| {
                    u128::from(of.unsigned_abs()) * u128::from(all[axis].saturating_sub(1))
                };
                let place = at(taps.column[i], 3 + i)
                    + at(taps.depth[i], self.body.outer() + 1 + i)
                    + u128::from(taps.shift[i].unsigned_abs())
                    + u128::from(taps.divide[i].unsigned_abs());
                // Half the range is left for columns beyond the edge.
                most = most.max(2 * place);
            }
        }
        most > u128::from(NARROW)
    }

    /// Pieces that a sum is cut into, by the extents alone, and the points of each.
    fn pieces(&self) -> (u64, u64) {
        let points = (self.batch.saturating_mul(self.rows))
            .saturating_mul(self.columns)
            .max(1);
        let wanted = (self.depth / PIECE).min(MOST_PIECES).min(FEW_POINTS / points);
        if wanted < 2 {
            return (1, self.depth);
        }
        let length = self.depth.div_ceil(wanted).next_multiple_of(64);
        (self.depth.div_ceil(length), length)
    }

    /// How the launch runs.
    pub(crate) fn plan(&self, config: MatmulConfig, target: &Target) -> Plan {
        let (body, roles, all) = (self.body, self.roles, self.launch.extents);
        let (outer, inner) = (body.outer(), body.rank() - body.outer());
        let (pieces, length) = self.pieces();
        let mut steps = SmallVec::from_elem(Step::Any, body.kernel.params.len());
        // Which way neighbouring work-items read an operand.
        if self.runs_along_depth() {
            steps[roles.left] = Step::Unit;
        }
        if roles.taps.is_none() && self.stride(roles.right, roles.columns[0]) == 1 {
            steps[roles.right] = Step::Unit;
        }
        let variant = Variant {
            form: Form::Product {
                config,
                split: pieces > 1,
                spatial: roles.taps.as_ref().map_or(0, |taps| taps.spatial as u8),
                divides: roles.taps.as_ref().is_some_and(Taps::divides),
            },
            wide: self.wide(),
            in_place: body.in_place(self.launch),
            lanes: 1,
            group: config.group() as u16,
            outer: outer as u8,
            inner: inner as u8,
            homes: (0..outer as u8).chain(0..inner as u8).collect(),
            steps,
            row_steps: SmallVec::new(),
        };
        let mut values = Words::new();
        words(body, &variant, |word| {
            values.push(match word {
                Word::Rows => self.batch,
                Word::Total => self.depth,
                Word::Chunks => pieces,
                Word::Length => length,
                Word::MatrixRows => self.rows,
                Word::MatrixColumns => self.columns,
                Word::Outer(axis) => all[axis],
                Word::Inner(axis) => all[outer + axis],
                Word::Offset(p) => self.launch.places[p].offset,
                Word::OuterStride(p, axis) => self.stride(p, axis) as u64,
                Word::InnerStride(p, axis) => self.stride(p, outer + axis) as u64,
                Word::GatherStride(p) => self.launch.places[p].gather_stride as u64,
                Word::GatherExtent(p) => self.launch.places[p].gather_extent,
                Word::Scalar(index) => self.launch.scalars[index],
                Word::Tap(part) => roles.taps.as_ref().map_or(0, |taps| taps.word(part)),
                // Of scans, scatters and sorts.
                Word::Along | Word::Flip | Word::Room(_) | Word::Round => 0,
            });
        });
        let (tile_m, tile_n) = config.tile();
        let units = self.batch * self.rows.div_ceil(tile_m) * self.columns.div_ceil(tile_n) * pieces;
        let points = self.batch * self.rows * self.columns;
        let grid = |units: u64, most: u64| Grid {
            groups: units.min(most),
            group_size: config.group(),
        };
        let mut grids = SmallVec::<[Grid; 2]>::new();
        if units > 0 {
            grids.push(grid(units, MOST_GROUPS));
        }
        if units > 0 && pieces > 1 {
            let most = if target.cpu { MOST_RUNS } else { MOST_GROUPS };
            grids.push(grid(points.div_ceil(config.group().into()), most));
        }
        let element = body.dtype_of_sum().map_or(8, |dtype| dtype.size() as u64);
        Plan {
            variant,
            passes: Pass::each(grids),
            scratch_bytes: if pieces > 1 { element * pieces * points } else { 0 },
            words: values,
        }
    }

    /// Whether the left operand's elements of a row lie together along the whole depth, so that a step is an index.
    fn runs_along_depth(&self) -> bool {
        let (outer, all) = (self.body.outer(), self.launch.extents);
        let mut step = 1;
        for axis in (outer..all.len()).rev() {
            if all[axis] != 1 && self.stride(self.roles.left, axis) != step {
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
