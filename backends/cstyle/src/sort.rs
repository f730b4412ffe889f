//! Sorts: rows that fit local memory each by one group, longer ones digit by digit through scratch memory.

use crate::body::Body;
use crate::plan::NARROW;
use crate::space::points;
use crate::variant::{Form, Grid, Pass, Passes, Plan, Room, Step, Variant, Word, Words, words};
use crate::{Launch, Target};
use smallvec::SmallVec;
use thalweg_hal::dtype::Class;
use thalweg_hal::ir::{Access, Kernel, Level, Node, Role};
use thalweg_hal::library::Sort;
use thalweg_hal::{DType, Error, Result};

/// Longest row that one group sorts by itself.
pub(crate) fn short(cpu: bool) -> u64 {
    if cpu { 256 } else { 2048 }
}

/// Work-items of a group, at most.
const GROUP: u32 = 256;
/// Elements of a work-item while a group puts a tile of a long row in order.
pub(crate) const OWN: u32 = 16;
/// Elements of a piece of a long row on a CPU, at least.
const RUN: u64 = 1 << 14;
/// Most groups of a launch, and most that the pieces of long rows are shared out to.
const MOST_GROUPS: u64 = 1 << 20;
const MOST_PIECES: u64 = 2048;
/// The same on a CPU.
const MOST_RUNS: u64 = 256;
/// Most pieces of a row whose counts a work-item of a GPU sums by itself; those of more are summed by a group.
pub(crate) const FEW: u64 = 16;
/// Parts of scratch memory start at multiples of this.
const ALIGNMENT: u64 = 256;

/// Bits of a digit. Their number in an element is even: elements go to scratch memory and back to the output, and none goes
/// from the input to the output at once, which may be the same memory.
pub(crate) fn digit_bits(dtype: DType) -> u32 {
    if dtype.size() == 1 { 4 } else { 8 }
}

/// The dtype of a sort's elements in the source, which moves bits.
fn unsigned(dtype: DType) -> DType {
    match dtype.size() {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        _ => DType::U64,
    }
}

/// A kernel with the parameters of a sort. Offsets, strides and words are read from it; what it computes is not.
pub(crate) fn form(op: &Sort) -> Kernel {
    let mut kernel = Kernel::new("sort", op.batch + 1, 0);
    let elements = unsigned(op.dtype);
    let x = kernel.param(elements, Role::In, Level::Row, Access::Strided);
    let values = kernel.param(elements, Role::Out, Level::Row, Access::Strided);
    let indices = kernel.param(DType::I64, Role::Out, Level::Row, Access::Strided);
    let value = kernel.load(x);
    kernel.store(values, value);
    let index = kernel.push(Node::Index { axis: op.batch });
    kernel.store(indices, index);
    kernel
}

/// What keys are combined with by exclusive or, so that they rise in the direction of the sort.
fn flip(op: &Sort) -> u64 {
    let all = u64::MAX >> (64 - 8 * op.dtype.size());
    let turned = if op.descending { all } else { 0 };
    match op.dtype.class() {
        Class::Signed => turned ^ (all ^ (all >> 1)),
        // Keys of floats are made in the source.
        Class::Float | Class::Unsigned | Class::Bool => turned,
    }
}

/// How the rows of a launch are cut.
struct Cut {
    long: bool,
    chunks: u64,
    length: u64,
}

impl Cut {
    fn of(rows: u64, n: u64, group: u32, cpu: bool) -> Cut {
        if n <= short(cpu) {
            // Tiles, and the rows of each.
            let length = if cpu { 1 } else { short(cpu) / n.max(1) };
            return Cut {
                long: false,
                chunks: rows.div_ceil(length),
                length,
            };
        }
        let (tile, most) = if cpu {
            (RUN, MOST_RUNS)
        } else {
            (u64::from(OWN * group), MOST_PIECES)
        };
        let pieces = n.div_ceil(tile).min(most.div_ceil(rows.max(1)));
        let length = n.div_ceil(pieces).next_multiple_of(tile);
        Cut {
            long: true,
            chunks: n.div_ceil(length),
            length,
        }
    }
}

