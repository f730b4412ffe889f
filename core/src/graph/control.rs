//! Loops and branches, which run graphs, and what else the host does while a graph runs.

use super::effect::{Callback, Printed};
use super::{Graph, Node, NodeId, Op, Type};
use crate::error::failure::Refusal;
use crate::hal::DType;
use crate::types::shape::{Axes, Shape};
use smallvec::{SmallVec, smallvec};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Graphs in graphs, at most.
const MAX_DEPTH: usize = 32;

/// A graph that an op runs. Two are equal when they compute the same in the same way; whose ops they are does not matter.
#[derive(Clone)]
pub struct Body(Arc<Part>);

struct Part {
    graph: Graph,
    hash: u64,
    /// How deep graphs lie in it.
    depth: usize,
    /// Its nodes and those of the graphs that its ops run, each as often as an op names it.
    unrolled: usize,
    /// Whether it prints or calls closures.
    has_effects: bool,
}

impl Body {
    /// A graph as a part of an op.
    pub fn new(graph: Graph) -> Body {
        let mut hasher = DefaultHasher::new();
        let (mut depth, mut unrolled) = (0, graph.nodes().len());
        for node in graph.nodes() {
            (&node.op, &node.inputs, node.ty).hash(&mut hasher);
            for body in node.op.bodies() {
                depth = depth.max(body.0.depth + 1);
                unrolled = unrolled.saturating_add(body.0.unrolled);
            }
        }
        graph.outputs().hash(&mut hasher);
        Body(Arc::new(Part {
            hash: hasher.finish(),
            has_effects: graph.nodes().iter().any(|node| node.op.has_effects()),
            graph,
            depth,
            unrolled,
        }))
    }

    /// Its nodes and those of the graphs that its ops run, each as often as an op names it.
    pub(super) fn unrolled(&self) -> usize {
        self.0.unrolled
    }

    /// The graph without what it prints and the closures that it calls.
    pub(crate) fn silent(&self) -> Body {
        match self.0.has_effects {
            true => Body::new(self.0.graph.silent()),
            false => self.clone(),
        }
    }

    /// The same number for the clones of one body alone, as long as one lives.
    pub(super) fn identity(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    fn inputs_are(&self, types: &[&[Type]]) -> bool {
        let own = self.inputs().iter().map(|&input| self.node(input).ty);
        own.eq(types.iter().flat_map(|types| types.iter().copied()))
    }

    fn output_types(&self) -> Vec<Type> {
        self.outputs()
            .iter()
            .map(|&output| self.node(output).ty)
            .collect()
    }
}

impl Deref for Body {
    type Target = Graph;
    fn deref(&self) -> &Graph {
        &self.0.graph
    }
}

impl PartialEq for Body {
    fn eq(&self, other: &Body) -> bool {
        let same = |(one, other): (&super::Node, &super::Node)| {
            one.op == other.op && one.inputs == other.inputs && one.ty == other.ty
        };
        Arc::ptr_eq(&self.0, &other.0)
            || self.0.hash == other.0.hash
                && self.nodes().len() == other.nodes().len()
                && self.outputs() == other.outputs()
                && self.nodes().iter().zip(other.nodes()).all(same)
    }
}

impl Eq for Body {}

impl Hash for Body {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash.hash(state);
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} nodes, {:016x})", self.nodes().len(), self.0.hash)
    }
}

