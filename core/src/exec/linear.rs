//! Recorded ops in an order in which each comes after its operands.

use super::cache::WordHasher;
use super::eager::Operand;
use crate::context::Context;
use crate::error::Result;
use crate::error::failure::{Failure, Refusal};
use crate::error::tag::OpTag;
use crate::graph::{FastOps, Graph, NodeId, Op, Type};
use crate::lower::Given;
use crate::record::scope::ScopeId;
use crate::value::lazy::Lazy;
use crate::value::{Constant, Repr, Tensor, Value};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

type Map<K, V> = HashMap<K, V, BuildHasherDefault<WordHasher>>;

/// What an operand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ref {
    /// The placeholder of this number.
    Argument(u32),
    Node(u32),
    Value(u32),
    Constant(u32),
}

struct LinearNode {
    op: Op,
    inputs: SmallVec<[Ref; 3]>,
    ty: Type,
    tag: OpTag,
}

/// What a program depends on of recorded ops: all but the values and the bits of constants.
#[derive(Default)]
pub(super) struct Structure {
    nodes: Vec<LinearNode>,
    values: Vec<Operand>,
    constants: Vec<Type>,
    outputs: Vec<Ref>,
    /// As in the settings of the context that runs it.
    pub(super) fast: FastOps,
}

/// Recorded ops and what they are about.
#[derive(Default)]
pub(super) struct Linear {
    pub(super) structure: Structure,
    pub(super) values: Vec<Value>,
    pub(super) constants: Vec<Constant>,
    pub(super) context: Option<Context>,
    /// Recorded ops that something else than these ops still holds, and where they are.
    pub(super) held: Vec<(Arc<Lazy>, u32)>,
}

enum Visit {
    Enter(Arc<Lazy>),
    Leave(Arc<Lazy>),
}

struct Walk {
    linear: Linear,
    /// Placeholders of this trace are arguments; 0 for none.
    trace: u64,
    /// Places of recorded ops, and how often the walk met them.
    places: Map<*const Lazy, (Ref, usize)>,
    values: Map<(usize, u64), SmallVec<[u32; 1]>>,
    stack: Vec<Visit>,
    tag: OpTag,
}

impl Linear {
    /// What `outputs` are computed from, and `effects` before them, down to values, constants and the placeholders of `trace`.
    ///
    /// # Errors
    /// The first error that an output carries; a placeholder of another trace, which `tag` came upon.
    pub(super) fn of(outputs: &[&Tensor], effects: &[Tensor], trace: u64, tag: OpTag) -> Result<Linear> {
        let mut walk = Walk {
            linear: Linear::default(),
            trace,
            places: Map::default(),
            values: Map::default(),
            stack: Vec::new(),
            tag,
        };
        for effect in effects {
            if let Repr::Lazy(lazy) = &effect.repr {
                walk.walk(lazy)?;
            }
        }
        for output in outputs {
            if let Repr::Lazy(lazy) = &output.repr {
                walk.walk(lazy)?;
            }
            let place = walk.place(output)?;
            walk.linear.structure.outputs.push(place);
        }
        let mut linear = walk.linear;
        // Every edge that was met is one reference; the list itself is another.
        linear.held.retain(|(lazy, _)| {
            let met = walk.places.get(&Arc::as_ptr(lazy)).map_or(0, |(_, met)| *met);
            Arc::strong_count(lazy) > met + 1
        });
        Ok(linear)
    }

    /// Makes every recorded op that is held elsewhere an output too.
    pub(super) fn keep_held(&mut self) {
        let outputs = &self.structure.outputs;
        self.held.retain(|(_, at)| !outputs.contains(&Ref::Node(*at)));
        let more: Vec<Ref> = self.held.iter().map(|&(_, at)| Ref::Node(at)).collect();
        self.structure.outputs.extend(more);
    }

