//! Programs with loops and branches: compiled pieces, and the host between them.

mod repeat;

use super::eager::{Operand, full};
use super::evaluate::{How, compile};
use super::executable::{Arg, Executable, Values, arg};
use super::read;
use crate::context::Context;
use crate::engine::Lane;
use crate::error::Result;
use crate::error::failure::Refusal;
use crate::error::tag::OpTag;
use crate::graph::{Control, Graph, Node, NodeId, Op, Type};
use crate::value::{Constant, Repr, Tensor, Value};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// Plans of a piece for different strides; the one used last comes first.
const PLANS: usize = 8;

/// Where and for whom the pieces run.
pub(super) struct Place<'a> {
    pub(super) context: &'a Context,
    pub(super) scoped: Option<&'a Arc<Lane>>,
    pub(super) tag: Option<OpTag>,
}

/// What was compiled for operands.
type Plan = (SmallVec<[Operand; 4]>, Executable);

/// A graph, compiled for the strides that come.
pub(super) struct Piece {
    graph: Graph,
    how: How,
    plans: Mutex<Vec<Arc<Plan>>>,
}

impl Piece {
    pub(super) fn new(graph: Graph, how: How) -> Piece {
        Piece {
            graph,
            how,
            plans: Mutex::default(),
        }
    }

    pub(super) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Runs it on values and constants.
    pub(super) fn run(&self, place: &Place<'_>, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let args: SmallVec<[Arg<'_>; 8]> = inputs.iter().map(arg).collect();
        let fits = |operands: &[Operand]| {
            operands.len() == inputs.len() && operands.iter().zip(inputs).all(|(one, input)| one.is_of(input))
        };
        let found = {
            let mut plans = self.plans.lock();
            let at = plans.iter().position(|plan| fits(&plan.0));
            at.map(|at| {
                plans[..=at].rotate_right(1);
                Arc::clone(&plans[0])
            })
        };
        let plan = match found {
            Some(plan) => plan,
            None => {
                let operands: SmallVec<[Operand; 4]> = inputs.iter().filter_map(Operand::of).collect();
                let given: SmallVec<[_; 4]> = (operands.iter().zip(0..))
                    .map(|(operand, number)| operand.given(number))
                    .collect();
                let executable = compile(place.context, self.graph.clone(), &given, self.how)?;
                let plan = Arc::new((operands, executable));
                let mut plans = self.plans.lock();
                let least = plans.len().min(PLANS - 1);
                let old = plans.split_off(least);
                plans.insert(0, Arc::clone(&plan));
                // The last holder of a plan calls the backend.
                drop(plans);
                drop(old);
                plan
            }
        };
        let values = plan.1.run(place.context, place.scoped, &args, place.tag)?;
        Ok(values.into_iter().map(Tensor::from_value).collect())
    }
}

impl std::fmt::Debug for Piece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Piece({} nodes)", self.graph.nodes().len())
    }
}

/// A loop or a branch with its graphs compiled.
#[derive(Debug)]
enum Host {
    Repeat(repeat::Repeat),
    While {
        condition: Piece,
        body: Piece,
        carries: usize,
    },
    Unwind {
        condition: Piece,
        body: Piece,
        back: Piece,
        carries: usize,
        captured: usize,
        sums: usize,
    },
    Call(Piece),
    Cond {
        then: Piece,
        otherwise: Piece,
    },
    /// A print, or a call of a closure.
    Effect(Arc<Control>, OpTag),
}

/// Where an operand is: a place in the table of values, or the same number everywhere.
#[derive(Clone, Copy, Debug)]
enum From {
    Table(NodeId),
    Constant(Constant),
}

#[derive(Debug)]
enum Work {
    Piece(Piece),
    Host(Box<Host>),
}

#[derive(Debug)]
struct Stage {
    work: Work,
    operands: Vec<From>,
    /// Which results are kept, and where.
    results: Vec<(usize, NodeId)>,
    /// What no later stage needs.
    last: Vec<NodeId>,
}

/// A graph cut at its loops and branches.
#[derive(Debug)]
pub(crate) struct Staged {
    inputs: Vec<(NodeId, Type)>,
    nodes: usize,
    how: How,
    stages: Vec<Stage>,
    outputs: Vec<From>,
}

impl Staged {
    pub(super) fn is_needed(graph: &Graph) -> bool {
        (graph.nodes().iter()).any(|node| matches!(node.op, Op::Control(_) | Op::Result { .. }))
    }

    /// Of a graph that was rewritten.
    pub(super) fn new(graph: &Graph, how: How) -> Staged {
        let levels = levels(graph);
        let last = levels.iter().copied().max().unwrap_or(0);
        let mut staged = Staged {
            inputs: graph.inputs().iter().map(|&id| (id, graph.node(id).ty)).collect(),
            nodes: graph.nodes().len(),
            how: How {
                name: how.name,
                again: how.again,
                part: true,
                ..How::default()
            },
            stages: Vec::new(),
            outputs: graph.outputs().iter().map(|&id| from(graph, id)).collect(),
        };
        for level in 0..=last {
            staged.piece(graph, &levels, level);
            for (at, node) in graph.nodes().iter().enumerate() {
                if let Op::Control(control) = &node.op
                    && levels[at] == level
                {
                    staged.host(graph, NodeId(at as u32), node, control);
                }
            }
        }
        staged.forget();
        staged
    }

