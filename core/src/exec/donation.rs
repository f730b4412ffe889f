//! Arguments that give their memory up: which results take it.

use super::arena::lives;
use super::executable::{Arg, Executable, Inputs, Values};
use crate::context::Context;
use crate::error::Result;
use crate::hal::Buffer;
use crate::hal::ir::{Kernel, Param, Role};
use crate::hal::library::LibraryOp;
use crate::lower::{Argument, Program, Slot, Source, Step};
use crate::value::{Repr, Shared, Tensor};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;

/// A result in the memory of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    input: u32,
    local: u32,
}

/// Whether the step that writes a result at `out` may find the argument `of` there: an input of a kernel that lies exactly where
/// the output does, or the base of a scatter.
fn in_place(step: &Step, of: Slot, out: Slot) -> bool {
    let Step::Launch { source, launch, .. } = step else {
        return false;
    };
    let arguments = &launch.arguments;
    let numbers = |slot: Slot| (0..arguments.len()).filter(move |&number| arguments[number].slot == slot);
    let mut outs = numbers(out);
    let (Some(written), None) = (outs.next(), outs.next()) else {
        return false;
    };
    let alike = |one: usize, other: usize| {
        let (one, other) = (&arguments[one], &arguments[other]);
        let gathers = one.gather != (0, 0) || other.gather != (0, 0);
        !gathers && one.offset == other.offset && strides_agree(one, other, &launch.extents)
    };
    match &**source {
        Source::Kernel(Kernel { params, .. }) => {
            let shape = |param: &Param| (param.dtype, param.level, param.access);
            params[written].role == Role::Out
                && numbers(of)
                    .all(|read| shape(&params[read]) == shape(&params[written]) && alike(read, written))
        }
        Source::Library(LibraryOp::Scatter(_)) => numbers(of).eq([0]) && alike(0, written),
        Source::Library(_) => false,
    }
}

