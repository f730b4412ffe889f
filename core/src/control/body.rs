//! From a closure to a graph that an op runs.

use crate::context::Context;
use crate::graph::{Graph, NodeId, Op, Type};
use crate::tensor::failure::Refusal;
use crate::tensor::lazy::{self, Lazy};
use crate::tensor::tag::OpTag;
use crate::tensor::{Repr, Tensor};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// A closure's results on placeholders.
pub(crate) struct Trace {
    id: u64,
    types: Vec<Type>,
    outputs: Vec<Tensor>,
    /// What it does beside, in the order of calls.
    effects: Vec<Tensor>,
}

/// Calls `body` with placeholders of `types`; ops on them are recorded.
///
/// # Errors
/// The first error that a result carries.
pub(crate) fn trace(
    types: Vec<Type>,
    context: Option<&Context>,
    body: impl FnOnce(&[Tensor]) -> Vec<Tensor>,
) -> Result<Trace, Tensor> {
    lazy::trace_body(|id| {
        let placeholder = |(ty, number): (&Type, u32)| {
            let op = Op::Input(number);
            let lazy = Lazy::new(op, SmallVec::new(), *ty, OpTag::NONE, context.cloned(), id);
            Tensor::from_lazy(lazy)
        };
        let placeholders: Vec<Tensor> = types.iter().zip(0..).map(placeholder).collect();
        let outputs = body(&placeholders);
        match super::failed(&outputs) {
            Some(failed) => Err(failed),
            None => Ok(Trace {
                id,
                types,
                outputs,
                effects: lazy::take_effects(),
            }),
        }
    })
}

impl Trace {
    /// The types of the results.
    pub(super) fn types(&self) -> Vec<Type> {
        super::types(&self.outputs)
    }

    /// The graph of the results. Its inputs are the placeholders, then `captured`: tensors from outside, to which those are added
    /// that are met here for the first time.
    pub(super) fn close(&self, captured: &mut Vec<Tensor>) -> Result<Graph, Refusal> {
        self.closed(captured, false)
    }

    /// As [`Trace::close`]; recorded ops that depend on no placeholder are part of the graph too.
    pub(crate) fn close_whole(&self, captured: &mut Vec<Tensor>) -> Result<Graph, Refusal> {
        self.closed(captured, true)
    }

    fn closed(&self, captured: &mut Vec<Tensor>, whole: bool) -> Result<Graph, Refusal> {
        let mut graph = Graph::new();
        let placeholders = self.types.iter().map(|&ty| graph.input(ty)).collect();
        let mut closing = Closing {
            graph,
            trace: self.id,
            whole,
            placeholders,
            captured,
            inputs: Vec::new(),
            places: HashMap::new(),
        };
        closing.declare();
        for effect in &self.effects {
            closing.walk(effect)?;
        }
        for output in &self.outputs {
            closing.walk(output)?;
            let id = closing.place(output)?;
            closing.graph.output(id);
        }
        Ok(closing.graph)
    }
}

/// Declares inputs for what was captured after the graph was closed.
pub(super) fn widen(graph: &mut Graph, placeholders: usize, captured: &[Tensor]) {
    let known = graph.inputs().len() - placeholders;
    for ty in super::types(&captured[known..]) {
        graph.input(ty);
    }
}

struct Closing<'a> {
    graph: Graph,
    trace: u64,
    whole: bool,
    placeholders: Vec<NodeId>,
    captured: &'a mut Vec<Tensor>,
    /// Of the captured.
    inputs: Vec<NodeId>,
    places: HashMap<*const Lazy, NodeId>,
}

impl Closing<'_> {
    fn declare(&mut self) {
        for ty in super::types(&self.captured[self.inputs.len()..]) {
            self.inputs.push(self.graph.input(ty));
        }
    }

    /// Puts what `root` needs, and it, in order. Depth costs memory, not stack.
    fn walk(&mut self, root: &Tensor) -> Result<(), Refusal> {
        let mut stack: Vec<(Arc<Lazy>, bool)> =
            self.inner(root).into_iter().map(|lazy| (lazy, false)).collect();
        while let Some((lazy, entered)) = stack.pop() {
            if self.places.contains_key(&Arc::as_ptr(&lazy)) {
                continue;
            }
            let operands: SmallVec<[Tensor; 3]> = lazy.inputs().clone();
            if entered {
                let inputs: SmallVec<[NodeId; 3]> = operands
                    .iter()
                    .map(|operand| self.place(operand))
                    .collect::<Result<_, _>>()?;
                let id = self.graph.push(lazy.op.clone(), &inputs, lazy.tag)?;
                self.places.insert(Arc::as_ptr(&lazy), id);
            } else {
                stack.push((lazy, true));
                stack.extend(
                    operands
                        .iter()
                        .filter_map(|operand| Some((self.inner(operand)?, false))),
                );
            }
        }
        Ok(())
    }

    fn is_inner(&self, lazy: &Lazy) -> bool {
        lazy.trace == self.trace || self.whole && lazy.trace == 0 && lazy.value().is_none()
    }

    /// A recorded op that becomes a node.
    fn inner(&self, tensor: &Tensor) -> Option<Arc<Lazy>> {
        match &tensor.repr {
            Repr::Lazy(lazy) if self.is_inner(lazy) && !matches!(lazy.op, Op::Input(_)) => {
                Some(Arc::clone(lazy))
            }
            _ => None,
        }
    }

    fn place(&mut self, tensor: &Tensor) -> Result<NodeId, Refusal> {
        match &tensor.repr {
            Repr::Constant(constant) => {
                let full = Op::Full {
                    dtype: constant.ty.dtype,
                    bits: constant.bits,
                    shape: constant.ty.shape,
                };
                self.graph.push(full, &[], OpTag::unplaced("full"))
            }
            Repr::Lazy(lazy) if self.is_inner(lazy) => match lazy.op {
                Op::Input(number) => Ok(self.placeholders[number as usize]),
                _ => (self.places.get(&Arc::as_ptr(lazy)).copied())
                    .ok_or_else(|| Refusal::new("an operand was not met")),
            },
            Repr::Lazy(_) | Repr::Value(_) => {
                let at = self.captured.iter().position(|known| is_same(known, tensor));
                let at = at.unwrap_or_else(|| {
                    self.captured.push(tensor.clone());
                    self.declare();
                    self.captured.len() - 1
                });
                Ok(self.inputs[at])
            }
            Repr::Failed(failure) => Err(failure.refusal.clone()),
        }
    }
}

fn is_same(one: &Tensor, other: &Tensor) -> bool {
    let history = |tensor: &Tensor| tensor.history.as_ref().map(Arc::as_ptr);
    let repr = match (&one.repr, &other.repr) {
        (Repr::Lazy(one), Repr::Lazy(other)) => Arc::ptr_eq(one, other),
        (Repr::Value(one), Repr::Value(other)) => {
            one.storage.is(&other.storage) && one.layout == other.layout && one.dtype == other.dtype
        }
        _ => false,
    };
    repr && history(one) == history(other)
}