    /// The ops of one level that are no loops, as one graph.
    fn piece(&mut self, graph: &Graph, levels: &[usize], level: usize) {
        let inside = |id: NodeId| {
            levels[id.index()] == level
                && !matches!(graph.node(id).op, Op::Full { .. })
                && is_flat(graph.node(id))
        };
        let ids = || (0..graph.nodes().len()).map(|at| NodeId(at as u32));
        let mut wanted: Vec<NodeId> = graph.outputs().iter().copied().filter(|&id| inside(id)).collect();
        for id in ids().filter(|&id| !inside(id)) {
            wanted.extend(
                graph
                    .node(id)
                    .inputs
                    .iter()
                    .copied()
                    .filter(|&input| inside(input)),
            );
        }
        wanted.sort_unstable();
        wanted.dedup();
        if wanted.is_empty() {
            return;
        }
        let mut piece = Graph::new();
        let mut moved = HashMap::new();
        let mut operands = Vec::new();
        for id in ids().filter(|&id| inside(id)) {
            let node = graph.node(id);
            let inputs: SmallVec<[NodeId; 3]> = (node.inputs.iter())
                .map(|&input| {
                    *moved.entry(input).or_insert_with(|| match from(graph, input) {
                        From::Table(_) => {
                            operands.push(From::Table(input));
                            piece.input(graph.node(input).ty)
                        }
                        From::Constant(_) => piece.copy(graph.node(input), SmallVec::new()),
                    })
                })
                .collect();
            let copy = piece.copy(node, inputs);
            moved.insert(id, copy);
        }
        for id in &wanted {
            piece.output(moved[id]);
        }
        self.stages.push(Stage {
            work: Work::Piece(Piece::new(piece, self.how)),
            operands,
            results: wanted.into_iter().enumerate().collect(),
            last: Vec::new(),
        });
    }

    fn host(&mut self, graph: &Graph, id: NodeId, node: &Node, control: &Arc<Control>) {
        let result = |(at, node): (usize, &Node)| match node.op {
            Op::Result { index, .. } if node.inputs[0] == id => Some((index as usize, NodeId(at as u32))),
            _ => None,
        };
        let how = How {
            again: self.how.again || node.tag.is_gradient(),
            ..self.how
        };
        self.stages.push(Stage {
            work: Work::Host(Box::new(Host::new(control, how, node.tag))),
            operands: node.inputs.iter().map(|&input| from(graph, input)).collect(),
            results: graph.nodes().iter().enumerate().filter_map(result).collect(),
            last: Vec::new(),
        });
    }

    /// Notes where each value is used last.
    fn forget(&mut self) {
        let mut needed: Vec<bool> = vec![false; self.nodes];
        let table = |from: &From| match from {
            From::Table(id) => Some(*id),
            From::Constant(_) => None,
        };
        for id in self.outputs.iter().filter_map(table) {
            needed[id.index()] = true;
        }
        for stage in self.stages.iter_mut().rev() {
            for id in stage.operands.iter().filter_map(table) {
                if !std::mem::replace(&mut needed[id.index()], true) {
                    stage.last.push(id);
                }
            }
        }
    }

