//! What a program is compiled for, and what a launch of it hands over.

use crate::MatmulConfig;
use crate::body::Body;
use smallvec::SmallVec;
use std::borrow::Cow;
use thalweg_hal::ir::Level;

/// What a program is compiled for: a key of a cache, beside the kernel and the [`Target`](crate::Target).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Variant {
    pub(crate) form: Form,
    /// Whether indices need 64 bits.
    pub(crate) wide: bool,
    /// Whether an output stands in the memory of an input.
    pub(crate) in_place: bool,
    /// Neighbouring elements that a work-item takes at once.
    pub(crate) lanes: u8,
    /// Work-items of a group.
    pub(crate) group: u16,
    /// Axes of the space of rows.
    pub(crate) outer: u8,
    /// Axes of the space that is walked.
    pub(crate) inner: u8,
    /// Where each axis of the kernel went, when the kernel reads indices.
    pub(crate) homes: SmallVec<[u8; 8]>,
    /// How each parameter moves along the last axis.
    pub(crate) steps: SmallVec<[Step; 8]>,
    /// How each parameter moves along the last axis of rows, where neighbouring rows are walked side by side, and in attention.
    pub(crate) row_steps: SmallVec<[Step; 8]>,
}

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
    },
    /// Neighbouring rows side by side, point by point: for inputs whose rows lie across. Sums are those of the form above.
    Columns {
        /// Rows that are walked at once.
        rows: u16,
    },
    /// A scan or scatter.
    Axis {
        /// Whether a scan's rows are cut into pieces.
        split: bool,
    },
    /// A sort.
    Sort {
        /// Whether rows are sorted digit by digit through scratch memory, and not each by one group.
        long: bool,
    },
    /// Attention: queries and columns of values of a tile.
    Attention { rows: u16, columns: u16 },
    /// The program that interprets kernels.
    Generic,
    /// A matrix product, or a convolution as one.
    Product {
        config: MatmulConfig,
        /// Whether sums are cut into pieces, which a second pass adds.
        split: bool,
        /// Spatial axes of a convolution; 0 for a matrix product.
        spatial: u8,
        /// Whether its places are divided.
        divides: bool,
    },
}

/// Stride along the last axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Zero,
    Unit,
    Any,
}

impl Variant {
    /// Whether the program is the one that interprets kernels: the same for all of them.
    pub fn is_generic(&self) -> bool {
        self.form == Form::Generic
    }
}

impl Step {
    pub(crate) fn of(stride: i64) -> Step {
        match stride {
            0 => Step::Zero,
            1 => Step::Unit,
            _ => Step::Any,
        }
    }
}

/// Groups of a pass; one-dimensional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Number of groups; below 2^31.
    pub groups: u64,
    /// Work-items of a group.
    pub group_size: u32,
}

/// The words of a launch.
pub type Words = SmallVec<[u64; 32]>;

/// One call of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Which entry of the source.
    pub entry: usize,
    /// Its grid.
    pub grid: Grid,
    /// Value of the last word, where it is another in each pass.
    pub round: Option<u64>,
}

/// The passes of a plan.
pub type Passes = SmallVec<[Pass; 4]>;

impl Pass {
    /// The words of this pass, from those of its plan.
    pub fn words<'a>(&self, words: &'a [u64]) -> Cow<'a, [u64]> {
        match (self.round, words) {
            (Some(round), [first @ .., _]) => Cow::Owned([first, &[round]].concat()),
            _ => Cow::Borrowed(words),
        }
    }

    /// A pass for each entry, in their order.
    pub(crate) fn each(grids: impl IntoIterator<Item = Grid>) -> Passes {
        let pass = |(entry, grid)| Pass {
            entry,
            grid,
            round: None,
        };
        grids.into_iter().enumerate().map(pass).collect()
    }
}

