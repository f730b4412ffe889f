//! What a kernel is compiled to: lists of steps over values.

use crate::isa::Isa;
use crate::loops::{Held, LoopFn, Reduction};

/// Elements of a block: what every step of a list works on before the next block.
pub(super) const BLOCK: usize = 1024;

/// Index of a value in a frame's table of addresses.
pub(super) type Value = u32;

/// Which space the lanes of a block run along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Along {
    /// The inner space: a row is walked block by block, row-level values are single.
    Inner,
    /// The outer space: a block of rows is walked element by element. Maps, too.
    Outer,
}

/// Where a value lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// In the plan's pool of constants.
    Constant(u32),
    /// In the launch's scalars.
    Scalar(u32),
    /// 8 bytes of the frame.
    Cell(u32),
    /// A block of the frame; a step may point the value elsewhere.
    Slot(u32),
    /// A whole row (or block of rows) of the frame, kept from one phase to the next.
    Keep(u32),
}

/// One step of a list.
#[derive(Clone, Copy)]
pub(super) enum Step {
    /// A vector loop.
    Loop {
        f: LoopFn,
        out: Value,
        a: Value,
        b: Value,
        c: Value,
    },
    /// Points `out` at the parameter's elements or gathers them: in the memory of the parameter `to` where its elements stand one after
    /// the other, else in its slot. `moved`: a store takes the value as it is.
    Load {
        param: u32,
        out: Value,
        slot: u32,
        moved: bool,
        to: Option<u32>,
    },
    /// Gathers by index.
    LoadAt {
        param: u32,
        out: Value,
        slot: u32,
        index: Value,
        single: bool,
    },
    /// Indices along an axis.
    Index { axis: u32, out: Value },
    /// Random words.
    Rand {
        f: unsafe fn(usize, *mut u8, *const u8, *const u8),
        out: Value,
        key: Value,
        counter: Value,
    },
    /// Points `value` at the output where it may be written there directly, else at its slot.
    Aim { param: u32, value: Value, slot: u32 },
    /// Writes a block.
    Store { param: u32, value: Value },
    /// Takes a block into a reduction.
    Reduce { reduce: u32, arg: Value },
}

/// A reduction of the plan.
pub(super) struct Reduce {
    pub(super) loops: Reduction,
    pub(super) size: usize,
    /// Where the result goes.
    pub(super) result: Value,
}

/// A value kept between phases.
pub(super) struct Kept {
    pub(super) value: Value,
    pub(super) size: usize,
}

/// One walk over the inner space, and what follows it at row level.
pub(super) struct Phase {
    /// Single values of each element of the inner space, where the lanes run along the outer one.
    pub(super) place: Vec<Step>,
    pub(super) element: Vec<Step>,
    /// Reductions that this phase feeds.
    pub(super) reduces: Vec<u32>,
    pub(super) row: Vec<Step>,
}

/// A kernel compiled for one direction of the lanes.
pub(super) struct Plan {
    /// Of its loops.
    pub(super) isa: Isa,
    pub(super) along: Along,
    /// Once per frame, single values.
    pub(super) uniform: Vec<Step>,
    /// Row level, before the first phase.
    pub(super) row: Vec<Step>,
    pub(super) phases: Vec<Phase>,
    pub(super) reduces: Vec<Reduce>,
    /// The value of each node; [`Value::MAX`] where it has none.
    pub(super) of_node: Box<[Value]>,
    pub(super) homes: Vec<Home>,
    pub(super) pool: Box<[u64]>,
    pub(super) cells: usize,
    pub(super) slots: usize,
    /// Bytes of the widest value in a slot.
    pub(super) widest: usize,
    pub(super) kept: Vec<Kept>,
    /// Loops of the first row list.
    pub(super) row_loops: usize,
    /// Whether every slot is one that a step may point elsewhere.
    pub(super) bare: bool,
    /// Values outside of slots.
    pub(super) fixed: Vec<(Value, Home)>,
}

impl Plan {
    /// Bytes of kept values per element.
    pub(super) fn kept_bytes(&self) -> usize {
        self.kept.iter().map(|k| k.size).sum()
    }
}

/// Bytes that a value of a dtype takes in a block.
pub(super) fn held_size(dtype: thalweg_hal::DType) -> usize {
    Held::of(dtype).size()
}
