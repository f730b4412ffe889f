//! Calls of traced functions: a step of gradients each, whose way back is compiled as the call is.

use super::history::{Edge, History, Origin, Saved};
use super::level::Level;
use super::walk::{Cotangents, Extent, Pulled, contribute, walk};
use crate::context::Context;
use crate::exec;
use crate::graph::{Op, Type};
use crate::tensor::failure::Refusal;
use crate::tensor::lazy::Lazy;
use crate::tensor::tag::OpTag;
use crate::tensor::{Repr, Tensor};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::HashSet;
use std::sync::Arc;

/// Which tensors of a call have histories: what is traced for one call serves those with equal marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    levels: u64,
    /// By tensor: one more than the number of the first with the same history; 0 where there is none. Nothing where none has any.
    firsts: SmallVec<[u32; 4]>,
}

impl Marks {
    pub(crate) fn of(tensors: &[&Tensor]) -> Marks {
        let levels = levels(tensors);
        if levels == 0 {
            return Marks::default();
        }
        let pointer = |tensor: &&Tensor| tensor.history.as_ref().map(Arc::as_ptr);
        let first = |tensor: &&Tensor| {
            let own = pointer(tensor)?;
            tensors.iter().position(|other| pointer(other) == Some(own))
        };
        Marks {
            levels,
            firsts: (tensors.iter())
                .map(|tensor| first(tensor).map_or(0, |first| first as u32 + 1))
                .collect(),
        }
    }

    /// Whether gradients are wanted at several levels.
    pub(crate) fn are_nested(&self) -> bool {
        self.levels.count_ones() > 1
    }

    /// What stands for the histories while the function is traced, and a number that later histories exceed.
    pub(crate) fn histories(&self) -> (Vec<Option<Arc<History>>>, u64) {
        let mut made: Vec<Option<Arc<History>>> = Vec::with_capacity(self.firsts.len());
        for (at, &first) in self.firsts.iter().enumerate() {
            made.push(match first as usize {
                0 => None,
                first if first - 1 < at => made[first - 1].clone(),
                _ => Some(History::new(self.levels, OpTag::NONE, Origin::Leaf)),
            });
        }
        (made, History::number())
    }
}

/// The levels under way that gradients of the tensors are wanted at.
pub(crate) fn levels(tensors: &[&Tensor]) -> u64 {
    let levels = tensors.iter().filter_map(|tensor| tensor.history.as_ref());
    levels.fold(0, |levels, history| levels | history.levels) & Level::under_way()
}

/// A traced function whose results have histories, of one level. Those lead to what stands for the arguments, and to what the
/// function captured.
pub(crate) struct Tape {
    trace: u64,
    level: u64,
    /// Histories up to this number are no part of the function.
    outside: u64,
    arguments: Vec<Tensor>,
    results: Vec<Tensor>,
    /// What the ways back read besides arguments; the call returns it after the results.
    kept: Vec<Tensor>,
    /// Which arguments the ways back read.
    read: Vec<bool>,
    ways: Mutex<Vec<(Given, Arc<Way>)>>,
}

/// Which gradients a way back is given.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Given {
    results: Vec<bool>,
    /// What other uses of the arguments gave so far, so that sums have the order that they have without the trace.
    sums: Vec<bool>,
}

/// Whose gradient it is.
enum Target {
    Argument(usize),
    Captured(Arc<History>),
}

/// A way back.
struct Way {
    back: exec::Back,
    targets: Vec<Target>,
    /// Gradients that carry an error.
    failed: Vec<(Target, Tensor)>,
}

impl Tape {
    /// Of what was recorded under the id `trace`, for results whose histories are of one level.
    pub(crate) fn new(trace: u64, outside: u64, arguments: Vec<Tensor>, results: &[&Tensor]) -> Tape {
        let mut tape = Tape {
            trace,
            level: levels(results),
            outside,
            read: vec![false; arguments.len()],
            arguments,
            results: results.iter().map(|&result| result.clone()).collect(),
            kept: Vec::new(),
            ways: Mutex::default(),
        };
        let all = Given {
            results: tape
                .results
                .iter()
                .map(|result| result.history.is_some())
                .collect(),
            sums: vec![false; tape.arguments.len()],
        };
        let (_, pulled) = tape.pull(&all);
        tape.survey(pulled.into_iter().map(|(_, gradient)| gradient).collect());
        tape
    }

    pub(crate) fn kept(&self) -> &[Tensor] {
        &self.kept
    }

    fn context(&self) -> Option<&Context> {
        self.arguments
            .iter()
            .chain(&self.results)
            .find_map(Tensor::context)
    }

