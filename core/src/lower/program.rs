//! Programs: what lowering makes and an executable runs.

use super::origin::Origin;
use crate::error::tag::OpTag;
use crate::graph::{NodeId, Type};
use crate::hal::library::LibraryOp;
use crate::hal::{DType, ir};
use crate::types::layout::Layout;
use std::sync::Arc;

/// Memory that a program touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Slot {
    /// Buffer of argument `i` of the graph.
    Input(u32),
    /// Buffer that the program makes: [`Program::locals`].
    Local(u32),
}

/// A buffer that the program makes; a temporary unless an output lies in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Local {
    /// Size in bytes.
    pub bytes: u64,
}

/// One buffer argument of a launch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Argument {
    /// Which buffer.
    pub slot: Slot,
    /// Byte offset of the element at index 0; for an input, added to the offset of the tensor given.
    pub offset: u64,
    /// Elements per axis of the parameter's level, for strided parameters.
    pub strides: Option<Vec<i64>>,
    /// Elements from one gather index to the next, and how many there are.
    pub gather: (i64, u64),
}

/// What is compiled. Equal sources are compiled once for a device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// A kernel in the IR.
    Kernel(ir::Kernel),
    /// A library op that the device supports.
    Library(LibraryOp),
}

impl Source {
    /// What is in the kernel: `matmul`, `exp_mul`.
    pub(crate) fn name(&self) -> &str {
        match self {
            Source::Kernel(kernel) => &kernel.name,
            Source::Library(op) => op.name(),
        }
    }
}

/// A scalar argument of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    /// Always these bits.
    Bits(u64),
    /// The bits of scalar argument `i` of the program: an eager call's constants, so that a new value needs no new kernel.
    Argument(u32),
}

/// Over what a kernel runs, and with what.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// Outer extents, then inner ones.
    pub extents: Vec<u64>,
    /// One for each parameter.
    pub arguments: Vec<Argument>,
    /// Scalar arguments.
    pub scalars: Vec<Scalar>,
}

/// One piece of work.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Run a kernel.
    Launch {
        /// What.
        source: Arc<Source>,
        /// Over what, and with what.
        launch: Launch,
        /// The op that the user called.
        tag: OpTag,
    },
    /// Fill a range with one element.
    Fill {
        /// Which buffer; a local.
        slot: Slot,
        /// First byte.
        offset: u64,
        /// How many bytes, at least one element.
        bytes: u64,
        /// Bits of the element.
        pattern: u64,
        /// Bytes of the element.
        pattern_bytes: u32,
        /// The op that the user called.
        tag: OpTag,
    },
}

impl Step {
    /// The same work on other memory: `moved` gives slot and offset for those here.
    pub(crate) fn moved(&self, moved: &dyn Fn(Slot, u64) -> (Slot, u64)) -> Step {
        let mut step = self.clone();
        match &mut step {
            Step::Launch { launch, .. } => {
                for argument in &mut launch.arguments {
                    (argument.slot, argument.offset) = moved(argument.slot, argument.offset);
                }
            }
            Step::Fill { slot, offset, .. } => (*slot, *offset) = moved(*slot, *offset),
        }
        step
    }

    /// The op that the user called.
    pub(crate) fn tag(&self) -> OpTag {
        match self {
            Step::Launch { tag, .. } | Step::Fill { tag, .. } => *tag,
        }
    }
}

/// Where an output is.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// Its buffer; an input's when the output is a view of it.
    pub slot: Slot,
    /// Its elements; the offset is added to that of the input given.
    pub layout: Layout,
    /// Its type.
    pub ty: Type,
    /// The op that made what lies in the buffer.
    pub tag: OpTag,
}

/// Work in order, without devices and addresses: what an executable is made of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    /// Buffers to make, in the order of their first use.
    pub locals: Vec<Local>,
    /// The work, in order.
    pub steps: Vec<Step>,
    /// Where each step comes from.
    pub origins: Vec<Origin>,
    /// The outputs of the graph.
    pub outputs: Vec<Output>,
    /// The values that steps write whole, in the order in which they are there.
    pub stored: Vec<Stored>,
}

/// A value in a buffer of its own, without gaps: row-major, or with the channels last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    /// The node of the graph.
    pub node: NodeId,
    /// Its buffer.
    pub local: u32,
    /// It is there when so many steps are done.
    pub after: usize,
}

/// What the device can do, as far as lowering cares.
pub(crate) trait Support {
    /// Whether it has the library op.
    fn library(&self, op: &LibraryOp) -> bool;
    /// Whether convolutions of such an operand are fastest with the channels last.
    fn channels_last(&self, operand: DType) -> bool;
}

/// How an argument of a graph comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Given {
    /// In a buffer; of the layout only shape and strides matter, the offset is added when the program runs.
    Buffer(Layout),
    /// As scalar argument `i` of the program, the same everywhere.
    Scalar(u32),
}
