//! What a program is compiled for, and what a launch of it hands over.

use crate::body::Body;
use crate::{Target, attention, axis, kernel, product, sort};
use smallvec::SmallVec;
use std::borrow::Cow;

/// Most groups of a pass on a GPU, and on a CPU, whose work-items take long runs.
pub(crate) const MOST_GROUPS: u64 = 1 << 20;
const MOST_RUNS: u64 = 256;
/// Most work-items of a pass: the longest step of a loop.
pub(crate) const MOST_ITEMS: u64 = 1 << 26;

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
    /// The axis that each axis of the kernel is part of, when the kernel reads indices.
    pub(crate) axes: SmallVec<[u8; 8]>,
    /// How each parameter moves along the last axis.
    pub(crate) steps: SmallVec<[Step; 8]>,
    /// How each parameter moves along the last axis of rows, where neighbouring rows are walked side by side, and in attention.
    pub(crate) row_steps: SmallVec<[Step; 8]>,
}

/// Where an axis of a kernel is that has one index only.
pub(crate) const DROPPED: u8 = u8::MAX;

/// How a launch is spread over work-items: by which routine, and the part of that routine's choices that its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    Kernel(kernel::Form),
    Product(product::Form),
    Attention(attention::Form),
    Sort(sort::Form),
    Axis(axis::Form),
    Interpreted,
}

/// Stride along the last axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Zero,
    Unit,
    Any,
}

impl Variant {
    /// One of the kernel's own axes, none of them merged, and strides of any size; it may run in place.
    pub(crate) fn of(form: Form, body: &Body, wide: bool, group: u32) -> Variant {
        Variant {
            form,
            wide,
            in_place: true,
            lanes: 1,
            group: group as u16,
            outer: body.outer() as u8,
            inner: (body.rank() - body.outer()) as u8,
            axes: SmallVec::new(),
            steps: SmallVec::from_elem(Step::Any, body.kernel.params.len()),
            row_steps: SmallVec::new(),
        }
    }

    /// Whether the program is the one that interprets kernels: the same for all of them.
    pub fn is_interpreted(&self) -> bool {
        self.form == Form::Interpreted
    }

    /// Whether each pass has a last word of its own.
    pub(crate) fn has_rounds(&self) -> bool {
        matches!(self.form, Form::Sort(form) if form.has_rounds())
    }

    /// Whether every point of the space is on its own.
    pub(crate) fn is_map(&self) -> bool {
        self.form == Form::Kernel(kernel::Form::Map)
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

impl Grid {
    /// A grid for `units` pieces of work, of which a group takes one after the other.
    pub(crate) fn of(units: u64, group_size: u32, target: &Target) -> Grid {
        let most = if target.cpu { MOST_RUNS } else { MOST_GROUPS };
        Grid {
            groups: units.min(most),
            group_size,
        }
    }
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