    /// Placeholders of what is given, and the gradients, as recorded ops.
    fn pull(&self, given: &Given) -> (Vec<Type>, Vec<(Target, Tensor)>) {
        let mut types = Vec::new();
        let mut number = self.arguments.len() + self.kept.len();
        let mut pending = Cotangents::new();
        let tensors = self.arguments.iter().chain(&self.results);
        let wanted = given.sums.iter().chain(&given.results);
        for (tensor, _) in tensors.zip(wanted).filter(|(_, given)| **given) {
            if let (Ok(ty), Some(history)) = (tensor.ty(), &tensor.history) {
                let gradient = exec::placeholder(number as u32, ty, self.context(), self.trace);
                contribute(&mut pending, history, 0, gradient);
                types.push(ty);
                number += 1;
            }
        }
        let mut ends = exec::trace(|_| {
            Level::always(self.level, |level| {
                let extent = Extent {
                    level,
                    context: self.context().cloned(),
                    stop: &|history| history.id <= self.outside,
                };
                walk(pending, &extent)
            })
        });
        let mut pulled = Vec::new();
        for (at, argument) in self.arguments.iter().enumerate() {
            let found = argument
                .history
                .as_ref()
                .and_then(|history| ends.remove(&history.id));
            if let Some(gradient) = found.as_ref().and_then(|found| found.gradient()) {
                pulled.push((Target::Argument(at), gradient.clone()));
            }
        }
        pulled.extend(ends.into_values().filter_map(|end| {
            let gradient = end.gradient()?.clone();
            Some((Target::Captured(end.history), gradient))
        }));
        (types, pulled)
    }

    /// Chooses what is kept of what the gradients read: results of ops that are not cheap, and what lies in memory anyway. The
    /// rest is computed again, in the kernels that need it.
    fn survey(&mut self, gradients: Vec<Tensor>) {
        let (own, stored) = self.own();
        let mut seen = HashSet::new();
        let mut stack = gradients;
        while let Some(tensor) = stack.pop() {
            let Repr::Lazy(lazy) = &tensor.repr else { continue };
            if !seen.insert(Arc::as_ptr(lazy)) {
                continue;
            }
            if let Op::Input(number) = lazy.op {
                if let Some(read) = self.read.get_mut(number as usize) {
                    *read = true;
                }
                continue;
            }
            let inputs = lazy.inputs().clone();
            let is_own = own.contains(&Arc::as_ptr(lazy))
                || matches!(lazy.op, Op::Result { .. })
                    && inputs
                        .iter()
                        .any(|input| pointer(input).is_some_and(|of| own.contains(&of)));
            if is_own && (is_dear(&lazy.op) || stored.contains(&Arc::as_ptr(lazy))) {
                self.kept.push(tensor.detach());
            } else {
                stack.extend(inputs);
            }
        }
    }

    /// The function's ops, and those of them whose results lie in memory whatever the way back reads.
    fn own(&self) -> (HashSet<*const Lazy>, HashSet<*const Lazy>) {
        let (mut own, mut stored) = (HashSet::new(), HashSet::new());
        let mut store = |tensor: &Tensor| {
            let mut tensor = tensor.clone();
            while let Repr::Lazy(lazy) = &tensor.repr {
                let under = lazy.inputs().first().filter(|_| lazy.op.is_view()).cloned();
                match under {
                    Some(under) => tensor = under,
                    None => {
                        stored.insert(Arc::as_ptr(lazy));
                        break;
                    }
                }
            }
        };
        self.results.iter().for_each(&mut store);
        let mut stack = self.results.clone();
        while let Some(tensor) = stack.pop() {
            let Repr::Lazy(lazy) = &tensor.repr else { continue };
            if own.insert(Arc::as_ptr(lazy)) {
                let inputs = lazy.inputs().clone();
                if is_dear(&lazy.op) && !matches!(lazy.op, Op::Reduce { .. }) {
                    inputs.iter().for_each(&mut store);
                }
                stack.extend(inputs);
            }
        }
        (own, stored)
    }

    fn way(&self, given: Given) -> Result<Arc<Way>, Tensor> {
        let find = |ways: &[(Given, Arc<Way>)]| {
            let found = ways.iter().find(|(of, _)| *of == given);
            found.map(|(_, way)| Arc::clone(way))
        };
        if let Some(way) = find(&self.ways.lock()) {
            return Ok(way);
        }
        let (types, pulled) = self.pull(&given);
        let (failed, pulled): (Vec<_>, Vec<_>) =
            (pulled.into_iter()).partition(|(_, gradient)| matches!(gradient.repr, Repr::Failed(_)));
        let tag = OpTag::new("gradient");
        let inputs = self.arguments.iter().chain(&self.kept);
        let types: Vec<Type> = inputs.filter_map(|input| input.ty().ok()).chain(types).collect();
        let (targets, gradients): (Vec<_>, Vec<_>) = pulled.into_iter().unzip();
        let cut = (self.arguments.len(), self.kept.as_slice());
        let back = exec::Back::cut(self.trace, &types, cut, &gradients, tag)
            .map_err(|error| Tensor::of_error(tag, error, self.context()))?;
        if (0..self.read.len()).any(|at| back.reads(at) && !self.read[at]) {
            let refusal = Refusal::new(
                "a way back reads an argument that was not kept; this is a defect of the library",
            );
            return Err(Tensor::refused(tag, refusal, &[]));
        }
        let way = Arc::new(Way {
            back,
            targets,
            failed,
        });
        let mut ways = self.ways.lock();
        if let Some(first) = find(&ways) {
            return Ok(first);
        }
        ways.push((given, Arc::clone(&way)));
        Ok(way)
    }
}

