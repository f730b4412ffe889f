//! Attention: tiles of queries, past which keys and values go block by block; scores and weights stay in local or private memory.

use crate::body::Body;
use crate::plan::NARROW;
use crate::space::points;
use crate::variant::{Form, Grid, Pass, Plan, Step, Variant, Word, Words, words};
use crate::{Launch, Target};
use smallvec::SmallVec;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, ReduceOp, Role, ScalarOp};
use thalweg_hal::library::Attention;

/// Work-items of a group, at most.
const GROUP: u32 = 256;
/// Work-items side by side along keys and columns, at most.
const ACROSS: u32 = 16;
/// Most groups of a launch, and of one on a CPU.
const MOST_GROUPS: u64 = 1 << 20;
const MOST_RUNS: u64 = 256;
/// Tiles of queries that a CPU's launch is shared out to, where there are enough.
const WANTED: u64 = 64;

/// Lengths that a program is compiled for. The order of sums follows from them, and these from the dtype and the queries.
#[derive(Clone, Copy)]
pub(crate) struct Tile {
    /// Queries of a tile; on a CPU at most.
    pub(crate) rows: u32,
    /// Columns of values of a tile. Wider values take several, each with the scores anew.
    pub(crate) columns: u32,
    /// Keys of a block.
    pub(crate) keys: u32,
    /// Depth of a step.
    pub(crate) depth: u32,
    /// Work-items along keys and columns, and along queries.
    pub(crate) across: u32,
    pub(crate) down: u32,
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
    pub(crate) fn planned(accumulate: DType, target: &Target, [rows, columns]: [u16; 2]) -> Tile {
        let tile = Tile::of(accumulate, target, u64::MAX, columns.into());
        Tile {
            rows: rows.into(),
            ..tile
        }
    }
}

/// A kernel with the parameters of an attention. Offsets, strides and words are read from it; what it computes is not.
pub(crate) fn form(op: &Attention) -> Kernel {
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
    let strides = body.strides(launch);
    let stride = |p: usize, axis: usize| strides[p * all.len() + axis];
    let tile = Tile::of(op.accumulate, target, queries, width);
    let length = if target.cpu {
        let shared = (heads * queries).div_ceil(WANTED).next_multiple_of(8);
        shared.clamp(8, tile.rows.into())
    } else {
        tile.rows.into()
    };
    let chunks = queries.div_ceil(length);
    let units = heads * chunks * width.div_ceil(tile.columns.into());
    let params = body.kernel.params.len();
    let reach = |p: usize| {
        let axis = |axis: usize| {
            u128::from(stride(p, axis).unsigned_abs()) * u128::from(all[axis].saturating_sub(1))
        };
        (0..body.axes(p)).map(axis).sum::<u128>()
    };
    let most = (0..params).map(reach).max().unwrap_or(0);
    let longest = [units, queries, width, keys, depth]
        .into_iter()
        .max()
        .unwrap_or(0);
    let variant = Variant {
        form: Form::Attention {
            rows: tile.rows as u16,
            columns: tile.columns as u16,
        },
        wide: most.max(longest.into()) > u128::from(NARROW),
        in_place: false,
        lanes: 1,
        group: (tile.across * tile.down) as u16,
        outer: outer as u8,
        inner: 2,
        homes: SmallVec::new(),
        // Queries and keys along the depth, values and the output along the columns.
        steps: (0..params)
            .map(|p| match p {
                0 | 1 if stride(p, outer + 1) == 1 => Step::Unit,
                _ => Step::Any,
            })
            .collect(),
        row_steps: (0..params)
            .map(|p| match p {
                _ if p == 2 || p + 1 == params => match stride(p, batch + 1) {
                    1 => Step::Unit,
                    _ => Step::Any,
                },
                _ => Step::Zero,
            })
            .collect(),
    };
    let mut values = Words::new();
    words(body, &variant, |word| {
        values.push(match word {
            Word::Rows => heads,
            Word::Total => keys,
            Word::Chunks => chunks,
            Word::Length => length,
            Word::MatrixRows => queries,
            Word::MatrixColumns => width,
            Word::Outer(axis) => all[axis],
            Word::Inner(axis) => all[outer + axis],
            Word::Offset(p) => launch.places[p].offset,
            Word::OuterStride(p, axis) => stride(p, axis) as u64,
            Word::InnerStride(p, axis) => stride(p, outer + axis) as u64,
            Word::Scalar(index) => launch.scalars[index],
            // Of other forms.
            Word::Along
            | Word::Tap(_)
            | Word::GatherStride(_)
            | Word::GatherExtent(_)
            | Word::Flip
            | Word::Room(_)
            | Word::Round => 0,
        });
    });
    let grid = Grid {
        groups: units.min(if target.cpu { MOST_RUNS } else { MOST_GROUPS }),
        group_size: variant.group.into(),
    };
    Plan {
        variant,
        passes: Pass::each((units > 0).then_some(grid)),
        scratch_bytes: 0,
        words: values,
    }
}