/// How a launch runs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which program.
    pub variant: Variant,
    /// What is called, in this order. Empty when there is nothing to do.
    pub passes: Passes,
    /// Bytes of scratch memory.
    pub scratch_bytes: u64,
    /// Values of the last argument.
    pub words: Words,
}

/// A part of the scratch memory of a sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// How often each digit occurs in a row.
    Totals,
    /// How often in each piece of a row; then how often before it.
    Counts,
    /// Where the elements were.
    Numbers,
    /// The elements.
    Elements,
}

impl Room {
    pub(crate) const ALL: [Room; 4] = [Room::Totals, Room::Counts, Room::Numbers, Room::Elements];
}

/// One word of the last argument. The order is that of [`words`], for the plan and for the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// Rows, or 1.
    Rows,
    /// Points of the space that is walked.
    Total,
    /// Pieces of a row.
    Chunks,
    /// Points of a piece; of a work-item in a map on a CPU.
    Length,
    /// Extent of the axis that is scanned or scattered to.
    Along,
    /// What keys of a sort are combined with, so that they rise in its direction.
    Flip,
    /// First byte of a part of a sort's scratch memory.
    Room(Room),
    /// Which digit a pass of a sort is about, the lowest first. The last word.
    Round,
    /// Of a convolution: for each spatial axis the factors of columns and depth, the shift and the divisor.
    Tap(usize),
    /// Rows and columns of a product or an attention.
    MatrixRows,
    MatrixColumns,
    /// Extent of an axis of rows.
    Outer(usize),
    /// Extent of an axis of the space that is walked.
    Inner(usize),
    /// Bytes to the element at index 0.
    Offset(usize),
    /// Stride along an axis of rows.
    OuterStride(usize, usize),
    /// Stride along an axis of the space that is walked.
    InnerStride(usize, usize),
    GatherStride(usize),
    GatherExtent(usize),
    Scalar(usize),
}

/// Calls `visit` with every word of a variant, in order.
pub(crate) fn words(body: &Body, variant: &Variant, mut visit: impl FnMut(Word)) {
    let (outer, inner) = (variant.outer as usize, variant.inner as usize);
    let is_product = matches!(variant.form, Form::Product { .. });
    let is_attention = matches!(variant.form, Form::Attention { .. });
    [Word::Rows, Word::Total, Word::Chunks, Word::Length]
        .into_iter()
        .for_each(&mut visit);
    if is_product || is_attention {
        visit(Word::MatrixRows);
        visit(Word::MatrixColumns);
    }
    if let Form::Product { spatial, .. } = variant.form {
        (0..4 * usize::from(spatial)).for_each(|part| visit(Word::Tap(part)));
    }
    if matches!(variant.form, Form::Axis { .. }) {
        visit(Word::Along);
    }
    if let Form::Sort { long } = variant.form {
        visit(Word::Flip);
        if long {
            Room::ALL.map(Word::Room).into_iter().for_each(&mut visit);
        }
    }
    (1..outer).for_each(|axis| visit(Word::Outer(axis)));
    (1..inner).for_each(|axis| visit(Word::Inner(axis)));
    for (p, param) in body
        .kernel
        .params
        .iter()
        .enumerate()
        .filter(|(p, _)| body.touched[*p])
    {
        visit(Word::Offset(p));
        (0..outer).for_each(|axis| visit(Word::OuterStride(p, axis)));
        if variant.form == Form::Map || param.level == Level::Element {
            let counted = if is_product || variant.steps[p] == Step::Any {
                inner
            } else {
                inner - 1
            };
            (0..counted).for_each(|axis| visit(Word::InnerStride(p, axis)));
        }
        if body.gathered[p] {
            visit(Word::GatherStride(p));
            visit(Word::GatherExtent(p));
        }
    }
    (0..body.kernel.scalars.len()).for_each(|index| visit(Word::Scalar(index)));
    if variant.form == (Form::Sort { long: true }) {
        visit(Word::Round);
    }
}