fn pointer(tensor: &Tensor) -> Option<*const Lazy> {
    match &tensor.repr {
        Repr::Lazy(lazy) => Some(Arc::as_ptr(lazy)),
        Repr::Value(_) | Repr::Constant(_) | Repr::Failed(_) => None,
    }
}

/// Whether a result is kept rather than computed again.
fn is_dear(op: &Op) -> bool {
    match op {
        Op::Reduce { .. }
        | Op::Gather { .. }
        | Op::Scatter { .. }
        | Op::Matmul { .. }
        | Op::Conv(_)
        | Op::ConvGradInput(..)
        | Op::ConvGradWeight(..)
        | Op::Scan { .. }
        | Op::ArgSort { .. }
        | Op::Result { .. } => true,
        // A loop or a branch has no value of its own.
        Op::Control(_)
        | Op::Input(_)
        | Op::Full { .. }
        | Op::Index { .. }
        | Op::Map(_)
        | Op::Cast(_)
        | Op::Rand
        | Op::Permute(_)
        | Op::Expand(_)
        | Op::Reshape(_)
        | Op::Slice { .. }
        | Op::Window { .. }
        | Op::Pad { .. }
        | Op::Concat { .. } => false,
    }
}

/// A call of a traced function.
pub(super) struct Call {
    pub(super) inputs: Vec<Edge>,
    kept: Vec<Tensor>,
    tape: Arc<Tape>,
}

impl Call {
    /// The gradients of what the call refers to, given those of its results; takes what `pending` has for its arguments.
    pub(super) fn pull(&self, given: &[Option<Tensor>], pending: &mut Cotangents, level: Level) -> Pulled {
        let tape = &*self.tape;
        let mut given: Vec<Option<Tensor>> = given.to_vec();
        given.resize(tape.results.len(), None);
        for (result, gradient) in tape.results.iter().zip(&mut given) {
            *gradient = gradient.take().filter(|_| result.history.is_some());
        }
        let sums: Vec<Option<Tensor>> = (self.inputs.iter())
            .map(|input| {
                let history = input.history.as_ref().filter(|history| level.holds(history))?;
                pending.remove(&history.id)?.gradient().cloned()
            })
            .collect();
        let key = Given {
            results: given.iter().map(Option::is_some).collect(),
            sums: sums.iter().map(Option::is_some).collect(),
        };
        let way = match tape.way(key) {
            Ok(way) => way,
            Err(failed) => {
                let wanted = self.inputs.iter().filter_map(|input| input.history.clone());
                return wanted.map(|history| (history, 0, failed.clone())).collect();
            }
        };
        let operand = |(input, read): (&Edge, &bool)| match read {
            true => input.saved.tensor(None),
            false => Tensor::constant(input.saved.ty.shape, input.saved.ty.dtype, 0),
        };
        let operands: Vec<Tensor> = (self.inputs.iter().zip(&tape.read).map(operand))
            .chain(self.kept.iter().cloned())
            .chain(sums.into_iter().chain(given).flatten())
            .collect();
        let gradients = way.back.call(&operands);
        let failed = way
            .failed
            .iter()
            .map(|(target, gradient)| (target, gradient.clone()));
        (way.targets.iter().zip(gradients).chain(failed))
            .filter_map(|(target, gradient)| {
                let history = match target {
                    Target::Argument(at) => self.inputs[*at].history.clone()?,
                    Target::Captured(history) => Arc::clone(history),
                };
                Some((history, 0, gradient))
            })
            .collect()
    }
}

/// Gives the results of a call their histories. `values` are the results, then what the way back reads.
pub(crate) fn record_call(
    tape: &Arc<Tape>,
    inputs: &[&Tensor],
    mut values: Vec<Tensor>,
    tag: OpTag,
) -> Vec<Tensor> {
    let kept = values.split_off(tape.results.len());
    let edge = |(input, read): (&&Tensor, &bool)| {
        Some(Edge {
            saved: Saved::new(input, input.ty().ok()?, *read),
            history: input.history.clone(),
        })
    };
    let call = Call {
        inputs: inputs.iter().zip(&tape.read).filter_map(edge).collect(),
        kept,
        tape: Arc::clone(tape),
    };
    let call = History::new(tape.level, tag, Origin::Call(call));
    for (at, (value, result)) in values.iter_mut().zip(&tape.results).enumerate() {
        if result.history.is_some() {
            value.history = Some(History::new(
                tape.level,
                tag,
                Origin::Result(Arc::clone(&call), at),
            ));
        }
    }
    values
}