/// Whether both reach the same elements. Along an axis of one element, no stride counts.
fn strides_agree(one: &Argument, other: &Argument, extents: &[u64]) -> bool {
    match (&one.strides, &other.strides) {
        (Some(one), Some(other)) => {
            let mut axes = one.iter().zip(other).zip(extents);
            one.len() == other.len() && axes.all(|((one, other), &extent)| one == other || extent == 1)
        }
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// Results in the memory of arguments that nothing reads when they are written. `size` says how many bytes an argument gives up,
/// and `None` of one that somebody else holds.
fn pairs(program: &Program, inputs: u32, size: &dyn Fn(u32) -> Option<u64>) -> Vec<Pair> {
    let lives = lives(program);
    let shown = |input: u32| {
        program
            .outputs
            .iter()
            .any(|output| output.slot == Slot::Input(input))
    };
    let mut free: Vec<(u32, u64)> = (0..inputs)
        .filter(|&input| !shown(input))
        .filter_map(|input| Some((input, size(input).filter(|&bytes| bytes > 0)?)))
        .collect();
    let mut pairs: Vec<Pair> = Vec::new();
    // What a step reads itself is its own result's before; a second pass takes what earlier steps have done with. Both go by the
    // order of arguments and results, so that a state that a call returns lies where the one that it was given lay.
    for same_step in [true, false] {
        for output in &program.outputs {
            let Slot::Local(local) = output.slot else { continue };
            let Some(&(first, _)) = lives.get(&output.slot) else {
                continue;
            };
            if pairs.iter().any(|pair| pair.local == local) {
                continue;
            }
            let fits = |&(input, bytes): &(u32, u64)| {
                let last = lives.get(&Slot::Input(input)).map(|life| life.1);
                bytes == program.locals[local as usize].bytes
                    && match same_step {
                        true => {
                            last == Some(first)
                                && in_place(&program.steps[first], Slot::Input(input), output.slot)
                        }
                        false => last.is_none_or(|last| last < first),
                    }
            };
            if let Some(at) = free.iter().position(fits) {
                let (input, _) = free.remove(at);
                pairs.push(Pair { input, local });
            }
        }
    }
    pairs
}

/// The program with results in the memory of arguments, and the numbers of these in order. `inputs` is how many there are that may be given
/// up; `size` as in [`pairs`].
pub(super) fn donated(
    mut program: Program,
    inputs: u32,
    size: &dyn Fn(u32) -> Option<u64>,
) -> (Program, Vec<u32>) {
    let pairs = pairs(&program, inputs, size);
    let moved = |slot: Slot| match slot {
        Slot::Local(local) => {
            (pairs.iter().find(|pair| pair.local == local)).map_or(slot, |pair| Slot::Input(pair.input))
        }
        Slot::Input(_) => slot,
    };
    for step in &mut program.steps {
        *step = step.moved(&|slot, offset| (moved(slot), offset));
    }
    for output in &mut program.outputs {
        output.slot = moved(output.slot);
    }
    let mut inputs: Vec<u32> = pairs.iter().map(|pair| pair.input).collect();
    inputs.sort_unstable();
    (program, inputs)
}

/// Bytes that each argument gives up: the whole buffer of a tensor that nobody else holds.
type Sizes = SmallVec<[Option<u64>; 8]>;

fn sizes(leaves: &[&Tensor]) -> Sizes {
    let size = |leaf: &&Tensor| match &leaf.repr {
        Repr::Value(value) => {
            let storage = &value.storage;
            let whole = value.layout.offset == 0 && !storage.buffer.is_imported();
            (whole && storage.written.lane.is_none() && storage.is_alone()).then(|| storage.buffer.size())
        }
        Repr::Constant(_) | Repr::Lazy(_) | Repr::Failed(_) => None,
    };
    leaves.iter().map(size).collect()
}

/// A program that writes results into the memory of arguments.
struct Plan {
    executable: Executable,
    inputs: Arc<[u32]>,
    // Handles of the buffers that are bound for them.
    bound: Vec<u64>,
}

/// What a traced function knows of arguments that it may write.
#[derive(Default)]
pub(super) struct Donations(Mutex<State>);

#[derive(Default)]
struct State {
    /// What the last call gave up.
    seen: Sizes,
    /// What the plan is made for; empty before the first.
    planned: Sizes,
    plan: Option<Plan>,
}

/// The results of a run, and which arguments have no memory any more.
pub(crate) struct Donated {
    pub(crate) values: Values,
    pub(crate) given_up: Arc<[u32]>,
}

impl Plan {
    fn new(plain: &Executable, context: &Context, leaves: &[&Tensor], sizes: &Sizes) -> Result<Option<Plan>> {
        let Some(recipe) = plain.recipe() else {
            return Ok(None);
        };
        let (program, how) = recipe.program(context)?;
        let (program, inputs) = donated(program, leaves.len() as u32, &|input| sizes[input as usize]);
        if inputs.is_empty() {
            return Ok(None);
        }
        let bound = |&input: &u32| Some((input, &storage(leaves, input)?.buffer));
        let buffers: Vec<(u32, &Buffer)> = inputs.iter().filter_map(bound).collect();
        let known = Inputs {
            captured: how.captured,
            bound: &buffers,
        };
        let executable = Executable::compile_traced(context.engine(), &program, known)?;
        Ok(Some(Plan {
            executable: executable.named(how.name.unwrap_or_default()),
            bound: buffers.iter().map(|(_, buffer)| buffer.handle()).collect(),
            inputs: inputs.into(),
        }))
    }

    /// Binds the memory of the arguments, which is that of the last call's results in most calls.
    fn bind(&mut self, leaves: &[&Tensor]) -> Result<()> {
        let Plan {
            executable,
            inputs,
            bound,
        } = self;
        // No two slots may hold the same memory at any time: one that holds what another is to hold takes other memory meanwhile.
        let mut ways = Vec::new();
        for (at, &input) in inputs.iter().enumerate() {
            let Some(storage) = storage(leaves, input) else {
                continue;
            };
            let handle = storage.buffer.handle();
            if bound[at] == handle {
                continue;
            }
            if let Some(other) = bound.iter().position(|&held| held == handle) {
                let bytes = self::storage(leaves, inputs[other]).map_or(0, |storage| storage.buffer.size());
                let way = Buffer::alloc(storage.buffer.device(), bytes)?;
                executable.bind(other, &way)?;
                bound[other] = way.handle();
                ways.push(way);
            }
            executable.bind(at, &storage.buffer)?;
            bound[at] = handle;
        }
        Ok(())
    }
}

fn storage<'a>(leaves: &[&'a Tensor], input: u32) -> Option<&'a Shared> {
    match &leaves[input as usize].repr {
        Repr::Value(value) => Some(&value.storage),
        Repr::Constant(_) | Repr::Lazy(_) | Repr::Failed(_) => None,
    }
}

impl Donations {
    /// Runs what `plain` computes with results in the memory of arguments, which come first in `args`; `None` where there is no
    /// such program or no such argument.
    pub(super) fn run(
        &self,
        plain: &Executable,
        context: &Context,
        leaves: &[&Tensor],
        args: &[Arg<'_>],
    ) -> Option<Result<Donated>> {
        let engine = context.engine();
        // The default stream alone orders what was read of the memory before what is written now. Who looks at values runs other
        // programs on the same arguments.
        if engine.scoped_lane().is_some() || plain.looked_at().is_some() || !engine.is_default_alone() {
            return None;
        }
        let sizes = sizes(leaves);
        let mut state = self.0.lock();
        let State { seen, planned, plan } = &mut *state;
        // Another program is worth it when two calls in a row give up the same.
        if *planned != sizes && (planned.is_empty() || *seen == sizes) {
            *plan = Plan::new(plain, context, leaves, &sizes).unwrap_or_else(|error| {
                tracing::debug!(target: "thalweg::graph", "no results in the memory of arguments: {error}");
                None
            });
            planned.clone_from(&sizes);
        }
        seen.clone_from(&sizes);
        let ready = plan.as_mut()?;
        if (ready.inputs.iter()).any(|&input| sizes[input as usize] != planned[input as usize]) {
            return None;
        }
        if ready.bind(leaves).is_err() {
            *plan = None;
            planned.clear();
            return None;
        }
        let values = ready.executable.submit(context, None, args, None);
        // Also where that failed: what a device did before it refused the rest is found with the stream's errors.
        for &input in &*ready.inputs {
            if let Some(storage) = storage(leaves, input) {
                storage.written.again(&engine.written(None));
            }
        }
        Some(values.map(|values| Donated {
            values,
            given_up: Arc::clone(&ready.inputs),
        }))
    }
}
