//! Flags: whether a value holds something that is no number.

use super::super::evaluate::lowered;
use crate::context::Context;
use crate::error::Result;
use crate::error::failure::Refusal;
use crate::error::tag::OpTag;
use crate::graph::{Graph, NodeId, Op, Type, rewrite};
use crate::hal::DType;
use crate::hal::ir::{ReduceOp, ScalarOp};
use crate::lower::{Given, Local, Origin, Output, Program, Slot, Step};
use crate::types::layout::Layout;
use crate::types::shape::{Axes, Shape};
use std::collections::HashMap;

/// What raises the flag of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Mark {
    /// A NaN or an infinity.
    NotFinite,
    /// A NaN.
    Nan,
    /// Nothing.
    Never,
}

impl Mark {
    /// That of a value which holds what raised its flag on purpose.
    pub(super) fn excused(self) -> Mark {
        match self {
            Mark::NotFinite => Mark::Nan,
            Mark::Nan | Mark::Never => Mark::Never,
        }
    }
}

fn tag() -> OpTag {
    OpTag {
        op: "check_numerics",
        ..OpTag::NONE
    }
}

/// Adds the flag of a float to a graph, as bool of the shape `[1]`.
pub(super) fn flag(graph: &mut Graph, of: NodeId, mark: Mark) -> Result<NodeId, Refusal> {
    let ty = graph.node(of).ty;
    let x = match ty.dtype {
        DType::F32 | DType::F64 => of,
        _ => graph.push(Op::Cast(DType::F32), &[of], tag())?,
    };
    let Type { shape, dtype } = graph.node(x).ty;
    let zero = graph.push(
        Op::Full {
            dtype,
            bits: 0,
            shape,
        },
        &[],
        tag(),
    )?;
    // 0, or NaN where the flag is raised. So is their sum.
    let found = match mark {
        Mark::NotFinite => graph.push(Op::Map(ScalarOp::Mul), &[x, zero], tag())?,
        Mark::Nan | Mark::Never => {
            let is_nan = graph.push(Op::Map(ScalarOp::Ne), &[x, x], tag())?;
            graph.push(Op::Map(ScalarOp::Select), &[is_nan, x, zero], tag())?
        }
    };
    let axes = Axes::all(shape.len());
    let sum = match axes.is_empty() {
        true => found,
        false => {
            let op = ReduceOp::Sum;
            graph.push(Op::Reduce { op, axes }, &[found], tag())?
        }
    };
    let raised = graph.push(Op::Map(ScalarOp::Ne), &[sum, sum], tag())?;
    graph.push(Op::Reshape(Shape::of(&[1])), &[raised], tag())
}

/// The flags of several values as one, bool `[n]`.
pub(super) fn joined(graph: &mut Graph, flags: &[NodeId]) -> Result<NodeId, Refusal> {
    match flags {
        [only] => Ok(*only),
        several => graph.push(Op::Concat { axis: 0 }, several, tag()),
    }
}

/// The program with the flags of stored values as one more output, bool `[n]`. A mark has the number of the value among
/// [`Program::stored`]. The program's own steps stay as they are.
pub(super) fn with_flags(
    context: &Context,
    graph: &Graph,
    mut program: Program,
    marks: &[(usize, Mark)],
) -> Result<Program> {
    let flags = program.locals.len() as u32;
    let count = marks.len();
    program.locals.push(Local { bytes: count as u64 });
    let mut parts: HashMap<(Type, Mark), Program> = HashMap::new();
    // By the number of steps before them.
    let mut added: Vec<Vec<Step>> = vec![Vec::new(); program.steps.len() + 1];
    for (number, &(at, mark)) in marks.iter().enumerate() {
        let stored = program.stored[at];
        let Type { shape, dtype } = graph.node(stored.node).ty;
        let flat = Type::new(Shape::of(&[shape.elements()]), dtype);
        let part = match parts.get(&(flat, mark)) {
            Some(part) => part,
            None => {
                let part = alone(context, flat, mark)?;
                parts.entry((flat, mark)).or_insert(part)
            }
        };
        let result = part.outputs[0].slot;
        let first = program.locals.len() as u32;
        program.locals.extend(part.locals.iter().copied());
        let moved = |slot: Slot, offset: u64| match slot {
            Slot::Input(_) => (Slot::Local(stored.local), offset),
            slot if slot == result => (Slot::Local(flags), offset + number as u64),
            Slot::Local(local) => (Slot::Local(first + local), offset),
        };
        let steps = part.steps.iter().map(|step| step.moved(&moved));
        added[stored.after].extend(steps);
    }
    let (steps, origins) = (
        std::mem::take(&mut program.steps),
        std::mem::take(&mut program.origins),
    );
    let mut own = steps.into_iter().zip(origins);
    for added in added {
        program
            .origins
            .extend(added.iter().map(|step| Origin::of(step.tag())));
        program.steps.extend(added);
        if let Some((step, origin)) = own.next() {
            program.steps.push(step);
            program.origins.push(origin);
        }
    }
    program.outputs.push(Output {
        slot: Slot::Local(flags),
        layout: Layout::contiguous(Shape::of(&[count])),
        ty: Type::new(Shape::of(&[count]), DType::Bool),
        tag: tag(),
    });
    Ok(program)
}

/// The program of one flag.
fn alone(context: &Context, ty: Type, mark: Mark) -> Result<Program> {
    let mut graph = Graph::new();
    let x = graph.input(ty);
    let flag = flag(&mut graph, x, mark)?;
    graph.output(flag);
    lowered(
        context,
        &rewrite(&graph),
        &[Given::Buffer(Layout::contiguous(ty.shape))],
    )
}
