//! How a sort runs.

use super::{FEW, OWN, Section, SortWords, digit_bits, short};
use crate::body::Body;
use crate::operands::{Full, NARROW, points};
use crate::variant::{Form, Grid, Pass, Passes, Plan, Variant};
use crate::{Launch, Target, sort, words};
use thalweg_hal::dtype::Class;
use thalweg_hal::library::Sort;
use thalweg_hal::{Error, Result};

/// Work-items of a group, at most.
const GROUP: u32 = 256;
/// Elements of a piece of a long row on a CPU, at least.
const RUN: u64 = 1 << 14;
/// Most groups that the pieces of long rows are shared out to, and the same on a CPU.
const MOST_PIECES: u64 = 2048;
const MOST_RUNS: u64 = 256;
/// Parts of scratch memory start at multiples of this.
const ALIGNMENT: u64 = 256;

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
    let full = Full::new(body, launch);
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
    let elements = u128::from(rows) * u128::from(n);
    let form = Form::Sort(sort::Form { long: cut.long });
    let wide = full.operands().reach().max(elements) > u128::from(NARROW);
    let variant = Variant::of(form, body, wide, group);
    let own = SortWords {
        rows,
        total: n,
        chunks: cut.chunks,
        length: cut.length,
        flip: flip(op),
    };
    let mut values = own.values();
    let (starts, scratch_bytes) = sections(op, rows, n, &cut);
    if cut.long {
        values.extend(starts);
    }
    words::push(&full.operands(), &variant, &mut values);
    if cut.long {
        // The round, of which each pass has its own.
        values.push(0);
    }
    Ok(Plan {
        variant,
        passes: passes(op, rows, n, &cut, group, target),
        scratch_bytes: if cut.long { scratch_bytes } else { 0 },
        words: values,
    })
}

/// For each digit: how often it occurs, where its elements begin, and the elements to their places.
fn passes(op: &Sort, rows: u64, n: u64, cut: &Cut, group: u32, target: &Target) -> Passes {
    let grid = |units: u64| Grid::of(units, group, target);
    if rows == 0 || n == 0 {
        return Passes::new();
    }
    if !cut.long {
        return Pass::each([grid(cut.chunks)]);
    }
    let bits = digit_bits(op.dtype);
    let pieces = grid(rows * cut.chunks);
    let sums = grid(match target.cpu {
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

/// Where each [`Section`] of scratch memory starts, and the bytes of all.
fn sections(op: &Sort, rows: u64, n: u64, cut: &Cut) -> ([u64; Section::ALL.len()], u64) {
    let mut bytes = 0;
    let starts = Section::ALL.map(|section| {
        let start = bytes;
        let size = match section {
            Section::Totals => 4 * (rows << digit_bits(op.dtype)),
            Section::Counts => 4 * (rows << digit_bits(op.dtype)) * cut.chunks,
            Section::Numbers => 4 * rows * n,
            Section::Elements => op.dtype.size() as u64 * rows * n,
        };
        bytes += size.next_multiple_of(ALIGNMENT);
        start
    });
    (starts, bytes)
}
