//! Scans and scatters: along one axis in order, everything else side by side.
//!
//! A work-item takes a row. Where rows are few and long, those of a scan are cut into pieces: a first pass reduces each
//! piece, the second starts from what lies before. A scatter copies its base in a first pass.

mod plan;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use plan::plan;
pub(crate) use write::source;

use crate::words::launch_words;
use thalweg_hal::library::{LibraryOp, Scan, Scatter};

/// What a source depends on beside the axes' classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    /// Whether a scan's rows are cut into pieces.
    split: bool,
}

launch_words! {
    /// The words of a scan or scatter.
    AxisWords {
        rows: idx,
        /// Elements that are scanned, or updates.
        total: idx,
        /// Pieces of a row, and the elements of each.
        chunks: idx,
        length: idx,
        /// Extent of the axis that is scanned or scattered to.
        along: idx,
    }
}

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