    /// The graph, whose inputs are `arguments`, then the values, then the constants that `varies`; and how the values and
    /// constants come to it.
    pub(super) fn graph(
        &self,
        arguments: &[Type],
        varies: &[bool],
    ) -> std::result::Result<(Graph, Vec<Given>), Refusal> {
        let mut graph = Graph::new();
        let mut given = Vec::new();
        let arguments: Vec<NodeId> = arguments.iter().map(|&ty| graph.input(ty)).collect();
        let values: Vec<NodeId> = (self.structure.values.iter())
            .map(|operand| {
                given.push(operand.given(0));
                graph.input(operand.ty())
            })
            .collect();
        let mut constants = Vec::new();
        for (at, constant) in self.constants.iter().enumerate() {
            let Type { shape, dtype } = constant.ty;
            let bits = constant.bits;
            constants.push(if varies.get(at) == Some(&true) {
                given.push(Given::Scalar(graph.inputs().len() as u32));
                graph.input(constant.ty)
            } else {
                graph.push(Op::Full { dtype, bits, shape }, &[], OpTag::unplaced("full"))?
            });
        }
        let mut nodes: Vec<NodeId> = Vec::with_capacity(self.structure.nodes.len());
        let find = |nodes: &[NodeId], place: Ref| match place {
            Ref::Argument(at) => arguments[at as usize],
            Ref::Node(at) => nodes[at as usize],
            Ref::Value(at) => values[at as usize],
            Ref::Constant(at) => constants[at as usize],
        };
        for node in &self.structure.nodes {
            let inputs: SmallVec<[NodeId; 3]> =
                node.inputs.iter().map(|&input| find(&nodes, input)).collect();
            let id = graph.push(node.op.clone(), &inputs, node.tag)?;
            nodes.push(id);
        }
        for &output in &self.structure.outputs {
            graph.output(find(&nodes, output));
        }
        Ok((graph, given))
    }
}

impl Structure {
    pub(super) fn hash(&self) -> u64 {
        let mut hasher = WordHasher::default();
        for node in &self.nodes {
            node.op.hash(&mut hasher);
            node.inputs.hash(&mut hasher);
        }
        self.values.hash(&mut hasher);
        self.outputs.hash(&mut hasher);
        self.fast.hash(&mut hasher);
        hasher.finish()
    }

    /// Whether the same program does for both, but for the bits of constants.
    pub(super) fn is_like(&self, other: &Structure) -> bool {
        let same_node = |(one, other): (&LinearNode, &LinearNode)| {
            one.inputs == other.inputs
                && one.op == other.op
                && one.ty == other.ty
                && one.tag.is_at(&other.tag)
                && serves(one.tag, other.tag)
        };
        self.nodes.len() == other.nodes.len()
            && self.values == other.values
            && self.constants == other.constants
            && self.outputs == other.outputs
            && self.fast == other.fast
            && self.nodes.iter().zip(&other.nodes).all(same_node)
    }
}

/// Whether a program whose ops have the names of `known` serves those of `asked`: of the same scope, or unnamed ones. Numbers of calls
/// may differ, which count on where nobody says that a step begins.
fn serves(known: OpTag, asked: OpTag) -> bool {
    asked.scope == ScopeId::NONE || known.scope == asked.scope
}

impl Walk {
    /// Puts what `root` needs, and it, in order. Depth costs memory, not stack.
    fn walk(&mut self, root: &Arc<Lazy>) -> Result<()> {
        if self.places.contains_key(&Arc::as_ptr(root)) {
            return Ok(());
        }
        self.stack.push(Visit::Enter(Arc::clone(root)));
        while let Some(visit) = self.stack.pop() {
            match visit {
                Visit::Enter(lazy) => self.enter(lazy)?,
                Visit::Leave(lazy) => self.leave(&lazy)?,
            }
        }
        Ok(())
    }