/// How a launch runs.
///
/// # Errors
/// `Unsupported` when an index does not fit 32 bits.
pub(crate) fn plan(body: &Body, op: &Sort, target: &Target, launch: &Launch<'_>) -> Result<Plan> {
    let (outer, all) = (body.outer(), launch.extents);
    let strides = body.strides(launch);
    let stride = |p: usize, axis: usize| strides[p * outer + axis];
    let n = all[outer - 1];
    let rows = points(&all[..outer - 1]);
    if n > u64::from(u32::MAX) {
        return Err(Error::unsupported(format!(
            "sort: {n} elements along the axis, at most {} are possible",
            u32::MAX
        )));
    }
    let group = if target.cpu {
        1
    } else {
        1 << GROUP.min(target.max_group_size).max(1).ilog2()
    };
    let cut = Cut::of(rows, n, group, target.cpu);
    let reach = |p: usize| {
        let axis = |axis: usize| {
            u128::from(stride(p, axis).unsigned_abs()) * u128::from(all[axis].saturating_sub(1))
        };
        (0..outer).map(axis).sum::<u128>()
    };
    let most = (0..body.touched.len()).map(reach).max().unwrap_or(0);
    let variant = Variant {
        form: Form::Sort { long: cut.long },
        wide: most.max(u128::from(rows) * u128::from(n)) > u128::from(NARROW),
        in_place: true,
        lanes: 1,
        group: group as u16,
        outer: outer as u8,
        inner: 0,
        homes: SmallVec::new(),
        steps: SmallVec::from_elem(Step::Any, body.kernel.params.len()),
        row_steps: SmallVec::new(),
    };
    let rooms = Rooms::new(op, rows, n, &cut);
    let mut values = Words::new();
    words(body, &variant, |word| {
        values.push(match word {
            Word::Rows => rows,
            Word::Total => n,
            Word::Chunks => cut.chunks,
            Word::Length => cut.length,
            Word::Outer(axis) => all[axis],
            Word::Offset(p) => launch.places[p].offset,
            Word::OuterStride(p, axis) => stride(p, axis) as u64,
            Word::Flip => flip(op),
            Word::Room(room) => rooms.starts[room as usize],
            // Each pass has its own.
            Word::Round => 0,
            // Of other forms.
            Word::Along
            | Word::MatrixRows
            | Word::MatrixColumns
            | Word::Tap(_)
            | Word::Inner(_)
            | Word::InnerStride(..)
            | Word::GatherStride(_)
            | Word::GatherExtent(_)
            | Word::Scalar(_) => 0,
        });
    });
    Ok(Plan {
        variant,
        passes: passes(op, rows, n, &cut, group, target.cpu),
        scratch_bytes: if cut.long { rooms.bytes } else { 0 },
        words: values,
    })
}

/// For each digit: how often it occurs, where its elements begin, and the elements to their places.
fn passes(op: &Sort, rows: u64, n: u64, cut: &Cut, group: u32, cpu: bool) -> Passes {
    let grid = |units: u64| Grid {
        groups: units.min(if cpu { MOST_RUNS } else { MOST_GROUPS }),
        group_size: group,
    };
    if rows == 0 || n == 0 {
        return Passes::new();
    }
    if !cut.long {
        return Pass::each([grid(cut.chunks)]);
    }
    let bits = digit_bits(op.dtype);
    let pieces = grid(rows * cut.chunks);
    let sums = grid(match cpu {
        true => rows,
        false if cut.chunks <= FEW => (rows << bits).div_ceil(group.into()),
        false => rows << bits,
    });
    let rounds = 8 * op.dtype.size() as u64 / u64::from(bits);
    let of = |round: u64| {
        [pieces, sums, pieces]
            .into_iter()
            .enumerate()
            .map(move |(entry, grid)| Pass {
                entry,
                grid,
                round: Some(round),
            })
    };
    (0..rounds).flat_map(of).collect()
}

/// Where the parts of scratch memory lie.
struct Rooms {
    starts: [u64; Room::ALL.len()],
    bytes: u64,
}

impl Rooms {
    fn new(op: &Sort, rows: u64, n: u64, cut: &Cut) -> Rooms {
        let (mut starts, mut bytes) = ([0; Room::ALL.len()], 0);
        for room in Room::ALL {
            starts[room as usize] = bytes;
            let size = match room {
                Room::Totals => 4 * (rows << digit_bits(op.dtype)),
                Room::Counts => 4 * (rows << digit_bits(op.dtype)) * cut.chunks,
                Room::Numbers => 4 * rows * n,
                Room::Elements => op.dtype.size() as u64 * rows * n,
            };
            bytes += size.next_multiple_of(ALIGNMENT);
        }
        Rooms { starts, bytes }
    }
}
