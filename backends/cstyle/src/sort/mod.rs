//! Sorts: rows that fit local memory each by one group, longer ones digit by digit through scratch memory.
//!
//! A long row takes three entries for each digit, the lowest first: the counts of its pieces, their sums, and the elements to
//! their places. What a group or a work-item of a CPU does stands in the `*.h` beside this; `write.rs` writes what differs from
//! one program to another around it.

mod plan;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use plan::plan;
pub(crate) use write::source;

use crate::words::launch_words;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Node, Role};
use thalweg_hal::library::Sort;

/// What a source depends on beside the axes' classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    /// Whether rows are sorted digit by digit through scratch memory, and not each by one group.
    long: bool,
}

impl Form {
    /// Whether passes are about one digit each.
    pub(crate) fn has_rounds(self) -> bool {
        self.long
    }
}

launch_words! {
    /// The words of a sort; those of long rows have the places of [`Section`]s and the round of a pass too.
    SortWords {
        rows: idx,
        /// Elements of a row.
        total: idx,
        /// Pieces of a long row, and the elements of each; tiles of short rows, and the rows of each.
        chunks: idx,
        length: idx,
        /// What keys are combined with, so that they rise in the direction of the sort.
        flip: tl_order,
    }
}

/// A part of the scratch memory of long rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    /// How often each digit occurs in a row.
    Totals,
    /// How often in each piece of a row; then how often before it.
    Counts,
    /// Where the elements were.
    Numbers,
    /// The elements.
    Elements,
}

impl Section {
    const ALL: [Section; 4] = [
        Section::Totals,
        Section::Counts,
        Section::Numbers,
        Section::Elements,
    ];
}

/// Longest row that one group sorts by itself.
fn short(cpu: bool) -> u64 {
    if cpu { 256 } else { 2048 }
}

/// Elements of a work-item while a group puts a tile of a long row in order.
const OWN: u32 = 16;
/// Most pieces of a row whose counts a work-item of a GPU sums by itself; those of more are summed by a group.
const FEW: u64 = 16;
/// Bits of a digit. Their number in an element is even: elements go to scratch memory and back to the output, and none goes
/// from the input to the output at once, which may be the same memory.
fn digit_bits(dtype: DType) -> u32 {
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
pub(crate) fn parameters(op: &Sort) -> Kernel {
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