    fn enter(&mut self, lazy: Arc<Lazy>) -> Result<()> {
        if self.places.contains_key(&Arc::as_ptr(&lazy)) {
            return Ok(());
        }
        if let Op::Input(number) = lazy.op {
            if lazy.trace != self.trace || self.trace == 0 {
                let device = lazy.context.as_ref().map(Context::device);
                return Err(Failure::tagged(traced(), self.tag, device).into());
            }
            self.places.insert(Arc::as_ptr(&lazy), (Ref::Argument(number), 0));
            return Ok(());
        }
        let inputs = lazy.inputs();
        if let Some(value) = lazy.value() {
            drop(inputs);
            let place = self.value(value);
            self.places.insert(Arc::as_ptr(&lazy), (place, 0));
            return Ok(());
        }
        self.stack.push(Visit::Leave(Arc::clone(&lazy)));
        for input in inputs.iter() {
            if let Repr::Lazy(input) = &input.repr
                && !self.places.contains_key(&Arc::as_ptr(input))
            {
                self.stack.push(Visit::Enter(Arc::clone(input)));
            }
        }
        Ok(())
    }

    fn leave(&mut self, lazy: &Arc<Lazy>) -> Result<()> {
        if self.places.contains_key(&Arc::as_ptr(lazy)) {
            return Ok(());
        }
        // Between entering and leaving another thread may have evaluated it.
        let inputs = lazy.inputs();
        let place = if let Some(value) = lazy.value() {
            drop(inputs);
            self.value(value)
        } else {
            let inputs = inputs
                .iter()
                .map(|input| self.place(input))
                .collect::<Result<_>>()?;
            let at = self.linear.structure.nodes.len() as u32;
            self.linear.structure.nodes.push(LinearNode {
                op: lazy.op.clone(),
                inputs,
                ty: lazy.ty,
                tag: lazy.tag,
            });
            // A loop or a branch has results, but no value of its own.
            if !matches!(lazy.op, Op::Control(_)) {
                self.linear.held.push((Arc::clone(lazy), at));
            }
            Ref::Node(at)
        };
        self.seen(lazy.context.as_ref());
        self.places.insert(Arc::as_ptr(lazy), (place, 0));
        Ok(())
    }

    fn seen(&mut self, context: Option<&Context>) {
        if self.linear.context.is_none() {
            self.linear.context = context.cloned();
        }
    }

    fn place(&mut self, tensor: &Tensor) -> Result<Ref> {
        match &tensor.repr {
            Repr::Lazy(lazy) => match self.places.get_mut(&Arc::as_ptr(lazy)) {
                Some((place, met)) => {
                    *met += 1;
                    Ok(*place)
                }
                None => Err(Refusal::new("an operand was not met").into()),
            },
            Repr::Value(value) => Ok(self.value(value)),
            Repr::Constant(constant) => {
                let (constants, types) = (&mut self.linear.constants, &mut self.linear.structure.constants);
                // Few graphs have more than a handful; those that do are not searched.
                let known = constants.iter().take(64).position(|known| known == constant);
                Ok(Ref::Constant(known.unwrap_or_else(|| {
                    constants.push(*constant);
                    types.push(constant.ty);
                    constants.len() - 1
                }) as u32))
            }
            Repr::Failed(failure) => Err(Arc::clone(failure).into()),
        }
    }

    fn value(&mut self, value: &Value) -> Ref {
        self.seen(Some(&value.storage.context));
        let key = (value.storage.address(), value.layout.offset);
        let same = self.values.entry(key).or_default();
        let values = &mut self.linear.values;
        let known = same.iter().find(|&&at| {
            let known = &values[at as usize];
            known.layout == value.layout && known.dtype == value.dtype
        });
        Ref::Value(match known {
            Some(&at) => at,
            None => {
                let at = values.len() as u32;
                same.push(at);
                values.push(value.clone());
                self.linear.structure.values.push(Operand::of_value(value));
                at
            }
        })
    }
}

/// Why a placeholder has no value.
pub(super) fn traced() -> Refusal {
    Refusal::new("the value of a traced tensor is not known while the function is traced")
    .help("return it from the function and read it there; choose between tensors with `where_`, loop with `while_loop`")
}
