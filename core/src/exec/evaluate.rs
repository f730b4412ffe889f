//! Values of recorded tensors.

use super::executable::{Arg, Executable, Inputs, Values};
use super::linear::{Linear, Structure, traced};
use super::saved::Saving;
use super::staged::Staged;
use super::values::Recipe;
use crate::context::Context;
use crate::error::failure::{Failure, Refusal};
use crate::error::tag::OpTag;
use crate::error::{Error, Result};
use crate::graph::{FastOps, Graph, fast_math_of, rewrite_seen};
use crate::hal::Capability;
use crate::lower::{Bounds, Given, Program, in_parts, lower};
use crate::record::recording::SpanKind;
use crate::record::span;
use crate::value::{Repr, Tensor, Value};
use smallvec::SmallVec;

/// The program of recorded ops.
pub(crate) struct Evaluated {
    structure: Structure,
    constants: Vec<u64>,
    // Which constants are arguments, since they changed before.
    varies: Vec<bool>,
    executable: Executable,
}

/// How a graph is compiled.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    /// The inputs from here on are the same values in every run.
    pub(super) captured: u32,
    /// To the bits that the ops one by one have, whatever the settings allow.
    pub(super) exact: bool,
    /// It computes again, on the way back, what was computed before.
    pub(super) again: bool,
    /// The function that it is the graph of; `None` where that is one op.
    pub(super) name: Option<&'static str>,
    /// It is a part of that function's graph, between loops and branches or in one.
    pub(super) part: bool,
}

impl Default for How {
    fn default() -> How {
        How {
            captured: u32::MAX,
            exact: false,
            again: false,
            name: None,
            part: false,
        }
    }
}

/// Rewrites a graph as the settings of `context` allow, lowers and compiles it for its device.
pub(super) fn compile(context: &Context, graph: Graph, given: &[Given], how: How) -> Result<Executable> {
    let mut saving = Saving::of(context, how);
    saving.graph("traced", &graph);
    if Staged::is_needed(&graph) {
        let rewritten = rewrite_seen(&graph, &mut |pass, graph| saving.pass(pass, graph));
        saving.graph("rewritten", &rewritten);
        return Ok(Executable::staged(Staged::new(&rewritten, how)));
    }
    let fast = context.settings().fast;
    let graph = match fast != FastOps::NONE && !how.exact {
        true => {
            let rewritten = rewrite_seen(&graph, &mut |pass, graph| saving.pass(pass, graph));
            saving.pass("rewritten", &rewritten);
            let fast = fast_math_of(&rewritten, fast);
            saving.pass("fast_math", &fast);
            fast
        }
        false => graph,
    };
    let rewritten = {
        let _span = span::begin(SpanKind::Rewrite, "", graph.nodes().len() as u64);
        rewrite_seen(&graph, &mut |pass, graph| saving.pass(pass, graph))
    };
    let (nodes, left) = (graph.nodes().len(), rewritten.nodes().len());
    tracing::debug!(target: "thalweg::graph", nodes, left, "graph rewritten");
    saving.graph("rewritten", &rewritten);
    let program = lowered(context, &rewritten, given)?;
    saving.program(&rewritten, &program);
    let program = ordered(context, program);
    let inputs = Inputs::captured(how.captured);
    let executable = Executable::compile_traced(context.engine(), &program, inputs)?;
    Ok(saving
        .sources(executable)
        .with_recipe(Recipe::new(graph, given, how)))
}

/// The program of a graph that was rewritten.
pub(super) fn lowered(context: &Context, rewritten: &Graph, given: &[Given]) -> Result<Program> {
    let engine = context.engine();
    let _span = span::begin(SpanKind::Lower, "", rewritten.nodes().len() as u64);
    let program = lower(rewritten, given, &**engine)
        .map_err(|refusal| Failure::tagged(refusal, OpTag::NONE, Some(engine.device())))?;
    let (nodes, steps) = (rewritten.nodes().len(), program.steps.len());
    tracing::debug!(target: "thalweg::lower", nodes, steps, "graph lowered");
    Ok(program)
}

/// The program in the order in which it runs fastest.
pub(super) fn ordered(context: &Context, program: Program) -> Program {
    match context.engine().device().capability(Capability::PartsOfBatches) {
        true => in_parts(program, &Bounds::CACHES),
        false => program,
    }
}

