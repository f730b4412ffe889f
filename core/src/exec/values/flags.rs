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
    let axes = Axes::all(graph.shape(of).len());
    flags(graph, of, mark, axes)
}

/// Adds the flags of parts of a float, as bool in one axis. A part lies along `axes`.
fn flags(graph: &mut Graph, of: NodeId, mark: Mark, axes: Axes) -> Result<NodeId, Refusal> {
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
    let sum = match axes.is_empty() {
        true => found,
        false => {
            let op = ReduceOp::Sum;
            graph.push(Op::Reduce { op, axes }, &[found], tag())?
        }
    };
    let raised = graph.push(Op::Map(ScalarOp::Ne), &[sum, sum], tag())?;
    let count = graph.shape(raised).elements();
    graph.push(Op::Reshape(Shape::of(&[count])), &[raised], tag())
}

/// The flags of several values as one, bool `[n]`.
pub(super) fn joined(graph: &mut Graph, flags: &[NodeId]) -> Result<NodeId, Refusal> {
    match flags {
        [only] => Ok(*only),
        several => graph.push(Op::Concat { axis: 0 }, several, tag()),
    }
}

/// Most parts of a value that have flags of their own, and the least elements of one.
const PARTS: usize = 16;
const PART: usize = 1 << 13;

/// A value with flags: its number among those that a program stores, and what raises them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marked {
    pub(super) stored: usize,
    pub(super) mark: Mark,
    /// Parts of one size, each with its flag, which cores look at side by side.
    pub(super) parts: usize,
}

impl Marked {
    pub(super) fn new(stored: usize, mark: Mark, elements: usize) -> Marked {
        let fits = |&parts: &usize| elements.is_multiple_of(parts) && elements / parts >= PART;
        Marked {
            stored,
            mark,
            parts: (2..=PARTS).rev().find(fits).unwrap_or(1),
        }
    }
}

/// The program with the flags of `marked` values as one more output, bool in one axis. The program's own steps stay as they are.
pub(super) fn with_flags(
    context: &Context,
    graph: &Graph,
    mut program: Program,
    marked: &[Marked],
) -> Result<Program> {
    let flags = program.locals.len() as u32;
    let count = marked.iter().map(|marked| marked.parts).sum();
    program.locals.push(Local { bytes: count as u64 });
    let mut kinds: HashMap<(Type, Mark), Program> = HashMap::new();
    // By the number of steps before them.
    let mut added: Vec<Vec<Step>> = vec![Vec::new(); program.steps.len() + 1];
    let mut at = 0;
    for marked in marked {
        let stored = program.stored[marked.stored];
        let Type { shape, dtype } = graph.node(stored.node).ty;
        let ty = Type::new(Shape::of(&[marked.parts, shape.elements() / marked.parts]), dtype);
        let kind = match kinds.get(&(ty, marked.mark)) {
            Some(kind) => kind,
            None => {
                let kind = alone(context, ty, marked.mark)?;
                kinds.entry((ty, marked.mark)).or_insert(kind)
            }
        };
        let result = kind.outputs[0].slot;
        let first = program.locals.len() as u32;
        program.locals.extend(kind.locals.iter().copied());
        let moved = |slot: Slot, offset: u64| match slot {
            Slot::Input(_) => (Slot::Local(stored.local), offset),
            slot if slot == result => (Slot::Local(flags), offset + at),
            Slot::Local(local) => (Slot::Local(first + local), offset),
        };
        let steps = kind.steps.iter().map(|step| step.moved(&moved));
        added[stored.after].extend(steps);
        at += marked.parts as u64;
    }
    insert(&mut program, added);
    let ty = Type::new(Shape::of(&[count]), DType::Bool);
    program.outputs.push(Output {
        slot: Slot::Local(flags),
        layout: Layout::contiguous(ty.shape),
        ty,
        tag: tag(),
    });
    Ok(program)
}

/// Adds steps to a program, by the number of its own steps before them.
fn insert(program: &mut Program, added: Vec<Vec<Step>>) {
    let steps = std::mem::take(&mut program.steps);
    let origins = std::mem::take(&mut program.origins);
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
}

/// The program of the flags of rows.
fn alone(context: &Context, ty: Type, mark: Mark) -> Result<Program> {
    let mut graph = Graph::new();
    let x = graph.input(ty);
    let flags = flags(&mut graph, x, mark, Axes::one(1))?;
    graph.output(flags);
    lowered(
        context,
        &rewrite(&graph),
        &[Given::Buffer(Layout::contiguous(ty.shape))],
    )
}