/// What the host does while a graph runs: a loop, a branch, or an effect. Operands come in groups, in the order of the fields' description; the last group is what the graphs
/// take from outside.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Control {
    /// Runs `body` a known number of times. Operands: carries, slices, captured. `body` takes the index (an i64 scalar), the
    /// carries, one slice of each of the slices along axis 0, and captured; it returns the carries and parts. Results: the
    /// carries of the last run, and the parts of all runs along a new axis 0.
    Repeat {
        /// What is run.
        body: Body,
        /// How often; the extent of axis 0 of slices.
        trips: usize,
        /// The index that belongs to the first slice.
        start: i64,
        /// Number of carries.
        carries: usize,
        /// Number of slices.
        slices: usize,
        /// From the last index to the first.
        reverse: bool,
    },
    /// Runs `body` while `condition` holds. Operands: carries, captured; both graphs take them all. Results: the carries.
    While {
        /// To a bool scalar.
        condition: Body,
        /// To the next carries.
        body: Body,
        /// Number of carries.
        carries: usize,
    },
    /// The way back through a `While`: runs it again, keeps the carries of every run, then runs `back` once for each, last one
    /// first. Operands: carries, captured, sums, and what only `back` takes. `back` takes sums, carries, captured and its own.
    /// Results: the sums.
    Unwind {
        /// Of the loop.
        condition: Body,
        /// Of the loop.
        body: Body,
        /// To the next sums.
        back: Body,
        /// Number of carries.
        carries: usize,
        /// Number of captured operands of the loop.
        captured: usize,
        /// Number of sums.
        sums: usize,
    },
    /// Runs `body` once, apart from what is around: nothing of it is shared with other ops of the graph. Operands and results are the
    /// body's.
    Call {
        /// What is run.
        body: Body,
    },
    /// Runs one of two graphs. Operands: a bool scalar, then what both take. Results: those of the graph.
    Cond {
        /// Where the first operand is true.
        then: Body,
        /// Where it is false.
        otherwise: Body,
    },
    /// Prints: a line of text or an operand each. Operands: those that are shown. It has no results.
    Print {
        /// What is shown, in order.
        items: Vec<Printed>,
    },
    /// Calls a closure of the program with the only operand. It has no results.
    Inspect {
        /// What is called.
        callback: Callback,
    },
}

impl Control {
    /// The graphs that it runs.
    pub(super) fn bodies(&self) -> SmallVec<[&Body; 3]> {
        match self {
            Control::Repeat { body, .. } | Control::Call { body } => smallvec![body],
            Control::While { condition, body, .. } => smallvec![condition, body],
            Control::Unwind {
                condition,
                body,
                back,
                ..
            } => smallvec![condition, body, back],
            Control::Cond { then, otherwise } => smallvec![then, otherwise],
            Control::Print { .. } | Control::Inspect { .. } => smallvec![],
        }
    }

    /// Whether it prints or calls a closure, or a graph that it runs does.
    pub(crate) fn has_effects(&self) -> bool {
        matches!(self, Control::Print { .. } | Control::Inspect { .. })
            || self.bodies().iter().any(|body| body.0.has_effects)
    }

    /// The same without effects in the graphs that it runs.
    fn silent(&self) -> Control {
        let mut silent = self.clone();
        match &mut silent {
            Control::Repeat { body, .. } | Control::Call { body } => *body = body.silent(),
            Control::While { condition, body, .. } => {
                (*condition, *body) = (condition.silent(), body.silent());
            }
            Control::Unwind {
                condition,
                body,
                back,
                ..
            } => (*condition, *body, *back) = (condition.silent(), body.silent(), back.silent()),
            Control::Cond { then, otherwise } => (*then, *otherwise) = (then.silent(), otherwise.silent()),
            Control::Print { .. } | Control::Inspect { .. } => {}
        }
        silent
    }

