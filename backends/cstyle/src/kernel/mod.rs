//! Kernels of the IR: maps, point by point, and reductions along rows.
//!
//! A launch's axes are dropped, ordered and merged first (`space.rs`), so that few programs serve many shapes. A row is walked by
//! a work-item, a group, or several of them in several passes (`rows.rs`); rows that lie across memory are walked side by side
//! (`columns.rs`). `walk.rs` has the loops over points, `kept.rs` those over rows that
//! stay in registers, `fold.rs` what combines partial results, `pairs.rs` two points of f16
//! or bf16 in one word.

mod columns;
mod fold;
mod kept;
mod pairs;
mod plan;
mod rows;
mod space;
#[cfg(test)]
mod tests;
mod walk;

pub(crate) use kept::Kept;
pub(crate) use plan::plan;

use crate::Source;
use crate::words::launch_words;
use crate::write::{Outline, Writer};

/// How a launch is spread over work-items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// Every point on its own.
    Map,
    /// Rows, each walked by a work-item or by a group.
    Rows {
        by_group: bool,
        /// Whether several walk one row, with a pass for each stage.
        split: bool,
        /// Whether a group keeps what several of its walks need in registers.
        kept: bool,
    },
    /// Neighbouring rows side by side, point by point: for inputs whose rows lie across. Sums are those of the form above.
    Columns {
        /// Rows that are walked at once.
        rows: u16,
    },
}

launch_words! {
    /// The words of a kernel.
    KernelWords {
        /// Rows, or 1.
        rows: idx,
        /// Points of the space that is walked.
        total: idx,
        /// Pieces of a row.
        chunks: idx,
        /// Points of a piece; of a work-item in a map on a CPU.
        length: idx,
    }
}

/// The source of a kernel.
pub(crate) fn source(writer: Writer<'_>, form: Form) -> Source {
    let split = matches!(form, Form::Rows { split: true, .. });
    let outline = Outline {
        scratch: split,
        entries: if split { writer.body.depth() + 1 } else { 1 },
        ..Outline::of(KernelWords::declarations())
    };
    writer.program(
        outline,
        |_| {},
        |writer, pass| match form {
            Form::Map => writer.map(),
            Form::Rows { by_group, kept, .. } => writer.rows(by_group, split.then_some(pass), kept),
            Form::Columns { rows } => writer.rows_side_by_side(rows),
        },
    )
}
