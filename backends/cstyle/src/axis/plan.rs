//! How a scan or scatter runs.

use super::{AxisOp, AxisWords};
use crate::body::Body;
use crate::operands::{Full, NARROW, points};
use crate::variant::{Form, Grid, Pass, Plan, Variant};
use crate::{Launch, Target, axis, words};
use smallvec::SmallVec;

/// Fewest points of a piece of a scan, most pieces, and the rows from which on none is cut.
const PIECE: u64 = 1024;
const MOST_PIECES: u64 = 64;
const MANY_ROWS: u64 = 256;
/// Work-items of a group, at most.
const GROUP: u32 = 64;

/// How a launch runs; `None` where its strides are more general than the op's contract, and the definition runs.
pub(crate) fn plan(body: &Body, op: &AxisOp, target: &Target, launch: &Launch<'_>) -> Option<Plan> {
    let (outer, all) = (body.outer(), launch.extents);
    let full = Full::new(body, launch);
    let (along, total) = (all[outer - 1], all[outer]);
    let rows = points(&all[..outer - 1]);
    // Operands that move along the inner axis lie still along the outer one.
    let still: &[usize] = match op {
        AxisOp::Scan(_) => &[0],
        AxisOp::Scatter(_) => &[1, 2],
    };
    let fits = still
        .iter()
        .all(|&p| along <= 1 || full.stride(p, outer - 1) == 0);
    if !fits || (matches!(op, AxisOp::Scan(_)) && along != total) {
        return None;
    }
    let (pieces, length) = match op {
        AxisOp::Scan(_) if rows < MANY_ROWS && total >= 2 * PIECE => {
            let length = total
                .div_ceil((total / PIECE).min(MOST_PIECES))
                .next_multiple_of(64);
            (total.div_ceil(length), length)
        }
        AxisOp::Scan(_) | AxisOp::Scatter(_) => (1, total),
    };
    let units = u128::from(rows) * u128::from(along.max(pieces));
    let group = if target.cpu {
        1
    } else {
        GROUP.min(target.max_group_size)
    };
    let form = Form::Axis(axis::Form { split: pieces > 1 });
    let wide = full.operands().reach().max(units).max(total.into()) > u128::from(NARROW);
    let variant = Variant::of(form, body, wide, group);
    let own = AxisWords {
        rows,
        total,
        chunks: pieces,
        length,
        along,
    };
    let mut values = own.values();
    words::push(&full.operands(), &variant, &mut values);
    let grid = |items: u64| Grid::of(items.div_ceil(group.into()), group, target);
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