    /// The types of the results.
    ///
    /// # Errors
    /// A graph does not take the operands, or does not return what the next run takes; graphs lie in graphs more than 32 deep.
    pub fn results(&self, operands: &[Type]) -> Result<Vec<Type>, Refusal> {
        if self.bodies().iter().any(|body| body.0.depth >= MAX_DEPTH) {
            return Err(Refusal::new(format!(
                "graphs lie in graphs more than {MAX_DEPTH} deep"
            )));
        }
        let refuse = || {
            let given: Vec<String> = operands
                .iter()
                .map(|ty| format!("{} {}", ty.dtype, ty.shape))
                .collect();
            Refusal::new(format!("its graphs do not fit to operands {}", given.join(", ")))
        };
        let split = |at: usize| operands.split_at_checked(at).ok_or_else(refuse);
        let truth = Type::new(Shape::SCALAR, DType::Bool);
        match self {
            Control::Repeat {
                body,
                trips,
                start,
                carries: count,
                slices,
                ..
            } => {
                let turns = i64::try_from(*trips).ok();
                if turns.and_then(|turns| start.checked_add(turns)).is_none() {
                    return Err(Refusal::new(format!("{trips} turns from {start}")));
                }
                let (carries, rest) = split(*count)?;
                let (slices, captured) = rest.split_at_checked(*slices).ok_or_else(refuse)?;
                if slices.iter().any(|ty| ty.shape.first() != Some(trips)) {
                    return Err(refuse());
                }
                let first = Axes::one(0);
                let slices: Vec<Type> = slices
                    .iter()
                    .map(|ty| Type::new(ty.shape.without(first), ty.dtype))
                    .collect();
                let index = [Type::new(Shape::SCALAR, DType::I64)];
                let mut results = body.output_types();
                if !body.inputs_are(&[&index, carries, &slices, captured]) || !results.starts_with(carries) {
                    return Err(refuse());
                }
                for part in &mut results[*count..] {
                    let mut extents = part.shape.to_vec();
                    extents.insert(0, *trips);
                    part.shape = Shape::checked(&extents)?;
                }
                Ok(results)
            }
            Control::While {
                condition,
                body,
                carries,
            } => {
                let (carries, captured) = split(*carries)?;
                let fits = condition.inputs_are(&[carries, captured])
                    && condition.output_types() == [truth]
                    && body.inputs_are(&[carries, captured])
                    && body.output_types() == carries;
                if fits { Ok(carries.to_vec()) } else { Err(refuse()) }
            }
            Control::Unwind {
                condition,
                body,
                back,
                carries,
                captured,
                sums,
            } => {
                let (forward, rest) = split(carries.saturating_add(*captured))?;
                let (sums, own) = rest.split_at_checked(*sums).ok_or_else(refuse)?;
                let fits = condition.inputs_are(&[forward])
                    && condition.output_types() == [truth]
                    && body.inputs_are(&[forward])
                    && body.output_types() == forward[..*carries]
                    && back.inputs_are(&[sums, forward, own])
                    && back.output_types() == sums;
                if fits { Ok(sums.to_vec()) } else { Err(refuse()) }
            }
            Control::Call { body } => match body.inputs_are(&[operands]) {
                true => Ok(body.output_types()),
                false => Err(refuse()),
            },
            Control::Cond { then, otherwise } => {
                let (condition, captured) = split(1)?;
                let fits = condition == [truth]
                    && then.inputs_are(&[captured])
                    && otherwise.inputs_are(&[captured])
                    && then.output_types() == otherwise.output_types();
                if fits {
                    Ok(then.output_types())
                } else {
                    Err(refuse())
                }
            }
            Control::Print { items } => {
                let shown = items.iter().filter(|item| **item == Printed::Operand).count();
                match shown == operands.len() {
                    true => Ok(Vec::new()),
                    false => Err(Refusal::new(format!(
                        "{} operands, it shows {shown}",
                        operands.len()
                    ))),
                }
            }
            Control::Inspect { .. } => match operands.len() {
                1 => Ok(Vec::new()),
                count => Err(Refusal::new(format!("{count} operands, it takes 1"))),
            },
        }
    }
}

impl Graph {
    /// The graph without what it prints and the closures that it calls.
    pub(crate) fn silent(&self) -> Graph {
        let mut graph = Graph::new();
        let mut moved: Vec<Option<NodeId>> = Vec::with_capacity(self.nodes().len());
        for node in self.nodes() {
            let inputs = || {
                let inputs = node.inputs.iter().filter_map(|input| moved[input.index()]);
                inputs.collect::<SmallVec<[NodeId; 3]>>()
            };
            let id = match &node.op {
                Op::Input(_) => Some(graph.input(node.ty)),
                Op::Control(control) => match &**control {
                    Control::Print { .. } | Control::Inspect { .. } => None,
                    control if control.has_effects() => {
                        let op = Op::Control(Arc::new(control.silent()));
                        let inputs = inputs();
                        let like = Node { op, ..node.clone() };
                        Some(graph.copy(&like, inputs))
                    }
                    _ => Some(graph.copy(node, inputs())),
                },
                _ => Some(graph.copy(node, inputs())),
            };
            moved.push(id);
        }
        let outputs = self.outputs().iter().filter_map(|output| moved[output.index()]);
        outputs.for_each(|output| graph.output(output));
        graph
    }
}
