//! Matrix products, and convolutions as such: two operands summed over common axes.
//!
//! Axes of a definition are the rows, the columns and the depth of matrices ([`Roles`]). A group computes a tile of the result:
//! from tiles of its operands in local memory (`tiled.rs`), for CUDA from tiles that are copied ahead (`staged.rs`, `sums.rs`), or,
//! where a work-item is a CPU's thread, from packed panels (`panel.rs`). Convolutions read one operand through tables of places
//! (`taps.rs`, `places.rs`). Long sums of small results are cut into pieces, which a second pass adds.

mod config;
mod panel;
mod places;
mod plan;
mod staged;
mod sums;
mod taps;
#[cfg(test)]
mod tests;
mod tiled;
mod write;

pub use config::MatmulConfig;
pub(crate) use plan::plan;
pub(crate) use write::source;

use crate::words::{Declaration, launch_words};
use smallvec::SmallVec;
use thalweg_hal::library::{Conv, LibraryOp, MAX_SPATIAL};

/// What a source depends on beside the axes' classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    config: MatmulConfig,
    /// Whether sums are cut into pieces, which a second pass adds.
    split: bool,
    /// Spatial axes of a convolution; 0 for a matrix product.
    spatial: u8,
    /// Whether its places are divided.
    divides: bool,
    /// How the operands come to tiles that are copied ahead.
    sides: [staged::Side; 2],
    /// Whether each tap of a convolution has a bit then.
    bits: bool,
}

launch_words! {
    /// The words of a product; those of [`Taps`] follow.
    ProductWords {
        /// Matrices.
        rows: idx,
        /// Points that a sum is over.
        total: idx,
        /// Pieces of a sum, and the points of each.
        chunks: idx,
        length: idx,
        /// Rows and columns of the result.
        height: idx,
        width: idx,
    }
}

/// The axes and operands of a definition, as those of matrices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Roles {
    /// The parameter whose rows are the result's rows.
    left: usize,
    /// The parameter whose columns are the result's columns.
    right: usize,
    /// Outer axes: one matrix for each of their points.
    batch: SmallVec<[usize; 8]>,
    /// The outer axis of the rows.
    row: usize,
    /// The outer axes of the columns, the slowest first.
    columns: SmallVec<[usize; 4]>,
    /// How the right operand is reached, where that is by taps.
    taps: Option<Taps>,
}

/// Places along the spatial axes: `c * column + d * depth + shift`, divided by `divide`, with c an index of the columns and d
/// one of the inner space. What is not whole or lies outside the operand is 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taps {
    /// Number of spatial axes: the last ones of the columns, and the last inner ones.
    spatial: usize,
    column: [i64; MAX_SPATIAL],
    depth: [i64; MAX_SPATIAL],
    shift: [i64; MAX_SPATIAL],
    divide: [i64; MAX_SPATIAL],
}

impl Taps {
    fn divides(&self) -> bool {
        self.divide[..self.spatial].iter().any(|&by| by != 1)
    }

    /// For each spatial axis the factors of columns and depth, the shift and the divisor.
    fn declarations(spatial: u8) -> impl Iterator<Item = Declaration> {
        let of = |axis| ["fc", "fd", "fs", "by"].map(|name| Declaration::of("idx", &format!("{name}{axis}")));
        (0..spatial).flat_map(of)
    }

    /// In the order of [`Taps::declarations`].
    fn words(&self) -> impl Iterator<Item = u64> {
        let of = |axis| [&self.column, &self.depth, &self.shift, &self.divide].map(|part| part[axis] as u64);
        (0..self.spatial).flat_map(of)
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
