//! How an attention runs.

use super::matrix::Matrix;
use super::{AttentionWords, Tile};
use crate::body::Body;
use crate::operands::{Full, NARROW, points};
use crate::variant::{Form, Grid, Pass, Plan, Step, Variant};
use crate::{Launch, Target, attention, words};
use thalweg_hal::library::Attention;

/// Tiles of queries that a CPU's launch is shared out to, where there are enough.
const WANTED: u64 = 64;

/// How a launch runs.
pub(crate) fn plan(body: &Body, op: &Attention, target: &Target, launch: &Launch<'_>) -> Plan {
    let (outer, all) = (body.outer(), launch.extents);
    let batch = outer - 2;
    let [queries, width, keys, depth] = [batch, batch + 1, outer, outer + 1].map(|axis| all[axis]);
    // Without depth nothing is read.
    let keys = if depth == 0 { 0 } else { keys };
    let heads = match all[..outer].contains(&0) {
        true => 0,
        false => points(&all[..batch]),
    };
    let full = Full::new(body, launch);
    let matrix = Matrix::of(op, target, &full);
    let (rows, columns, group) = match matrix {
        Some(matrix) => (matrix.rows(), Matrix::columns(op.dtype, width), Matrix::GROUP),
        None => {
            let tile = Tile::of(op.accumulate, target, queries, width);
            (tile.rows, tile.columns, tile.across * tile.down)
        }
    };
    let length = if target.cpu {
        let shared = (heads * queries).div_ceil(WANTED).next_multiple_of(8);
        shared.clamp(8, rows.into())
    } else {
        rows.into()
    };
    let chunks = queries.div_ceil(length);
    let units = heads * chunks * width.div_ceil(columns.into());
    let params = body.kernel.params.len();
    let longest = [units, queries, width, keys, depth]
        .into_iter()
        .max()
        .unwrap_or(0);
    let form = Form::Attention(attention::Form {
        rows: rows as u16,
        columns: columns as u16,
        matrix,
    });
    let wide = full.operands().reach().max(longest.into()) > u128::from(NARROW);
    let variant = Variant {
        in_place: false,
        // Queries and keys along the depth, values and the output along the columns.
        steps: (0..params)
            .map(|p| match p {
                0 | 1 if full.stride(p, outer + 1) == 1 => Step::Unit,
                _ => Step::Any,
            })
            .collect(),
        row_steps: (0..params)
            .map(|p| match p {
                _ if p == 2 || p + 1 == params => match full.stride(p, batch + 1) {
                    1 => Step::Unit,
                    _ => Step::Any,
                },
                _ => Step::Zero,
            })
            .collect(),
        ..Variant::of(form, body, wide, group)
    };
    let own = AttentionWords {
        rows: heads,
        total: keys,
        chunks,
        length,
        height: queries,
        width,
    };
    let mut values = own.values();
    words::push(&full.operands(), &variant, &mut values);
    let grid = Grid::of(units, variant.group.into(), target);
    Plan {
        variant,
        passes: Pass::each((units > 0).then_some(grid)),
        scratch_bytes: 0,
        words: values,
    }
}
