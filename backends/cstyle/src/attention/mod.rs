//! Attention: tiles of queries, past which keys and values go block by block.
//!
//! Scores and weights stay in local memory, or, where a work-item is a CPU's thread, in private memory. What becomes of a tile
//! stands in `group.h` and `item.h`; `write.rs` writes types, constants and strides around it. Where there are matrix instructions,
//! scores and weights stay in registers: `matrix.rs`.

mod matrix;
mod plan;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use plan::plan;
pub(crate) use write::source;

use crate::Target;
use crate::words::launch_words;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, ReduceOp, Role, ScalarOp};
use thalweg_hal::library::Attention;

/// Work-items of a group, at most.
const GROUP: u32 = 256;
/// Work-items side by side along keys and columns, at most.
const ACROSS: u32 = 16;

/// What a source depends on beside the axes' classes: queries and columns of values of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    rows: u16,
    columns: u16,
    /// Where matrix instructions multiply.
    matrix: Option<matrix::Matrix>,
}

launch_words! {
    /// The words of an attention.
    AttentionWords {
        /// Heads of all batches.
        rows: idx,
        /// Keys.
        total: idx,
        /// Tiles of a head's queries, and the queries of each.
        chunks: idx,
        length: idx,
        /// Queries, and columns of values.
        height: idx,
        width: idx,
    }
}

/// Lengths that a program is compiled for. The order of sums follows from them, and these from the dtype and the queries.
#[derive(Clone, Copy)]
struct Tile {
    /// Queries of a tile; on a CPU at most.
    rows: u32,
    /// Columns of values of a tile. Wider values take several, each with the scores anew.
    columns: u32,
    /// Keys of a block.
    keys: u32,
    /// Depth of a step.
    depth: u32,
    /// Work-items along keys and columns, and along queries.
    across: u32,
    down: u32,
}

impl Tile {
    /// 31 KiB of local memory: what every device has. On a CPU 150 KiB of private memory, 200 in f64.
    fn of(accumulate: DType, target: &Target, queries: u64, width: u64) -> Tile {
        let wide = accumulate == DType::F64;
        if target.cpu {
            return Tile {
                rows: if wide { 64 } else { 128 },
                columns: 128,
                keys: 64,
                depth: 64,
                across: 1,
                down: 1,
            };
        }
        let group = 1 << GROUP.min(target.max_group_size).max(1).ilog2();
        let across = ACROSS.min(group);
        let down = group / across;
        // Few queries leave most of a tile idle.
        let own = if queries <= down.into() { 1 } else { 4.min(across) };
        Tile {
            rows: own * down,
            columns: match width {
                0..=32 => 32,
                33..=64 => 64,
                _ => 128,
            },
            keys: if wide { 32 } else { 64 },
            depth: if wide { 8 } else { 16 },
            across,
            down,
        }
    }

    /// That of a program.
    fn planned(accumulate: DType, target: &Target, form: Form) -> Tile {
        let tile = Tile::of(accumulate, target, u64::MAX, form.columns.into());
        Tile {
            rows: form.rows.into(),
            ..tile
        }
    }
}

/// A kernel with the parameters of an attention. Offsets, strides and words are read from it; what it computes is not.
pub(crate) fn parameters(op: &Attention) -> Kernel {
    let mut kernel = Kernel::new("attention", op.batch + 2, 2);
    let operands = [Some(op.dtype); 3].into_iter().chain([op.mask]);
    let mut values = Vec::new();
    for dtype in operands.flatten() {
        let param = kernel.param(dtype, Role::In, Level::Element, Access::Strided);
        let value = kernel.load(param);
        values.push(if dtype == op.dtype {
            value
        } else {
            kernel.cast(op.dtype, value)
        });
    }
    kernel.scalars.push(op.accumulate);
    let sum = (values.into_iter()).reduce(|sum, value| kernel.op(ScalarOp::Add, &[sum, value]));
    if let Some(sum) = sum {
        let sum = kernel.reduce(ReduceOp::Max, sum);
        let out = kernel.param(op.dtype, Role::Out, Level::Row, Access::Strided);
        kernel.store(out, sum);
    }
    kernel
}