    pub(super) fn run(
        &self,
        context: &Context,
        scoped: Option<&Arc<Lane>>,
        args: &[Arg<'_>],
        tag: Option<OpTag>,
    ) -> Result<Values> {
        let place = Place { context, scoped, tag };
        let mut table: Vec<Option<Tensor>> = vec![None; self.nodes];
        for (&(id, ty), arg) in self.inputs.iter().zip(args) {
            table[id.index()] = Some(match *arg {
                Arg::Value(value) => Tensor::from_value(value.clone()),
                Arg::Scalar(bits) => Tensor::constant(ty.shape, ty.dtype, bits),
            });
        }
        for stage in &self.stages {
            let operands: Vec<Tensor> = (stage.operands.iter())
                .map(|from| take(&table, from))
                .collect::<Result<_>>()?;
            for id in &stage.last {
                table[id.index()] = None;
            }
            let results = match &stage.work {
                Work::Piece(piece) => piece.run(&place, &operands)?,
                Work::Host(host) => host.run(&place, operands)?,
            };
            for &(at, id) in &stage.results {
                table[id.index()] = results.get(at).cloned();
            }
        }
        let outputs = self.outputs.iter();
        outputs
            .map(|from| value(context, &take(&table, from)?, tag.unwrap_or(OpTag::NONE)))
            .collect()
    }
}

/// A tensor's elements in a buffer.
fn value(context: &Context, tensor: &Tensor, tag: OpTag) -> Result<Value> {
    match &tensor.repr {
        Repr::Value(value) => Ok(value.clone()),
        Repr::Constant(constant) => full(context, *constant, tag),
        Repr::Lazy(_) | Repr::Failed(_) => Err(missing().into()),
    }
}

fn take(table: &[Option<Tensor>], from: &From) -> Result<Tensor> {
    match from {
        From::Table(id) => table[id.index()].clone().ok_or_else(|| missing().into()),
        From::Constant(constant) => Ok(Tensor::constant(
            constant.ty.shape,
            constant.ty.dtype,
            constant.bits,
        )),
    }
}

fn missing() -> Refusal {
    Refusal::new("a value of the program is missing; this is a defect of the library")
}

fn from(graph: &Graph, id: NodeId) -> From {
    let node = graph.node(id);
    match node.op {
        Op::Full { bits, .. } => From::Constant(Constant { ty: node.ty, bits }),
        _ => From::Table(id),
    }
}

fn is_flat(node: &Node) -> bool {
    !matches!(node.op, Op::Input(_) | Op::Control(_) | Op::Result { .. })
}

/// How many loops or branches lie before each node, one after the other. What has effects is no earlier than those before it.
fn levels(graph: &Graph) -> Vec<usize> {
    let mut levels: Vec<usize> = Vec::with_capacity(graph.nodes().len());
    let mut effects = 0;
    for node in graph.nodes() {
        let before = node
            .inputs
            .iter()
            .map(|input| levels[input.index()])
            .max()
            .unwrap_or(0);
        let mut level = before + usize::from(matches!(node.op, Op::Result { .. }));
        if node.op.has_effects() {
            effects = level.max(effects);
            level = effects;
        }
        levels.push(level);
    }
    levels
}

impl Host {
    fn new(control: &Arc<Control>, how: How, tag: OpTag) -> Host {
        let piece = |body: &crate::graph::Body| Piece::new((**body).clone(), how);
        match &**control {
            Control::Repeat {
                body,
                trips,
                start,
                carries,
                slices,
                reverse,
            } => Host::Repeat(repeat::Repeat {
                body: piece(body),
                trips: *trips,
                start: *start,
                carries: *carries,
                slices: *slices,
                reverse: *reverse,
            }),
            Control::While {
                condition,
                body,
                carries,
            } => Host::While {
                condition: piece(condition),
                body: piece(body),
                carries: *carries,
            },
            Control::Unwind {
                condition,
                body,
                back,
                carries,
                captured,
                sums,
            } => Host::Unwind {
                condition: piece(condition),
                body: piece(body),
                back: piece(back),
                carries: *carries,
                captured: *captured,
                sums: *sums,
            },
            Control::Call { body } => Host::Call(piece(body)),
            Control::Cond { then, otherwise } => Host::Cond {
                then: piece(then),
                otherwise: piece(otherwise),
            },
            Control::Print { .. } | Control::Inspect { .. } => Host::Effect(Arc::clone(control), tag),
        }
    }

    fn run(&self, place: &Place<'_>, mut operands: Vec<Tensor>) -> Result<Vec<Tensor>> {
        match self {
            Host::Repeat(repeat) => repeat.run(place, operands),
            Host::While {
                condition,
                body,
                carries,
            } => {
                while is_true(condition.run(place, &operands)?.first())? {
                    let next = body.run(place, &operands)?;
                    operands.splice(..*carries, next);
                }
                operands.truncate(*carries);
                Ok(operands)
            }
            Host::Unwind {
                condition,
                body,
                back,
                carries,
                captured,
                sums,
            } => {
                let own = operands.split_off(carries + captured + sums);
                let mut sums = operands.split_off(carries + captured);
                let mut passed: Vec<Vec<Tensor>> = Vec::new();
                while is_true(condition.run(place, &operands)?.first())? {
                    let next = body.run(place, &operands)?;
                    passed.push(operands.splice(..*carries, next).collect());
                }
                while let Some(carried) = passed.pop() {
                    let captured = operands[*carries..].iter().cloned();
                    let inputs: Vec<Tensor> = sums
                        .into_iter()
                        .chain(carried)
                        .chain(captured)
                        .chain(own.iter().cloned())
                        .collect();
                    sums = back.run(place, &inputs)?;
                }
                Ok(sums)
            }
            Host::Call(body) => body.run(place, &operands),
            Host::Cond { then, otherwise } => {
                let branch = if is_true(operands.first())? {
                    then
                } else {
                    otherwise
                };
                branch.run(place, &operands[1..])
            }
            Host::Effect(control, tag) => super::effects::run(control, &operands, *tag).map(|()| Vec::new()),
        }
    }
}

/// Waits for a bool.
fn is_true(tensor: Option<&Tensor>) -> Result<bool> {
    match tensor.map(|tensor| &tensor.repr) {
        Some(Repr::Constant(constant)) => Ok(constant.bits != 0),
        Some(Repr::Value(value)) => Ok(read::bits(value.clone(), OpTag::uncounted("item"))? != 0),
        Some(Repr::Lazy(_) | Repr::Failed(_)) | None => Err(missing().into()),
    }
}
