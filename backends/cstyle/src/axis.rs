//! Scans and scatters: along one axis in order, everything else side by side.

use crate::body::Body;
use crate::plan::NARROW;
use crate::variant::{Form, Grid, Pass, Plan, Step, Variant, Word, Words, words};
use crate::{Launch, Target};
use smallvec::SmallVec;
use thalweg_hal::library::{LibraryOp, Scan, Scatter};

/// What is done along the axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AxisOp {
    Scan(Scan),
    Scatter(Scatter),
}

impl AxisOp {
    /// `None` for other ops, and for sums that are wider than what they are stored in.
    pub(crate) fn of(op: &LibraryOp) -> Option<AxisOp> {
        match op {
            LibraryOp::Scan(op) => Some(AxisOp::Scan(op.clone())),
            LibraryOp::Scatter(op) if op.accumulate == op.dtype => Some(AxisOp::Scatter(op.clone())),
            LibraryOp::Scatter(_)
            | LibraryOp::Matmul(_)
            | LibraryOp::Conv(_)
            | LibraryOp::ConvGradInput(_)
            | LibraryOp::ConvGradWeight(_)
            | LibraryOp::Sort(_)
            | LibraryOp::Attention(_) => None,
        }
    }
}

/// Fewest points of a piece of a scan, most pieces, and the rows from which on none is cut.
const PIECE: u64 = 1024;
const MOST_PIECES: u64 = 64;
const MANY_ROWS: u64 = 256;
/// Most groups of a launch, and of one on a CPU.
const MOST_GROUPS: u64 = 1 << 20;
const MOST_RUNS: u64 = 256;
const GROUP: u32 = 64;

/// How a launch runs; `None` where its strides are more general than the op's contract, and the definition runs.
pub(crate) fn plan(body: &Body, op: &AxisOp, target: &Target, launch: &Launch<'_>) -> Option<Plan> {
    let (outer, all) = (body.outer(), launch.extents);
    let strides = body.strides(launch);
    let stride = |p: usize, axis: usize| strides[p * all.len() + axis];
    let (along, points) = (all[outer - 1], all[outer]);
    let rows = crate::space::points(&all[..outer - 1]);
    // Operands that move along the inner axis lie still along the outer one.
    let still: &[usize] = match op {
        AxisOp::Scan(_) => &[0],
        AxisOp::Scatter(_) => &[1, 2],
    };
    let fits = still.iter().all(|&p| along <= 1 || stride(p, outer - 1) == 0);
    if !fits || (matches!(op, AxisOp::Scan(_)) && along != points) {
        return None;
    }
    let (pieces, length) = match op {
        AxisOp::Scan(_) if rows < MANY_ROWS && points >= 2 * PIECE => {
            let length = points
                .div_ceil((points / PIECE).min(MOST_PIECES))
                .next_multiple_of(64);
            (points.div_ceil(length), length)
        }
        AxisOp::Scan(_) | AxisOp::Scatter(_) => (1, points),
    };
    let reach = |p: usize| {
        let axis = |axis: usize| {
            u128::from(stride(p, axis).unsigned_abs()) * u128::from(all[axis].saturating_sub(1))
        };
        let place = &launch.places[p];
        let gather = u128::from(place.gather_stride.unsigned_abs())
            * u128::from(place.gather_extent.saturating_sub(1));
        (0..all.len()).map(axis).sum::<u128>() + if body.gathered[p] { gather } else { 0 }
    };
    let most = (0..body.touched.len()).map(reach).max().unwrap_or(0);
    let total = u128::from(rows) * u128::from(along.max(pieces));
    let group = if target.cpu {
        1
    } else {
        GROUP.min(target.max_group_size)
    };
    let variant = Variant {
        form: Form::Axis { split: pieces > 1 },
        wide: most.max(total).max(points.into()) > u128::from(NARROW),
        in_place: true,
        lanes: 1,
        group: group as u16,
        outer: outer as u8,
        inner: 1,
        homes: SmallVec::new(),
        steps: SmallVec::from_elem(Step::Any, body.kernel.params.len()),
        row_steps: SmallVec::new(),
    };
    let mut values = Words::new();
    words(body, &variant, |word| {
        values.push(match word {
            Word::Rows => rows,
            Word::Total => points,
            Word::Chunks => pieces,
            Word::Length => length,
            Word::Outer(axis) => all[axis],
            Word::Offset(p) => launch.places[p].offset,
            Word::OuterStride(p, axis) => stride(p, axis) as u64,
            Word::InnerStride(p, axis) => stride(p, outer + axis) as u64,
            Word::GatherStride(p) => launch.places[p].gather_stride as u64,
            Word::GatherExtent(p) => launch.places[p].gather_extent,
            Word::Scalar(index) => launch.scalars[index],
            Word::Along => along,
            // Of products and sorts, and of more inner axes.
            Word::MatrixRows
            | Word::MatrixColumns
            | Word::Tap(_)
            | Word::Inner(_)
            | Word::Flip
            | Word::Room(_)
            | Word::Round => 0,
        });
    });
    let grid = |items: u64| Grid {
        groups: items
            .div_ceil(group.into())
            .min(if target.cpu { MOST_RUNS } else { MOST_GROUPS }),
        group_size: group,
    };
    let mut grids = SmallVec::<[Grid; 2]>::new();
    if rows > 0 && along > 0 {
        match op {
            AxisOp::Scan(_) => {
                if pieces > 1 {
                    grids.push(grid(rows * pieces));
                }
                grids.push(grid(rows * pieces));
            }
            AxisOp::Scatter(_) => grids.extend([grid(rows * along), grid(rows)]),
        }
    }
    Some(Plan {
        variant,
        passes: Pass::each(grids),
        scratch_bytes: if pieces > 1 { 8 * rows * pieces } else { 0 },
        words: values,
    })
}