/// The tensor with its elements in a buffer: runs what was recorded, and makes a buffer for a constant. `tag` is who asks.
pub(crate) fn evaluate(tensor: &Tensor, tag: OpTag) -> Result<Value> {
    match &tensor.repr {
        Repr::Value(value) => Ok(value.clone()),
        Repr::Constant(constant) => super::eager::full(&Context::auto()?, *constant, tag),
        Repr::Failed(failure) => Err(failure.clone().into()),
        Repr::Lazy(lazy) => {
            if lazy.trace != 0 {
                return Err(
                    Failure::tagged(traced(), tag, lazy.context.as_ref().map(Context::device)).into(),
                );
            }
            if let Some(value) = lazy.value() {
                return Ok(value.clone());
            }
            run(tensor, tag)
        }
    }
}

/// Recorded tensors with their elements in buffers, computed in one program, which has `effects`.
pub(crate) fn evaluate_all(tensors: &[Tensor], effects: &[Tensor], tag: OpTag) -> Result<Vec<Tensor>> {
    let mut linear = Linear::of(&tensors.iter().collect::<Vec<_>>(), effects, 0, tag)?;
    let context = match linear.context.take() {
        Some(context) => context,
        None => Context::auto()?,
    };
    let values = run_linear(&context, &mut linear)?;
    let evaluated = tensors.iter().zip(values).map(|(tensor, value)| {
        if let Repr::Lazy(lazy) = &tensor.repr {
            lazy.set_value(value.clone());
        }
        Tensor {
            history: tensor.history.clone(),
            ..Tensor::from_value(value)
        }
    });
    Ok(evaluated.collect())
}

fn run(tensor: &Tensor, tag: OpTag) -> Result<Value> {
    let mut linear = Linear::of(&[tensor], &[], 0, tag)?;
    linear.keep_held();
    let context = match linear.context.take() {
        Some(context) => context,
        None => Context::auto()?,
    };
    let mut values = run_linear(&context, &mut linear)?;
    // The first output is the tensor, then come those that are held elsewhere.
    for ((lazy, _), value) in linear.held.drain(..).zip(values.drain(1..)) {
        lazy.set_value(value);
    }
    let value = values
        .pop()
        .ok_or_else(|| Error::from(Refusal::new("the program has no output")))?;
    if let Repr::Lazy(lazy) = &tensor.repr {
        lazy.set_value(value.clone());
    }
    Ok(value)
}

fn run_linear(context: &Context, linear: &mut Linear) -> Result<Values> {
    let engine = context.engine();
    linear.structure.fast = context.settings().fast;
    let (hash, scoped) = (linear.structure.hash(), engine.scoped_lane());
    let bits: Vec<u64> = linear.constants.iter().map(|constant| constant.bits).collect();
    let with_args = |varies: &[bool], executable: &Executable, linear: &Linear| {
        let scalars = bits.iter().zip(varies).filter(|(_, varies)| **varies);
        let args: SmallVec<[Arg<'_>; 16]> = (linear.values.iter().map(Arg::Value))
            .chain(scalars.map(|(bits, _)| Arg::Scalar(*bits)))
            .collect();
        executable.run(context, scoped.as_ref(), &args, None)
    };
    let mut varies = vec![false; bits.len()];
    if let Ok(local) = engine.local().try_borrow() {
        let fixed = |entry: &Evaluated| {
            let mut constants = entry.constants.iter().zip(&bits).zip(&entry.varies);
            constants.all(|((one, other), varies)| one == other || *varies)
        };
        let known = local
            .graphs
            .get(hash, |entry| entry.structure.is_like(&linear.structure));
        match known {
            Some(entry) if fixed(entry) => return with_args(&entry.varies, &entry.executable, linear),
            Some(entry) => {
                let old = entry.constants.iter().zip(&entry.varies);
                varies = old
                    .zip(&bits)
                    .map(|((one, varies), other)| *varies || one != other)
                    .collect();
            }
            None => {}
        }
    }
    let (graph, given) = linear.graph(&[], &varies)?;
    let how = How {
        name: Some("recorded"),
        ..How::default()
    };
    let executable = compile(context, graph, &given, how)?;
    let values = with_args(&varies, &executable, linear)?;
    let entry = Evaluated {
        structure: std::mem::take(&mut linear.structure),
        constants: bits,
        varies,
        executable,
    };
    let replaced = match engine.local().try_borrow_mut() {
        Ok(mut local) => local.graphs.insert(hash, entry),
        Err(_) => None,
    };
    drop(replaced);
    Ok(values)
}
